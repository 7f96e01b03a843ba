package localpg

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// oldest is the first major version that Weir's statements are written for.
const oldest = 14

// binaries is a directory with postgres, initdb and pg_ctl of one version.
type binaries struct {
	dir   string
	major int
}

func (b binaries) path(program string) string { return filepath.Join(b.dir, program) }

// usualPlaces are globs, tried after PATH. The newest version wins, so their
// order does not matter.
var usualPlaces = []string{
	"/usr/lib/postgresql/*/bin",                          // Debian, Ubuntu
	"/usr/pgsql-*/bin",                                   // PGDG on RHEL, Fedora
	"/usr/libexec/postgresql*",                           // Alpine
	"/opt/homebrew/opt/postgresql*/bin",                  // Homebrew, Apple silicon
	"/usr/local/opt/postgresql*/bin",                     // Homebrew, Intel
	"/home/linuxbrew/.linuxbrew/opt/postgresql*/bin",     // Homebrew, Linux
	"/Applications/Postgres.app/Contents/Versions/*/bin", // Postgres.app
	"/Library/PostgreSQL/*/bin",                          // EDB installer
	"/usr/local/pgsql/bin",                               // built from source
}

// findBinaries lists the usable server binaries, newest first. With only set,
// nowhere else is looked.
func findBinaries(ctx context.Context, only []string, extra string) []binaries {
	dirs := only
	if dirs == nil {
		if p, err := exec.LookPath("postgres"); err == nil {
			dirs = append(dirs, filepath.Dir(p))
		}
		for _, glob := range usualPlaces {
			found, _ := filepath.Glob(glob) // the only error is a bad pattern
			dirs = append(dirs, found...)
		}
	}
	fetched, _ := filepath.Glob(extra)
	var all []binaries
	for _, dir := range append(slices.Clone(dirs), fetched...) {
		b, err := inspect(ctx, dir)
		if err == nil && !slices.Contains(all, b) {
			all = append(all, b)
		}
	}
	slices.SortStableFunc(all, func(a, b binaries) int { return b.major - a.major })
	return all
}

var versionLine = regexp.MustCompile(`\(PostgreSQL\) (\d+)`)

// inspect resolves links (PATH often holds only those) and proves that the
// directory has the server itself: a version manager's or a distribution's
// wrapper script needs an environment that the server's user does not have.
func inspect(ctx context.Context, dir string) (binaries, error) {
	postgres, err := filepath.EvalSymlinks(filepath.Join(dir, "postgres"))
	if err != nil {
		return binaries{}, fmt.Errorf("resolve server binary: %w", err)
	}
	b := binaries{dir: filepath.Dir(postgres)}
	for _, program := range []string{"postgres", "initdb", "pg_ctl"} {
		if script, err := isScript(b.path(program)); err != nil || script {
			return binaries{}, fmt.Errorf("use %s: not a server binary", b.path(program))
		}
	}
	out, err := exec.CommandContext(ctx, b.path("postgres"), "--version").Output()
	if err != nil {
		return binaries{}, fmt.Errorf("ask server binary for its version: %w", err)
	}
	m := versionLine.FindSubmatch(out)
	if m == nil {
		return binaries{}, fmt.Errorf("read version from %q: not PostgreSQL", out)
	}
	b.major, err = strconv.Atoi(string(m[1]))
	if err == nil && b.major < oldest {
		err = fmt.Errorf("use PostgreSQL %d: older than %d", b.major, oldest)
	}
	return b, err
}

func isScript(path string) (bool, error) {
	f, err := os.Open(path)
	if err != nil {
		return false, fmt.Errorf("open binary: %w", err)
	}
	defer f.Close()
	var head [2]byte
	if _, err := f.Read(head[:]); err != nil {
		return false, fmt.Errorf("read binary: %w", err)
	}
	return string(head[:]) == "#!", nil
}

// choose picks the binaries for a data directory: those of the version that
// wrote it, or the newest for one that is yet to be made.
func choose(all []binaries, dataDir string) (binaries, error) {
	text, err := os.ReadFile(filepath.Join(dataDir, "PG_VERSION"))
	if os.IsNotExist(err) {
		return all[0], nil
	}
	if err != nil {
		return binaries{}, fmt.Errorf("read version of data directory: %w", err)
	}
	wrote := strings.TrimSpace(string(text))
	var have []string
	for _, b := range all {
		if strconv.Itoa(b.major) == wrote {
			return b, nil
		}
		have = append(have, strconv.Itoa(b.major))
	}
	return binaries{}, fmt.Errorf("%w: %s was written by PostgreSQL %s, this machine has %s; install postgresql-%s, or move the directory away to begin with an empty one",
		ErrVersion, dataDir, wrote, strings.Join(have, ", "), wrote)
}

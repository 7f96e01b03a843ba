package localpg

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// rootDir is where root's server lives: root's home is closed to the user that
// the server runs as.
const rootDir = "/var/lib/weir/postgres"

// DefaultDir is the directory of the operator's server: in the user's home, or
// /var/lib/weir/postgres for root.
func DefaultDir() (string, error) {
	if os.Geteuid() == 0 {
		return rootDir, nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("find home directory for the private server: %w", err)
	}
	return filepath.Join(home, ".local", "share", "weir", "postgres"), nil
}

// owner is whom the server runs as.
type owner struct {
	uid, gid int
	name     string
	drop     bool // we are root and must become this user, since Postgres refuses root
}

func serverOwner() owner {
	if uid := os.Geteuid(); uid != 0 {
		return owner{uid: uid, gid: os.Getegid(), name: "uid " + strconv.Itoa(uid)}
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err1 := strconv.Atoi(u.Uid)
		gid, err2 := strconv.Atoi(u.Gid)
		if err1 == nil && err2 == nil && uid > 0 {
			return owner{uid: uid, gid: gid, name: name, drop: true}
		}
	}
	const overflow = 65534 // the kernel's "nobody" where /etc/passwd has none
	return owner{uid: overflow, gid: overflow, name: "uid " + strconv.Itoa(overflow), drop: true}
}

// command is a program of Postgres as the owner, in its own session so that no
// Ctrl-C of our terminal reaches it, and with none of our environment (PGDATA,
// PGPORT, LC_ALL and others would change what it does).
func (o owner) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = "/"
	cmd.Env = []string{"PATH=/usr/local/bin:/usr/bin:/bin", "LC_ALL=C", "TZ=UTC"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if o.drop {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(o.uid), Gid: uint32(o.gid)}
	}
	return cmd
}

// Command is another program that refuses root, such as a pooler, run as the
// user whom a private server runs as.
func Command(ctx context.Context, name string, args ...string) *exec.Cmd {
	return serverOwner().command(ctx, name, args...)
}

// makeBase creates the directory of one server and proves that the owner can
// enter it. It stays ours: the owner gets directories inside it, so that a
// process of that user cannot make root write through a planted link.
func (o owner) makeBase(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("resolve directory of the private server: %w", err)
	}
	mode := fs.FileMode(0o700)
	if o.drop {
		mode = 0o711
	}
	_, err = os.Stat(dir)
	fresh := errors.Is(err, fs.ErrNotExist)
	if err := os.MkdirAll(dir, mode); err != nil {
		return "", fmt.Errorf("create directory of the private server: %w", err)
	}
	if fresh { // whatever the umask says
		if err := os.Chmod(dir, mode); err != nil {
			return "", fmt.Errorf("open directory of the private server: %w", err)
		}
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return "", fmt.Errorf("resolve directory of the private server: %w", err)
	}
	return dir, o.canEnter(dir)
}

// canEnter looks for a parent that the owner may not traverse.
func (o owner) canEnter(dir string) error {
	for p := dir; ; p = filepath.Dir(p) {
		info, err := os.Stat(p)
		if err != nil {
			return fmt.Errorf("look at directory of the private server: %w", err)
		}
		if !o.maySearch(info) {
			return fmt.Errorf("%w: user %s cannot enter %s (mode %04o) on the way to %s; PostgreSQL refuses to run as root, so name a directory elsewhere, such as %s, or run as an ordinary user",
				ErrUnreachable, o.name, p, info.Mode().Perm(), dir, rootDir)
		}
		if p == filepath.Dir(p) {
			return nil
		}
	}
}

func (o owner) maySearch(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok || !o.drop {
		return true
	}
	perm := info.Mode().Perm()
	switch {
	case int(st.Uid) == o.uid:
		return perm&0o100 != 0
	case int(st.Gid) == o.gid:
		return perm&0o010 != 0
	default:
		return perm&0o001 != 0
	}
}

// makePrivate creates a directory that only the owner (and root) can enter. A
// directory of somebody else, or a link, is refused: in a shared /tmp anyone
// can make one first.
func (o owner) makePrivate(dir string) error {
	err := os.Mkdir(dir, 0o700)
	if err == nil && o.drop {
		err = os.Chown(dir, o.uid, o.gid)
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("create private directory: %w", err)
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return fmt.Errorf("look at private directory: %w", err)
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !info.IsDir() || (ok && int(st.Uid) != o.uid) || info.Mode().Perm()&0o077 != 0 {
		return fmt.Errorf("use %s: it must be a directory of user %s with mode 0700; move it away", dir, o.name)
	}
	return nil
}

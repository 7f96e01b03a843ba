package localpg

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// maxLog is when a start sets the old log aside. Postgres logs a few lines an
// hour here, so one old file is history enough.
const maxLog = 10 << 20

// start runs under start.lock, with no live server on the data directory.
func (c *cluster) start(ctx context.Context) error {
	if err := c.initialize(ctx); err != nil {
		return err
	}
	if c.state.Password == "" {
		c.state.Password = rand.Text()
	}
	for {
		err := c.tryStart(ctx)
		if err == nil {
			break
		}
		// Orphans of a killed server hold its shared memory until they notice;
		// another program may have taken the port in between.
		text := err.Error()
		if !strings.Contains(text, "shared memory block") && !strings.Contains(text, "could not create any TCP/IP sockets") {
			return err
		}
		if pause(ctx, 100*time.Millisecond) != nil {
			return err
		}
	}
	if err := c.afterStart(ctx); err != nil {
		return errors.Join(err, c.stop(ctx))
	}
	c.logStart()
	return nil
}

// initialize makes the data directory beside its place and moves it there, so
// that a kill in the middle leaves nothing that looks like one.
func (c *cluster) initialize(ctx context.Context) error {
	data, made := c.path("data"), c.path("data.new")
	if _, err := os.Stat(filepath.Join(data, "PG_VERSION")); err == nil {
		return nil
	}
	if err := os.Remove(data); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("create data directory where something else is: %w", err)
	}
	if err := os.RemoveAll(made); err != nil {
		return fmt.Errorf("clear half-made data directory: %w", err)
	}
	if err := c.owner.makePrivate(made); err != nil {
		return err
	}
	// The C collation never changes with the operating system's library, so an
	// index outlives an upgrade of it. Trust is narrowed by our own pg_hba.conf.
	args := []string{"-D", made, "-U", role, "--encoding=UTF8", "--locale=C", "--auth=trust"}
	if c.Test {
		args = append(args, "--no-sync")
	}
	out, err := c.owner.command(ctx, c.bin.path("initdb"), args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("initialize data directory: %w: %s", err, bytes.TrimSpace(out))
	}
	if err := os.Rename(made, data); err != nil {
		return fmt.Errorf("move data directory into place: %w", err)
	}
	return nil
}

func (c *cluster) tryStart(ctx context.Context) (err error) {
	if c.state.Port, err = freePort(ctx, c.state.Port); err != nil {
		return err
	}
	if err := errors.Join(c.writeFiles(), c.clearStale()); err != nil {
		return err
	}
	log := c.path("run/postgres.log")
	if info, err := os.Stat(log); err == nil && info.Size() > maxLog {
		if err := os.Rename(log, log+".1"); err != nil {
			return fmt.Errorf("set old server log aside: %w", err)
		}
	}
	before := fileSize(log)
	cmd := c.owner.command(ctx, c.bin.path("pg_ctl"), "start", "-w", "-t", "120", "-s",
		"-D", c.path("data"), "-l", log, "-p", c.bin.path("postgres"),
		"-o", "-c config_file="+shellQuote(c.path("postgresql.conf")))
	cmd.Env = append(cmd.Env, c.Env...)
	// Not a pipe: the server inherits it and would keep our Wait from ending.
	out, err := os.OpenFile(c.path("start.out"), os.O_CREATE|os.O_RDWR|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("open output of pg_ctl: %w", err)
	}
	defer out.Close()
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Run(); err != nil {
		said, _ := os.ReadFile(out.Name()) // best effort: the error stands without it
		return fmt.Errorf("start PostgreSQL: %w: %s %s", err, bytes.TrimSpace(said), logSince(log, before))
	}
	return nil
}

// clearStale removes what a killed server left: its pid may meanwhile belong
// to another process of the same user, and Postgres would then refuse to start.
func (c *cluster) clearStale() error {
	left, _ := filepath.Glob(filepath.Join(c.sock, ".s.PGSQL.*")) // the only error is a bad pattern
	for _, path := range append(left, c.path("data/postmaster.pid")) {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove leftover of a killed server: %w", err)
		}
	}
	return nil
}

func (c *cluster) writeFiles() error {
	text, err := json.Marshal(c.state)
	if err != nil {
		return fmt.Errorf("encode server state: %w", err)
	}
	// The server's user reads the two configuration files; neither is secret.
	return errors.Join(
		replaceFile(c.path("server.json"), text, 0o600),
		replaceFile(c.path("postgresql.conf"), []byte(c.config()), 0o644),
		replaceFile(c.path("pg_hba.conf"), []byte(c.hba()), 0o644),
	)
}

// afterStart sets the password that loopback asks for.
func (c *cluster) afterStart(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, c.socketURL("postgres"))
	if err != nil {
		return fmt.Errorf("connect to the private server: %w", err)
	}
	defer conn.Close(ctx)
	// A standby has its primary's; rand.Text is base32: nothing to quote.
	if _, err := conn.Exec(ctx, "ALTER ROLE "+role+" PASSWORD '"+c.state.Password+"'"); err != nil && sqlState(err) != "25006" {
		return fmt.Errorf("set the loopback password: %w", err)
	}
	if c.IdleStop <= 0 {
		return nil
	}
	return StopWhenIdle(ctx, c.socketURL("postgres"), c.IdleStop)
}

// stop is fast shutdown; nil when no server runs.
func (c *cluster) stop(ctx context.Context) error { return c.shutdown(ctx, "fast") }

func (c *cluster) shutdown(ctx context.Context, mode string) error {
	if _, running := c.postmaster(ctx); !running {
		return nil
	}
	cmd := c.owner.command(ctx, c.bin.path("pg_ctl"), "stop", "-w", "-t", "120", "-s", "-m", mode, "-D", c.path("data"))
	if out, err := cmd.CombinedOutput(); err != nil {
		if _, running := c.postmaster(ctx); !running { // it went by itself in between
			return nil
		}
		return fmt.Errorf("stop PostgreSQL: %w: %s", err, bytes.TrimSpace(out))
	}
	c.Logger.Info("stopped the private PostgreSQL", "dir", c.dir)
	return nil
}

// replaceFile writes beside and renames, so that a reader or a kill never
// meets half a file. The mode holds whatever the umask.
func replaceFile(path string, text []byte, mode fs.FileMode) error {
	tmp := path + ".new"
	if err := os.WriteFile(tmp, text, mode); err != nil {
		return fmt.Errorf("write file: %w", err)
	}
	if err := os.Chmod(tmp, mode); err != nil {
		return fmt.Errorf("open file to its readers: %w", err)
	}
	if err := os.Rename(tmp, path); err != nil {
		return fmt.Errorf("move file into place: %w", err)
	}
	return nil
}

func fileSize(path string) int64 {
	if info, err := os.Stat(path); err == nil {
		return info.Size()
	}
	return 0
}

// logSince is what the server wrote after the given size, at most 4 KiB: why
// it did not start.
func logSince(path string, before int64) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	var tail [4096]byte
	n, _ := f.ReadAt(tail[:], before) // io.EOF is the usual end
	return strings.TrimSpace(string(tail[:n]))
}

func shellQuote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

func shortHash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:6])
}

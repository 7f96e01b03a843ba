package localpg

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

// childDir makes this test binary a second process of the same server: it
// starts, prints the URL, and closes when its standard input ends.
const childDir = "LOCALPG_TEST_CHILD_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		if err := child(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

func child(dir string) error {
	s, err := Start(context.Background(), Options{Dir: dir, Test: true})
	if err != nil {
		return err
	}
	fmt.Println(s.URL("postgres"))
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return err
	}
	return s.Close()
}

// tempDir is a directory that the server's user can enter when we are root,
// which t.TempDir is not, and whose name leaves room for a socket.
func tempDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "localpg-")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return filepath.Join(dir, "pg")
}

func start(t *testing.T, o Options) *Server {
	t.Helper()
	s, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// query runs one statement on a connection of its own.
func query(t *testing.T, url, sql string) string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	var answer string
	if err := conn.QueryRow(t.Context(), sql).Scan(&answer); err != nil {
		t.Fatal(err)
	}
	return answer
}

func answers(url string) bool {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return false
	}
	return conn.Close(ctx) == nil
}

func pidOf(t *testing.T, dir string) int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "data/postmaster.pid"))
	if err != nil {
		t.Fatal(err)
	}
	first, _, _ := strings.Cut(string(text), "\n")
	pid, err := strconv.Atoi(first)
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

func TestStartServesAndCloseStops(t *testing.T) {
	t.Parallel()
	dir := tempDir(t)
	s := start(t, Options{Dir: dir})
	if got := query(t, s.URL("postgres"), `SELECT current_setting('server_encoding') || ' ' || datcollate FROM pg_database WHERE datname = 'template1'`); got != "UTF8 C" {
		t.Errorf("encoding and collation are %q, want UTF8 C", got)
	}
	if got := query(t, s.URL("postgres"), `SELECT concat_ws(' ', current_setting('fsync'), current_setting('full_page_writes'), current_setting('synchronous_commit'))`); got != "on on on" {
		t.Errorf("fsync, full_page_writes, synchronous_commit are %q, want them on", got)
	}
	for range 2 { // the second call finds the database there
		if err := s.EnsureDatabase(t.Context(), "weir"); err != nil {
			t.Fatal(err)
		}
	}
	if got := query(t, s.LoopbackURL("weir"), `SELECT current_database()`); got != "weir" {
		t.Errorf("loopback leads to %q, want weir", got)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if answers(s.URL("postgres")) {
		t.Error("the server answers after the last Close")
	}
	again := start(t, Options{Dir: dir})
	if got := query(t, again.URL("weir"), `SELECT current_database()`); got != "weir" {
		t.Errorf("data did not survive a restart: %q", got)
	}
	sameAddress(t, s, again)
}

// sameAddress fails where a restart has moved a server for nothing: pools would
// not find it. Another program may have its port meanwhile.
func sameAddress(t *testing.T, before, after *Server) {
	t.Helper()
	if before.LoopbackURL("x") == after.LoopbackURL("x") && before.URL("x") == after.URL("x") {
		return
	}
	port := before.c.state.Port
	if free, err := freePort(t.Context(), port); err == nil && free == port {
		t.Errorf("a restart moved the server from %s to %s", before.URL("x"), after.URL("x"))
	}
}

func TestServerIsClosedToOthers(t *testing.T) {
	t.Parallel()
	dir := tempDir(t)
	s := start(t, Options{Dir: dir, Test: true})
	t.Run("loopback wants the password", func(t *testing.T) {
		url := strings.Replace(s.LoopbackURL("postgres"), s.c.state.Password, "guess", 1)
		if _, err := pgx.Connect(t.Context(), url); sqlState(err) != "28P01" {
			t.Errorf("a wrong password gave %v, want invalid_password", err)
		}
	})
	t.Run("runs as somebody unprivileged", func(t *testing.T) {
		for _, name := range []string{"data", "run"} {
			info, err := os.Stat(filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			uid := int(info.Sys().(*syscall.Stat_t).Uid)
			if info.Mode().Perm() != 0o700 || uid == 0 || (os.Geteuid() != 0 && uid != os.Geteuid()) {
				t.Errorf("%s has mode %o and uid %d, want 700 and an ordinary user", name, info.Mode().Perm(), uid)
			}
		}
	})
	// Ctrl-C goes to the terminal's foreground process group.
	t.Run("outside our process group", func(t *testing.T) {
		theirs, err1 := unix.Getpgid(pidOf(t, dir))
		session, err2 := unix.Getsid(pidOf(t, dir))
		ours, err3 := unix.Getsid(0)
		if err := errors.Join(err1, err2, err3); err != nil {
			t.Fatal(err)
		}
		if theirs == unix.Getpgrp() || session == ours {
			t.Errorf("server has group %d and session %d, ours: %d and %d", theirs, session, unix.Getpgrp(), ours)
		}
	})
}

package localpg

import (
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

func TestDataOfAnotherVersionIsRefused(t *testing.T) {
	t.Parallel()
	dir := tempDir(t)
	if err := os.MkdirAll(filepath.Join(dir, "data"), 0o711); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "data/PG_VERSION"), []byte("9\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Start(t.Context(), Options{Dir: dir, Test: true})
	if !errors.Is(err, ErrVersion) || !strings.Contains(err.Error(), "written by PostgreSQL 9,") {
		t.Errorf("Start says %v, want ErrVersion", err)
	}
}

func TestClosedDirectoryIsRefusedBeforeAnythingRuns(t *testing.T) {
	t.Parallel()
	closed := filepath.Join(t.TempDir(), "closed")
	if err := os.MkdirAll(filepath.Join(closed, "pg"), 0o700); err != nil {
		t.Fatal(err)
	}
	other := owner{uid: 54321, gid: 54321, name: "other", drop: true}
	err := other.canEnter(filepath.Join(closed, "pg"))
	if !errors.Is(err, ErrUnreachable) || !strings.Contains(err.Error(), rootDir) {
		t.Errorf("canEnter says %v, want ErrUnreachable and where to go", err)
	}
	if err := serverOwner().canEnter("/tmp"); err != nil {
		t.Errorf("canEnter of an open directory says %v", err)
	}
	if os.Geteuid() != 0 {
		return // an ordinary user runs the server, and it is that user's directory
	}
	if _, err := Start(t.Context(), Options{Dir: filepath.Join(closed, "pg")}); !errors.Is(err, ErrUnreachable) {
		t.Errorf("Start says %v, want ErrUnreachable", err)
	}
}

func TestSomebodyElsesDirectoryIsNotPrivate(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	open, link := filepath.Join(dir, "open"), filepath.Join(dir, "link")
	if err := errors.Join(os.Mkdir(open, 0o700), os.Chmod(open, 0o755), os.Symlink(open, link)); err != nil {
		t.Fatal(err)
	}
	self := owner{uid: os.Geteuid(), gid: os.Getegid(), name: "self"}
	for _, path := range []string{open, link} {
		if err := self.makePrivate(path); err == nil {
			t.Errorf("makePrivate accepts %s", path)
		}
	}
	other := owner{uid: 54321, gid: 54321, name: "other"}
	if err := other.makePrivate(filepath.Join(dir, "mine")); err == nil {
		t.Error("makePrivate accepts a directory of another user")
	}
}

func TestDeepDirectoryStillGetsASocket(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(tempDir(t), strings.Repeat("deep and quoted's/", 7), "pg")
	s := start(t, Options{Dir: dir, Test: true})
	t.Cleanup(func() {
		if err := os.RemoveAll(s.c.sock); err != nil {
			t.Error(err)
		}
	})
	if len(s.c.sock) > 80 || !answers(s.URL("postgres")) {
		t.Errorf("no answer at a socket in %s", s.c.sock)
	}
}

func TestIdleServerStopsItself(t *testing.T) {
	t.Parallel()
	dir := tempDir(t)
	s := start(t, Options{Dir: dir, Test: true})
	conn, err := pgx.Connect(t.Context(), s.URL("postgres")) // before anyone watches: a slow machine may take a second for it
	if err != nil {
		t.Fatal(err)
	}
	if err := StopWhenIdle(t.Context(), s.URL("postgres"), time.Second); err != nil {
		t.Fatal(err)
	}
	pid := pidOf(t, dir)
	if err := pause(t.Context(), 3*time.Second); err != nil {
		t.Fatal(err)
	}
	if commandLine(t.Context(), pid) == "" {
		t.Fatal("the server stopped under a client")
	}
	if err := conn.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	ends(t, pid)
	start(t, Options{Dir: dir, Test: true, IdleStop: time.Second})
	if text, err := os.ReadFile(filepath.Join(dir, "data/postmaster.pid")); err == nil { // or it has ended already
		first, _, _ := strings.Cut(string(text), "\n")
		pid, err = strconv.Atoi(first)
		if err != nil {
			t.Fatal(err)
		}
		ends(t, pid)
	}
}

// ends waits for the end of a server.
func ends(t *testing.T, pid int) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Minute); commandLine(t.Context(), pid) != ""; {
		if time.Now().After(deadline) {
			t.Fatal("the server runs without clients")
		}
		if err := pause(t.Context(), 50*time.Millisecond); err != nil {
			t.Fatal(err)
		}
	}
}

// A crash keeps what was committed, the address, and the settings of one's own.
func TestCrashAndComeBack(t *testing.T) {
	t.Parallel()
	o := Options{Dir: tempDir(t), Test: true, Config: "synchronous_commit = on\n"}
	s := start(t, o)
	conn, err := pgx.Connect(t.Context(), s.LoopbackURL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	if _, err := conn.Exec(t.Context(), "CREATE TABLE kept AS SELECT current_setting('synchronous_commit') AS word"); err != nil {
		t.Fatal(err)
	}
	if err := s.Crash(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), "SELECT 1"); err == nil || answers(s.URL("postgres")) {
		t.Error("the server answers after its crash")
	}
	again := start(t, o)
	if got := query(t, s.LoopbackURL("postgres"), "SELECT word FROM kept"); got != "on" {
		t.Errorf("synchronous_commit was %q, want the setting given", got)
	}
	sameAddress(t, s, again)
}

// A standby follows, lives on when its primary dies, and knows the same passwords.
func TestStandbyTakesOver(t *testing.T) {
	t.Parallel()
	settings := "wal_level = replica\nmax_wal_senders = 4\n"
	first := start(t, Options{Dir: tempDir(t), Test: true, Config: settings})
	if err := first.EnsureDatabase(t.Context(), "before"); err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(first.LoopbackURL("x"))
	if err != nil {
		t.Fatal(err)
	}
	second, err := first.Follow(t.Context(), u.Host, Options{Dir: tempDir(t), Test: true, Config: settings})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := second.Close(); err != nil {
			t.Error(err)
		}
	})
	if got := query(t, second.LoopbackURL("before"), "SELECT pg_is_in_recovery()::text"); got != "true" {
		t.Fatalf("the copy is no standby: %s", got)
	}
	if err := first.EnsureDatabase(t.Context(), "after"); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(5 * time.Minute); !answers(second.LoopbackURL("after")); {
		if time.Now().After(deadline) {
			t.Fatal("the standby does not follow")
		}
		if err := pause(t.Context(), 50*time.Millisecond); err != nil {
			t.Fatal(err)
		}
	}
	if err := first.Crash(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := second.Promote(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := second.EnsureDatabase(t.Context(), "later"); err != nil {
		t.Errorf("the promoted standby takes no writes: %v", err)
	}
}

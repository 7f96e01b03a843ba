package localpg

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"
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
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
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
	s := start(t, Options{Dir: dir, Test: true})
	if got := query(t, s.URL("postgres"), `SELECT current_setting('server_encoding') || ' ' || datcollate FROM pg_database WHERE datname = 'template1'`); got != "UTF8 C" {
		t.Errorf("encoding and collation are %q, want UTF8 C", got)
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
	again := start(t, Options{Dir: dir, Test: true})
	if got := query(t, again.URL("weir"), `SELECT current_database()`); got != "weir" {
		t.Errorf("data did not survive a restart: %q", got)
	}
	if again.URL("x") != s.URL("x") {
		t.Errorf("a restart moved the server from %s to %s: pools would not find it", s.URL("x"), again.URL("x"))
	}
}

func TestLoopbackWantsThePassword(t *testing.T) {
	t.Parallel()
	s := start(t, Options{Dir: tempDir(t), Test: true})
	url := strings.Replace(s.LoopbackURL("postgres"), s.c.state.Password, "guess", 1)
	_, err := pgx.Connect(t.Context(), url)
	if sqlState(err) != "28P01" {
		t.Errorf("a wrong password gave %v, want invalid_password", err)
	}
}

func TestServerRunsAsSomebodyUnprivileged(t *testing.T) {
	t.Parallel()
	dir := tempDir(t)
	start(t, Options{Dir: dir, Test: true})
	info, err := os.Stat(filepath.Join(dir, "data"))
	if err != nil {
		t.Fatal(err)
	}
	st := info.Sys().(*syscall.Stat_t)
	if info.Mode().Perm() != 0o700 || st.Uid == 0 {
		t.Errorf("data directory has mode %o and uid %d, want 700 and not root", info.Mode().Perm(), st.Uid)
	}
	if os.Geteuid() != 0 && int(st.Uid) != os.Geteuid() {
		t.Errorf("data directory belongs to uid %d, want ours", st.Uid)
	}
}

type secondProcess struct {
	cmd  *exec.Cmd
	in   io.Closer
	url  string
	fail *strings.Builder
}

func startChild(t *testing.T, dir string) *secondProcess {
	t.Helper()
	p := &secondProcess{cmd: exec.Command(os.Args[0]), fail: &strings.Builder{}}
	p.cmd.Env = append(os.Environ(), childDir+"="+dir)
	p.cmd.Stderr = p.fail
	in, err1 := p.cmd.StdinPipe()
	out, err2 := p.cmd.StdoutPipe()
	if err := errors.Join(err1, err2, p.cmd.Start()); err != nil {
		t.Fatal(err)
	}
	p.in = in
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // already gone where the test ended it
		_ = p.cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		_ = p.cmd.Wait()
		t.Fatalf("child: %v: %s", err, p.fail)
	}
	p.url = strings.TrimSpace(line)
	return p
}

// leave lets the child close its share and end.
func (p *secondProcess) leave(t *testing.T) {
	t.Helper()
	if err := errors.Join(p.in.Close(), p.cmd.Wait()); err != nil {
		t.Fatalf("child: %v: %s", err, p.fail)
	}
}

func TestLastOfTwoProcessesStops(t *testing.T) {
	t.Parallel()
	dir := tempDir(t)
	s := start(t, Options{Dir: dir, Test: true})
	pid := pidOf(t, dir)
	p := startChild(t, dir)
	if p.url != s.URL("postgres") || pidOf(t, dir) != pid {
		t.Errorf("the second process has a server of its own: %s and %s", p.url, s.URL("postgres"))
	}
	p.leave(t)
	if !answers(s.URL("postgres")) {
		t.Error("the first to leave stopped the other's server")
	}
	p = startChild(t, dir)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if !answers(p.url) {
		t.Error("the first to leave stopped the other's server")
	}
	p.leave(t)
	if answers(p.url) {
		t.Error("the last to leave did not stop the server")
	}
}

func TestManyStartAtOnce(t *testing.T) {
	t.Parallel()
	dir := tempDir(t)
	errs := make(chan error)
	const n = 4
	for range n {
		go func() {
			s, err := Start(t.Context(), Options{Dir: dir, Test: true})
			if err == nil && !answers(s.URL("postgres")) {
				err = errors.New("no answer")
			}
			if err == nil {
				err = s.Close()
			}
			errs <- err
		}()
	}
	for range n {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}

func TestKilledServerIsStartedAgain(t *testing.T) {
	t.Parallel()
	dir := tempDir(t)
	s := start(t, Options{Dir: dir, Test: true})
	pid := pidOf(t, dir)
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	again := start(t, Options{Dir: dir, Test: true})
	if got := pidOf(t, dir); got == pid {
		t.Errorf("pid is still %d", got)
	}
	if !answers(s.URL("postgres")) || !answers(again.URL("postgres")) {
		t.Error("no answer after the restart")
	}
}

func TestKilledProcessLeavesTheServerToTheNext(t *testing.T) {
	t.Parallel()
	dir := tempDir(t)
	p := startChild(t, dir)
	pid := pidOf(t, dir)
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = p.cmd.Wait() // "signal: killed", as asked
	s := start(t, Options{Dir: dir, Test: true})
	if got := pidOf(t, dir); got != pid {
		t.Errorf("pid is %d, want the orphan's %d", got, pid)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if answers(s.URL("postgres")) {
		t.Error("the killed process still counts as a user")
	}
}

func TestForeignPidInPidFileIsNotTheServer(t *testing.T) {
	t.Parallel()
	dir := tempDir(t)
	s := start(t, Options{Dir: dir, Test: true})
	text, err := os.ReadFile(filepath.Join(dir, "data/postmaster.pid"))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	// As after a reboot: the number now belongs to another live process.
	_, rest, _ := strings.Cut(string(text), "\n")
	stale := strconv.Itoa(os.Getpid()) + "\n" + rest
	if err := os.WriteFile(filepath.Join(dir, "data/postmaster.pid"), []byte(stale), 0o644); err != nil {
		t.Fatal(err)
	}
	if again := start(t, Options{Dir: dir, Test: true}); !answers(again.URL("postgres")) {
		t.Error("no answer after the restart")
	}
}

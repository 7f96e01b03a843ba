package localpg

import (
	"bufio"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

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

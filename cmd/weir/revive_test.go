package main

import (
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/sim"
)

// TestPrivatePostgresComesBack: something kills the private server under
// serve, and no other command runs: the node starts it again.
func TestPrivatePostgresComesBack(t *testing.T) {
	t.Parallel()
	s := newStage(t, sim.Options{})
	for _, dir := range []string{s.dir, filepath.Dir(s.dir)} { // root's server runs as another user, who must get in
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	data := filepath.Join(s.dir, "private")
	s.env = append(s.env, "WEIR_DATABASE_URL=", "WEIR_DATA_DIR="+data)
	node := s.serve()
	s.ready(http.StatusOK)
	killed, _ := postmaster(data)
	if err := syscall.Kill(killed, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(patience); ; { // that it was away can be over before anyone looks
		if pid, ok := postmaster(data); ok && pid != killed {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("nobody has started the server again")
		}
		<-time.After(50 * time.Millisecond)
	}
	s.ready(http.StatusOK)
	if err := node.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := node.Wait(); err != nil {
		t.Errorf("serve ended with %v", err)
	}
}

// ready waits until /readyz answers so.
func (s *stage) ready(want int) {
	s.t.Helper()
	deadline := time.After(patience)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		if res, err := http.Get("http://" + s.listen + "/readyz"); err == nil {
			_ = res.Body.Close()
			if res.StatusCode == want {
				return
			}
		}
		select {
		case <-deadline:
			s.t.Fatalf("/readyz never answered %d", want)
		case <-tick.C:
		}
	}
}

// postmaster is the process id of the server in a data directory, if one is
// noted there.
func postmaster(data string) (pid int, ok bool) {
	text, err := os.ReadFile(filepath.Join(data, "data", "postmaster.pid"))
	if err != nil {
		return 0, false
	}
	first, _, whole := strings.Cut(string(text), "\n")
	pid, err = strconv.Atoi(first)
	return pid, whole && err == nil && pid > 0
}

package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/sim"
)

// TestKillAndRestart: kill -9 in the middle of an at-most-once campaign. The
// new node waits out the quarantine and says so; the rows in flight become
// unknown, those that the platform took are settled by their webhooks, the rest
// by the campaign's policy; and the ledger equals the rows.
func TestKillAndRestart(t *testing.T) {
	t.Parallel()
	const n = 1000
	s := newStage(t, sim.Options{
		Latency: sim.Spread{Base: 200 * time.Millisecond, Jitter: 100 * time.Millisecond},
		Sent:    sim.Spread{Base: 300 * time.Millisecond}, Delivered: sim.Spread{Base: 200 * time.Millisecond}, ReadShare: 0.5,
		Numbers: []sim.Number{{ID: scriptNumber, WABA: "waba", Throughput: 250}},
	})
	s.weir("number", "add", scriptNumber, "--waba", "waba", "--limit", "100", "--no-verify")
	s.campaign(n)
	// Ten of its calls hang, so that it dies with some on the wire: those of
	// people 300 to 309.
	if _, err := s.platform.Misbehave(sim.Behavior{Kind: sim.Hang, To: "+491511000030"}); err != nil {
		t.Fatal(err)
	}
	first := s.serve()
	s.hangs()
	if err := first.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = first.Wait()
	s.platform.Behave(0)
	second := exec.Command("weir", "serve", "--unknown-window", "5s")
	second.Env, second.Dir = s.env, s.dir
	talk, err := second.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := second.Start(); err != nil {
		t.Fatal(err)
	}
	said := make(chan string, 1)
	go func() { said <- listenFor(talk) }()
	s.until("finished", 2*time.Minute, func(v campaignView) bool { return v.State == "finished" })
	view := s.until("settled", time.Minute, func(v campaignView) bool {
		return v.Counts["delivered"]+v.Counts["read"]+v.Counts["dead"] == n
	})
	if view.Counts["dead"] == 0 {
		t.Errorf("%v: calls that hung are no dead letters", view.Counts)
	}
	s.holds(n)
	if err := second.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	log := <-said
	if err := second.Wait(); err != nil {
		t.Errorf("serve ended with %v", err)
	}
	for _, want := range []string{"quarantine", "unknown"} {
		if !strings.Contains(log, want) {
			t.Errorf("the restarted node never spoke of %q:\n%s", want, log)
		}
	}
	for _, never := range []string{"+49151", "wamid", "token="} {
		if strings.Contains(log, never) {
			t.Errorf("the log holds %q", never)
		}
	}
}

// hangs waits until the platform keeps a call without an answer.
func (s *stage) hangs() {
	s.t.Helper()
	for deadline := time.Now().Add(patience); ; {
		if slices.ContainsFunc(s.platform.Ledger(), func(e sim.Entry) bool { return e.Outcome == sim.Hung }) {
			return
		}
		if time.Now().After(deadline) {
			s.t.Fatal("no call hangs")
		}
		<-time.After(50 * time.Millisecond)
	}
}

// listenFor reads a log to its end.
func listenFor(r io.Reader) string {
	var all strings.Builder
	for scanner := bufio.NewScanner(r); scanner.Scan(); {
		fmt.Fprintln(&all, scanner.Text())
	}
	return all.String()
}

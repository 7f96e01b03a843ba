package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
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
	const n = 1500
	s := newStage(t, sim.Options{
		Latency: sim.Spread{Base: 200 * time.Millisecond, Jitter: 100 * time.Millisecond},
		Sent:    sim.Spread{Base: 300 * time.Millisecond}, Delivered: sim.Spread{Base: 200 * time.Millisecond}, ReadShare: 0.5,
		Numbers: []sim.Number{{ID: scriptNumber, WABA: "waba", Throughput: 250}},
	})
	s.weir("number", "add", scriptNumber, "--waba", "waba", "--limit", "100", "--no-verify")
	s.campaign(n)
	first := s.serve()
	s.until("a third sent", time.Minute, func(v campaignView) bool { return v.Counts["delivered"]+v.Counts["read"] > n/3 })
	if err := first.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = first.Wait()
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
	s.until("settled", time.Minute, func(v campaignView) bool {
		return v.Counts["delivered"]+v.Counts["read"]+v.Counts["dead"] == n
	})
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
	busiest := 0
	for _, entry := range s.platform.Summary(sim.SummaryQuery{}).Numbers {
		busiest = max(busiest, entry.Busiest)
	}
	if busiest > 100 {
		t.Errorf("%d requests in the busiest second, over the limit of 100", busiest)
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

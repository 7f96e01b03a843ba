package main

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/sim"
)

// TestReplaysAtOnceSendOnce: half of a campaign is refused; then four replays
// are given at the same time, two of them under one id, while the node sends.
// Everybody has the message once, and the campaign ends again.
func TestReplaysAtOnceSendOnce(t *testing.T) {
	t.Parallel()
	const n = 120
	s := newStage(t, sim.Options{
		Latency: sim.Spread{Base: 20 * time.Millisecond}, Sent: sim.Spread{Base: 20 * time.Millisecond}, Delivered: sim.Spread{Base: 20 * time.Millisecond},
		Numbers: []sim.Number{{ID: scriptNumber, WABA: "waba", Throughput: 250}},
	})
	s.weir("number", "add", scriptNumber, "--waba", "waba", "--limit", "100", "--no-verify")
	fault, err := s.platform.Misbehave(sim.Behavior{Kind: sim.Fault, Code: 131026, Probability: 0.5})
	if err != nil {
		t.Fatal(err)
	}
	s.campaign(n)
	s.serve()
	before := s.until("finished", time.Minute, func(v campaignView) bool { return v.State == "finished" })
	if failed := before.Counts["failed"]; failed == 0 || failed == n {
		t.Fatalf("%d of %d failed", failed, n)
	}
	s.platform.Behave(fault)
	var replays sync.WaitGroup
	for _, args := range [][]string{{"--id", "0c5a1d5e-7c1b-4d38-9b53-6a1f3f0b8a11"}, {"--id", "0c5a1d5e-7c1b-4d38-9b53-6a1f3f0b8a11"}, {}, {"--force"}} {
		replays.Go(func() { s.weir(append([]string{"dead", "replay", "--campaign", "c"}, args...)...) })
	}
	replays.Wait()
	s.until("delivered to all", time.Minute, func(v campaignView) bool { return v.State == "finished" && v.Counts["delivered"] == n })
	s.holds(n)
	if moved := strings.Count(s.weir("campaign", "export", "c", "--raw"), ",delivered,1,"); moved != n {
		t.Errorf("%d people are delivered to in one attempt since their last replay, want %d", moved, n)
	}
}

package main

import (
	"context"
	"os/exec"
	"testing"
	"time"

	"github.com/weirhq/weir/dashboards"
	"github.com/weirhq/weir/internal/sim"
)

// TestPanels: a real Prometheus scrapes a running campaign, and every
// expression of every panel has data.
func TestPanels(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("prometheus"); err != nil {
		t.Skip("needs Prometheus: apt-get install prometheus")
	}
	s := newStage(t, sim.Options{
		Latency: sim.Spread{Base: 20 * time.Millisecond}, Sent: sim.Spread{Base: 50 * time.Millisecond},
		Delivered: sim.Spread{Base: 50 * time.Millisecond}, ReadShare: 0.5,
		Numbers: []sim.Number{{ID: scriptNumber, WABA: "waba", Throughput: 80}},
	})
	if _, err := s.platform.Misbehave(sim.Behavior{Kind: sim.Fault, Code: 131026, Probability: 0.1}); err != nil {
		t.Fatal(err)
	}
	s.env = append(s.env, "WEIR_SLACK_URL="+s.platform.URL, "WEIR_NOTIFY_PRIVATE=true") // an endpoint, which takes nothing
	s.weir("number", "add", scriptNumber, "--waba", "waba", "--limit", "40", "--no-verify")
	s.campaign(20_000) // at 32 a second it runs as long as the slowest machine looks
	s.serve()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	p, err := dashboards.StartPrometheus(ctx, t.TempDir(), s.listen)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if err := p.Await(ctx, []dashboards.Panel{{Title: "a first scrape", Exprs: []string{"weir_pause_seconds_count"}}}); err != nil {
		t.Fatal(err)
	}
	s.weir("campaign", "pause", "c")
	s.weir("campaign", "resume", "c")
	panels, err := dashboards.Panels(30 * time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Await(ctx, panels); err != nil {
		t.Error(err)
	}
}

package main

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/sim"
)

// After weir stop --all has returned nothing is sent, by a restarted node
// neither, until weir go; then the rest is, once each.
func TestStopAllIsSilentUntilGo(t *testing.T) {
	t.Parallel()
	const n = 1000
	s := newStage(t, sim.Options{
		Latency: sim.Spread{Base: 50 * time.Millisecond, Jitter: 250 * time.Millisecond},
		Sent:    sim.Spread{Base: 50 * time.Millisecond}, Delivered: sim.Spread{Base: 50 * time.Millisecond},
		Numbers: []sim.Number{{ID: scriptNumber, WABA: "waba", Throughput: 1000}},
	})
	s.weir("number", "add", scriptNumber, "--waba", "waba", "--limit", "100", "--headroom", "0.1", "--no-verify")
	s.campaign(n)
	node := s.serve()
	s.sends(100)
	s.weir("stop", "--all", "--reason", "wrong price")
	q := silence{from: s.instant("confirmed_at")}
	if said := s.refused("campaign", "resume", "c", "--no-verify"); !strings.Contains(said, "weir go") {
		t.Errorf("a resume under the stop says %q", said)
	}
	if said := s.refused("campaign", "test", "c", "--to", "+4915110000000"); !strings.Contains(said, "wrong price") {
		t.Errorf("a test message under the stop says %q", said)
	}
	if err := node.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_ = node.Wait()
	s.serve()
	s.log("NOTHING IS SENT: everything is stopped")
	if view := s.status(); view.State != "paused" || !view.EverythingStopped || view.Reason != "everything is stopped: wrong price" {
		t.Errorf("under the stop it is %s (%s), everything stopped %v", view.State, view.Reason, view.EverythingStopped)
	}
	<-time.After(700 * time.Millisecond) // what breaks the silence comes now
	s.weir("go")
	q.to = s.instant("control_at")
	s.until("finished", time.Minute, func(v campaignView) bool { return v.State == "finished" })
	s.holds(n)
	s.silent([]silence{q})
	if audit := s.weir("audit"); !strings.Contains(audit, "everything_stopped") || !strings.Contains(audit, "everything_released") {
		t.Errorf("the audit says %s", audit)
	}
}

package main

import (
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/sim"
)

// A hand-over that waited for the end of a long lease would leave a number
// without an owner for longer than any machine needs to hand it over.
const (
	longLease     = "3m"
	longLeaseLost = 90 * time.Second
)

// TestHandOver: the node that sends is asked to end in mid-campaign while
// another one waits. It finishes its calls, records them and releases its
// number; nothing becomes unknown, nothing is sent twice, and sending goes on
// at once, as the engine's tests measure: here, long before the lease would run out.
func TestHandOver(t *testing.T) {
	t.Parallel()
	const n = 1000
	s := newStage(t, sim.Options{
		Latency: sim.Spread{Base: 200 * time.Millisecond, Jitter: 200 * time.Millisecond},
		Sent:    sim.Spread{Base: 100 * time.Millisecond}, Delivered: sim.Spread{Base: 100 * time.Millisecond}, ReadShare: 0.5,
		Numbers: []sim.Number{{ID: scriptNumber, WABA: "waba", Throughput: 250}},
	})
	s.weir("number", "add", scriptNumber, "--waba", "waba", "--limit", "100", "--no-verify")
	s.campaign(n)
	owner := s.serve("--listen", freeAddress(t), "--no-webhooks", "--lease-ttl", longLease)
	s.until("begun", time.Minute, func(v campaignView) bool { return v.Counts["pending"] < n })
	s.serve("--lease-ttl", longLease)
	s.ready(http.StatusOK)
	s.until("a third sent", time.Minute, func(v campaignView) bool { return v.Counts["pending"] < 2*n/3 })
	if err := owner.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	asked := time.Now()
	if err := owner.Wait(); err != nil {
		t.Errorf("the node that was asked to end: %v", err)
	}
	view := s.until("finished", time.Minute, func(v campaignView) bool {
		return v.State == "finished" && v.Counts["delivered"]+v.Counts["read"] == n
	})
	if view.Counts["unknown"]+view.Counts["dead"] > 0 {
		t.Errorf("a clean end left %v", view.Counts)
	}
	s.holds(n)
	if gap := longestGap(s.platform.Ledger(), asked); gap > longLeaseLost {
		t.Errorf("nothing was sent for %v: the handover waited for the lease to run out", gap)
	}
}

// longestGap is the longest time without a request after an instant.
func longestGap(ledger []sim.Entry, after time.Time) time.Duration {
	last, longest := after.UnixNano(), int64(0)
	for _, e := range ledger {
		if e.Received > last {
			longest = max(longest, e.Received-last)
			last = e.Received
		}
	}
	return time.Duration(longest)
}

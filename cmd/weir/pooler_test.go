package main

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/pgtest"
	"github.com/weirhq/weir/internal/sim"
)

// TestThroughAPooler: PgBouncer in transaction mode stands before the database,
// and every command goes through it: from the CSV to the proof.
func TestThroughAPooler(t *testing.T) {
	t.Parallel()
	const n = 400
	s := newStage(t, sim.Options{
		Latency: sim.Spread{Base: 20 * time.Millisecond}, Sent: sim.Spread{Base: 50 * time.Millisecond},
		Delivered: sim.Spread{Base: 50 * time.Millisecond}, ReadShare: 0.5,
		Numbers: []sim.Number{{ID: scriptNumber, WABA: "waba", Throughput: 80}},
	})
	s.env = append(s.env, "WEIR_DATABASE_URL="+pgtest.Pooled(t, s.database))
	for _, command := range [][]string{{"campaign", "list"}, {"serve"}, {"migrate", "up"}} {
		if said := s.refused(command...); !strings.Contains(said, "set WEIR_LEASE_DATABASE_URL") {
			t.Errorf("%v says %q", command, said)
		}
	}
	s.env = append(s.env, "WEIR_LEASE_DATABASE_URL="+s.database)
	s.weir("migrate", "up")
	s.weir("number", "add", scriptNumber, "--waba", "waba", "--limit", "80", "--no-verify")
	node := s.serve()
	s.campaign(n, "--at", time.Now().Add(15*time.Second).Format(time.RFC3339)) // River's job starts it, another ends it
	s.until("finished", 2*time.Minute, func(v campaignView) bool {
		return v.State == "finished" && v.Counts["delivered"]+v.Counts["read"] == n
	})
	s.holds(n)
	s.weir("number", "list")
	s.weir("campaign", "list")
	if err := node.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := node.Wait(); err != nil {
		t.Errorf("serve ended with %v", err)
	}
}

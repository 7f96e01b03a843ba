package main

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/engine"
	"github.com/weirhq/weir/internal/sim"
	"github.com/weirhq/weir/internal/store"
)

// TestFleet: three nodes share twenty numbers out while a campaign is sent. The
// third joins late and is given its share, then the first is asked to end and
// leaves its own. Nothing becomes unknown, nothing is sent twice.
func TestFleet(t *testing.T) {
	t.Parallel()
	const people, numbers = 4000, 20 // 20 a second: long enough for the slowest to share and share again
	ids, lines := []string{scriptNumber}, []sim.Number{{ID: scriptNumber, WABA: "waba"}}
	for i := range numbers - 1 {
		ids = append(ids, fmt.Sprint(20_000_000_000_000+i))
		lines = append(lines, sim.Number{ID: ids[i+1], WABA: "waba"})
	}
	s := newStage(t, sim.Options{
		Latency: sim.Spread{Base: 100 * time.Millisecond, Jitter: 100 * time.Millisecond},
		Sent:    sim.Spread{Base: 100 * time.Millisecond}, Delivered: sim.Spread{Base: 100 * time.Millisecond}, ReadShare: 0.5,
		Numbers: lines,
	})
	s.numbers(ids)
	nodes := map[string]*exec.Cmd{}
	join := func(id string, args ...string) {
		nodes[id] = s.serve(append([]string{"--node-id", id, "--lease-ttl", longLease}, args...)...)
	}
	join("first", "--listen", freeAddress(t), "--no-webhooks")
	join("second")
	s.campaign(people, "--number", strings.Join(ids[1:], ","))
	s.shared("first", "second")
	join("third", "--listen", freeAddress(t), "--no-webhooks")
	s.shared("first", "second", "third")
	if err := nodes["first"].Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := nodes["first"].Wait(); err != nil {
		t.Errorf("the node that was asked to end: %v", err)
	}
	s.shared("second", "third")
	if _, err := s.pool().Exec(t.Context(), `UPDATE numbers SET mps_limit = 60`); err != nil { // enough seen: the rest goes fast
		t.Fatal(err)
	}
	view := s.until("finished", time.Minute, func(v campaignView) bool {
		return v.State == "finished" && v.Counts["delivered"]+v.Counts["read"] == people
	})
	if view.Counts["unknown"]+view.Counts["dead"] > 0 {
		t.Errorf("clean handovers left %v", view.Counts)
	}
	s.holds(people)
	var moves int
	var longest float64
	if err := s.pool().QueryRow(t.Context(), `SELECT count(*), coalesce(max(extract(epoch FROM taken.at - gone.at)), 0)::float8
		FROM lease_events gone, LATERAL (SELECT at FROM lease_events e WHERE e.number_id = gone.number_id AND e.kind = 'grant' AND e.id > gone.id ORDER BY e.id LIMIT 1) taken
		WHERE gone.kind = 'release'`).Scan(&moves, &longest); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d clean handovers, the longest left a number without an owner for %.3f s", moves, longest)
	if moves < numbers/2 || longest > longLeaseLost.Seconds() {
		t.Errorf("%d clean handovers, the longest took %.3f s", moves, longest)
	}
}

// numbers adds slow numbers, so that a campaign lasts.
func (s *stage) numbers(ids []string) {
	s.t.Helper()
	db, err := store.Open(s.t.Context(), s.database, store.Options{})
	if err != nil {
		s.t.Fatal(err)
	}
	defer db.Close()
	for _, id := range ids {
		if err := db.AddNumber(s.t.Context(), store.NumberInfo{Number: engine.Number{ID: id, WABA: "waba", Limit: 2}}); err != nil {
			s.t.Fatal(err)
		}
	}
}

// shared waits until these nodes, and no others, own all numbers within one of
// even.
func (s *stage) shared(nodes ...string) {
	s.t.Helper()
	pool, deadline := s.pool(), time.Now().Add(patience)
	for load := map[string]int{}; ; {
		rows, err := pool.Query(s.t.Context(), `SELECT holder FROM number_leases WHERE NOT released AND expires_at > now()`)
		if err != nil {
			s.t.Fatal(err)
		}
		clear(load)
		total := 0
		for rows.Next() {
			var holder string
			if err := rows.Scan(&holder); err != nil {
				s.t.Fatal(err)
			}
			load[holder]++
			total++
		}
		if slices.Equal(slices.Sorted(maps.Keys(load)), nodes) {
			if counts := slices.Sorted(maps.Values(load)); total == 20 && counts[len(counts)-1]-counts[0] <= 1 {
				return
			}
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("numbers by node: %v, want them even over %v", load, nodes)
		}
		<-time.After(50 * time.Millisecond)
	}
}

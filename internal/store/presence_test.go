package store

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirhq/weir/engine"
)

// A node is counted from its first beat, with leases or without, until it has
// not beaten for a TTL or says that it leaves.
func TestCensusCountsTheLiving(t *testing.T) {
	t.Parallel()
	l := newLab(t) // its number has no campaign: nothing needs an owner
	beat := func(node string, leaving bool) engine.Pulse {
		pulse, err := l.Heartbeat(t.Context(), engine.Beat{Node: node, TTL: labTTL, Leaving: leaving})
		l.must(err)
		return pulse
	}
	nodes := func(what string, want ...string) {
		t.Helper()
		census, err := l.Census(t.Context(), labTTL)
		l.must(err)
		if diff := cmp.Diff(engine.Census{Nodes: append([]string{}, want...), Apart: []string{}}, census); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	nodes("nobody has beaten")
	want := scalar[string](l, `SELECT cluster_identity()`)
	if pulse := beat("b", false); pulse.Cluster != want || len(pulse.Held) != 0 {
		t.Errorf("a pulse without leases: %+v, want cluster %s", pulse, want)
	}
	beat("a", false)
	beat("a", false)
	nodes("two beat", "a", "b")
	l.exec(`UPDATE nodes SET seen_at = now() - interval '10.1 s' WHERE id = 'b'`)
	nodes("b is silent", "a")
	beat("b", false)
	beat("a", true)
	beat("a", true)
	nodes("a has left", "b")
	l.exec(`UPDATE nodes SET seen_at = now() - interval '2 days'`)
	l.exec(`INSERT INTO nodes (id, seen_at) VALUES ('dead', now() - interval '2 days'), ('away', now() - interval '1 hour')`)
	beat("b", false)
	nodes("b is back", "b")
	if got := scalar[string](l, `SELECT string_agg(id, ' ' ORDER BY id) FROM nodes`); got != "away b" {
		t.Errorf("nodes on record: %s, want the one that died long ago forgotten", got)
	}
	if !scalar[bool](l, `SELECT up_since > now() - interval '1 min' FROM nodes WHERE id = 'b'`) {
		t.Error("a node that was away counts as up since before")
	}
}

// A node that leaves drains its lanes under leases that live.
func TestALeavingNodeKeepsItsLeases(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.exec(`UPDATE number_leases SET expires_at = now() + interval '1 min'`)
	pulse, err := l.Heartbeat(t.Context(), engine.Beat{Node: "node", TTL: time.Hour, Leases: []engine.LeaseID{l.lease}, Leaving: true})
	l.must(err)
	if len(pulse.Held) != 1 || !scalar[bool](l, `SELECT expires_at > now() + interval '50 min' FROM number_leases`) {
		t.Errorf("pulse %+v: the lease of a node that leaves was not renewed", pulse)
	}
}

// Beats of a fleet do not wait for one another's housekeeping.
func TestBeatsOfAFleetDoNotDeadlock(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	for range 20 {
		l.exec(`INSERT INTO nodes (id, seen_at) SELECT 'dead-' || i, now() - interval '2 days' FROM generate_series(1, 50) i ON CONFLICT DO NOTHING`)
		race(8, func(i int) {
			if _, err := l.Heartbeat(t.Context(), engine.Beat{Node: fmt.Sprint("n", i), TTL: labTTL}); err != nil {
				t.Error(err)
			}
		})
	}
	if n := scalar[int](l, `SELECT count(*) FROM nodes`); n != 8 {
		t.Errorf("%d nodes on record, want the 8 that live", n)
	}
}

// Whatever else the node does with Postgres, and however long that takes, a
// heartbeat goes through.
func TestAHeartbeatWaitsForNobody(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	for _, p := range []*pool{l.pool, l.leases} {
		for range p.Config().MaxConns {
			conn, err := p.Acquire(t.Context())
			l.must(err)
			defer conn.Release()
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	pulse, err := l.Heartbeat(ctx, engine.Beat{Node: "node", TTL: labTTL, Leases: []engine.LeaseID{l.lease}})
	if err != nil || len(pulse.Held) != 1 {
		t.Errorf("%+v, %v", pulse, err)
	}
}

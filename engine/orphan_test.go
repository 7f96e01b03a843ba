package engine

import (
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// After kill -9: the restarted node says that it waits, then its first act
// is to turn what was in flight into unknown.
func TestARestartAfterKillWaitsAndSaysSo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newMemory(time.Millisecond, number(100, 0.2))
		store.campaign(1, 0, 1000)
		orphan(t, store)
		died, log, api := time.Now(), &logbook{}, &ledger{latency: 100 * time.Millisecond}
		reg := prometheus.NewRegistry()
		stop := startNode(t, Options{Store: store, Sender: api, ID: "a-2", Registry: reg, Logger: slog.New(slog.NewTextHandler(log, nil))})
		time.Sleep(5 * time.Second)
		for _, want := range []string{"silent", "takes over after the quarantine", "holder=dead ", "wait=1"} { // said after 3 s of silence
			if got := log.String(); strings.Count(got, want) != 1 {
				t.Errorf("within 5 s the log does not say %q once:\n%s", want, got)
			}
		}
		time.Sleep(15 * time.Second)
		if owned, _ := series(t, reg, "weir_lease_owned"); owned != 1 {
			t.Errorf("weir_lease_owned has %d series while the lease is held", owned)
		}
		for name, want := range map[string]float64{"weir_reclaimed_rows_total": 20, "weir_nodes": 1} {
			if _, got := series(t, reg, name); got != want {
				t.Errorf("%s is %v, want %v", name, got, want)
			}
		}
		if took := api.sends()[0].at.Sub(died); took < 14*time.Second || took > 16*time.Second {
			t.Errorf("first call %v after the kill", took)
		}
		stop()
		if n := store.counts(1); n[Unknown] != 20 || n[Sending] != 0 || len(api.twice()) > 0 {
			t.Errorf("%v", n)
		}
		for _, want := range []string{"waiting out the last owner's quarantine", "rows=20"} {
			if !strings.Contains(log.String(), want) {
				t.Errorf("the log does not say %q:\n%s", want, log)
			}
		}
		if left, _ := series(t, reg, "weir_results_total"); left != 0 {
			t.Errorf("%d series of results outlive the lease", left)
		}
	})
}

// series is how many series of that name there are, and what they add up to.
func series(t *testing.T, reg *prometheus.Registry, name string) (n int, sum float64) {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == name {
				n, sum = n+1, sum+m.GetGauge().GetValue()+m.GetCounter().GetValue()
			}
		}
	}
	return n, sum
}

// orphan leaves what a node killed with 20 claimed rows leaves, and returns
// its lease.
func orphan(t *testing.T, store *memory) LeaseID {
	t.Helper()
	grant, err := store.Acquire(t.Context(), Bid{Node: "dead", Seen: Candidate{Number: testNumber}, TTL: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	ask := Ask{Lease: grant.Lease, Seq: 1, Free: 20, Slices: []Slice{{Campaign: 1, Share: 20}}}
	if rows, err := store.Claim(t.Context(), ask); err != nil || len(rows) != 20 {
		t.Fatalf("claimed %d rows, %v", len(rows), err)
	}
	return grant.Lease
}

// Postgres is away for a little more than a TTL before the first heartbeat,
// and back before the second: the lease has run out when it is asked to reclaim
// and lives again soon after. A reclaim that its fence refused must be repeated.
func TestAReclaimThatWasRefusedIsRepeated(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newMemory(time.Millisecond, number(100, 0.2))
		store.campaign(1, 0, 1000)
		dead := orphan(t, store)
		var refused, claimed time.Time
		store.before = func(op string, _ any) error {
			n := store.numbers[testNumber]
			lapsed := n.lease != dead && !time.Now().Before(n.expires)
			switch {
			case op == "reclaim" && refused.IsZero() && lapsed:
				refused = time.Now()
			case op == "reclaim" && refused.IsZero(), op == "heartbeat" && (refused.IsZero() || time.Since(refused) < 2*time.Second):
				return errDown
			case op == "claim" && claimed.IsZero():
				claimed = time.Now()
			}
			return nil
		}
		log := &logbook{}
		stop := startNode(t, Options{Store: store, Sender: &ledger{}, ID: "b", Logger: slog.New(slog.NewTextHandler(log, nil))})
		time.Sleep(50 * time.Second)
		synctest.Wait()
		if refused.IsZero() || claimed.Before(refused) || store.grants != 2 {
			t.Fatalf("refused at %v, first claim at %v, %d grants:\n%s", refused, claimed, store.grants, log)
		}
		if n := store.counts(1); n[Unknown] != 20 || n[Sending] != 0 {
			t.Errorf("with the lease held: %v, want the dead owner's 20 rows unknown", n)
		}
		if !strings.Contains(log.String(), ErrNotReady.Error()) {
			t.Errorf("the log does not say why it waits:\n%s", log)
		}
		stop()
	})
}

// lazy is a store that every other heartbeat reaches late, though in time.
type lazy struct {
	*memory
	beats atomic.Int64
}

func (l *lazy) Heartbeat(ctx context.Context, beat Beat) (Pulse, error) {
	if l.beats.Add(1)%2 == 0 {
		pause(ctx, 900*time.Millisecond)
	}
	return l.memory.Heartbeat(ctx, beat)
}

// Nodes that wait beside a living owner have nothing to say.
func TestAHealthyFleetIsNotCalledSilent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &lazy{memory: newMemory(time.Millisecond, number(10, 0.2))}
		store.campaign(1, 0, 10_000)
		stopOwner := startNode(t, Options{Store: store, Sender: &ledger{}, ID: "a"})
		time.Sleep(time.Second)
		log := &logbook{}
		stopOther := startNode(t, Options{Store: store, Sender: &ledger{}, ID: "b", Logger: slog.New(slog.NewTextHandler(log, nil))})
		time.Sleep(5 * time.Minute)
		stopOther()
		stopOwner()
		if log.String() != "" {
			t.Errorf("five minutes beside a living owner:\n%s", log)
		}
	})
}

// A lease that ran out before this node started is spoken of at first sight.
func TestAnOldLeaseIsSpokenOfAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newMemory(time.Millisecond, number(100, 0.2))
		store.campaign(1, 0, 100)
		orphan(t, store)
		time.Sleep(time.Hour)
		log := &logbook{}
		stop := startNode(t, Options{Store: store, Sender: &ledger{}, ID: "b", Logger: slog.New(slog.NewTextHandler(log, nil))})
		time.Sleep(time.Second)
		if got := log.String(); strings.Count(got, "silent") != 1 || !strings.Contains(got, "holder=dead") || !strings.Contains(got, "wait=14s") {
			t.Errorf("log after a second:\n%s", got)
		}
		stop()
	})
}

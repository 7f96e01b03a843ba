package engine

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

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
	beats int
}

func (l *lazy) Heartbeat(ctx context.Context, ttl time.Duration, ids []LeaseID) ([]LeaseID, error) {
	if l.beats++; l.beats%2 == 0 {
		pause(ctx, 900*time.Millisecond)
	}
	return l.memory.Heartbeat(ctx, ttl, ids)
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

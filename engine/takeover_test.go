package engine

import (
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

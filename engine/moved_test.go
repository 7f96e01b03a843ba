package engine

import (
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A promoted standby or a restored backup may have forgotten what was sent.
// From the heartbeat that tells of it nothing is written, whatever it says of
// the leases; the answers that are owed are recorded; nothing is released, so
// that others wait out what may still be on its way. An operator's word lets
// sending go on.
func TestAnotherDatabaseEndsEveryLane(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const people = 1500
		store := newMemory(time.Millisecond, number(40, 0.2), Number{ID: "second", Limit: 40})
		store.campaign(1, 0, people)
		api, log := &ledger{latency: 3 * time.Second}, &logbook{}
		stop := startNode(t, Options{Store: store, Sender: api, ID: "a", Logger: slog.New(slog.NewTextHandler(log, nil))})
		time.Sleep(11 * time.Second)
		var told time.Time
		releases, before := 0, 0
		store.change(func() {
			before = store.grants
			store.cluster = "1.2"
			store.after = func(op string, _ any) error {
				switch {
				case op == "heartbeat" && told.IsZero():
					told = time.Now()
				case op == "release":
					releases++
				}
				return nil
			}
		})
		time.Sleep(5 * time.Second)
		synctest.Wait()
		store.change(func() {
			if left := store.numbers["second"].expires.Sub(told); left > 10*time.Second {
				t.Errorf("a lost lease was renewed: it runs for %v", left)
			}
		})
		time.Sleep(time.Minute)
		synctest.Wait()
		calls := api.sends()
		if late := last(calls).at.Sub(told); late > 0 {
			t.Errorf("a call %v after the node was told", late)
		}
		n := store.counts(1)
		if n[Accepted] != len(calls) || n[Sending]+n[Unknown] != 0 || n[Pending] == 0 {
			t.Errorf("%d calls, %v: answers after the loss must be recorded", len(calls), n)
		}
		store.change(func() {
			if releases > 0 || store.grants != before+2 {
				t.Errorf("%d releases, %d new grants, want each number taken again once its lost lease has run out", releases, store.grants-before)
			}
		})
		said := log.String()
		if strings.Count(said, "level=ERROR") != 1 || !strings.Contains(said, "weir database confirm") || !strings.Contains(said, "leases_lost=2") {
			t.Errorf("the node does not say once and loudly what has happened:\n%s", said)
		}
		store.change(func() { store.confirmed = "1.2" })
		time.Sleep(time.Minute)
		stop()
		if n := store.counts(1); n[Accepted] != people || len(api.twice()) > 0 {
			t.Errorf("after the operator's word: %v, %d twice", n, len(api.twice()))
		}
	})
}

// Nor does a node release that was asked to end before, and whose calls were
// still under way when another database answered.
func TestANodeThatLeavesReleasesNothingToAnotherDatabase(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newMemory(time.Millisecond, number(40, 0.2))
		store.campaign(1, 0, 1500)
		stop := startNode(t, Options{Store: store, Sender: &ledger{latency: 5 * time.Second}, ID: "a"})
		time.Sleep(11 * time.Second)
		time.AfterFunc(time.Second, func() { store.change(func() { store.cluster = "1.2" }) })
		stop()
		if store.numbers[testNumber].released {
			t.Error("a lease was released that counts as lost")
		}
	})
}

package engine

import (
	"testing"
	"testing/synctest"
	"time"
)

// A claim waits its turn among the fleet's exactly while the number has a
// campaign that caps messages to a person.
func TestClaimsOfCappedCampaignsWaitTheirTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newMemory(time.Millisecond, number(100, 0.2))
		store.campaign(1, 0, 50)
		r := startLane(t, store, &ledger{latency: 50 * time.Millisecond})
		time.Sleep(10 * time.Second)
		store.change(func() {
			for _, a := range store.asks {
				if a.Capped {
					t.Error("a claim without a cap waits its turn")
				}
			}
		})
		capped := store.campaign(2, 0, 50)
		store.change(func() { capped.Capped = true })
		time.Sleep(10 * time.Second)
		r.finish()
		if n := store.counts(2); n[Accepted] != 50 {
			t.Errorf("the campaign with a cap: %v", n)
		}
	})
}

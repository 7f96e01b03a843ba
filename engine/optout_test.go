package engine

import (
	"testing"
	"testing/synctest"
	"time"
)

// Whatever a lane holds, however slow the calls and the claims: nothing is sent
// to a person later than T_claim after the store knows that they have opted out.
func TestNothingToAnOptedOutPersonAfterTClaim(t *testing.T) {
	t.Parallel()
	for name, slow := range map[string]struct{ claim, call time.Duration }{
		"quick": {time.Millisecond, 50 * time.Millisecond}, "slow calls": {time.Millisecond, 1500 * time.Millisecond},
		"slow claims": {900 * time.Millisecond, 200 * time.Millisecond}, "slow everything": {900 * time.Millisecond, 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				store := newMemory(slow.claim, number(100, 0.2))
				c := store.campaign(1, 0, 3000)
				api := &ledger{latency: slow.call}
				r := startLane(t, store, api)
				stopped := map[int64]time.Time{}
				for i := range 300 {
					time.Sleep(70 * time.Millisecond)
					id := (i * 7) % len(c.rows)
					store.mu.Lock()
					c.rows[id].suppressed = true
					store.mu.Unlock()
					if at := c.base + int64(id); stopped[at].IsZero() {
						stopped[at] = time.Now()
					}
				}
				time.Sleep(time.Minute)
				r.finish()
				for _, s := range api.sends() {
					if at, ok := stopped[s.Recipient]; ok && s.at.Sub(at) > claimFresh {
						t.Errorf("row %d was sent %v after it opted out", s.Recipient, s.at.Sub(at))
					}
				}
				if store.counts(1)[Suppressed] == 0 {
					t.Error("nobody was left out")
				}
			})
		})
	}
}

package engine

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// Backpressure: while results cannot be written, what is claimed and not
// recorded stays bounded, and afterwards nothing is lost.
func TestOutstandingResultsAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newMemory(time.Millisecond, number(100, 0.2))
		store.campaign(1, 0, 5000)
		broken := true
		store.before = func(op string, _ any) error {
			if op == "record" && broken {
				return errDown
			}
			return nil
		}
		r := startLane(t, store, &ledger{latency: 100 * time.Millisecond})
		time.Sleep(time.Minute)
		if n := len(r.api.sends()); n > 160 || n < 80 {
			t.Errorf("%d calls whose results could not be written, want about T_claim's worth", n)
		}
		store.change(func() { broken = false })
		time.Sleep(10 * time.Second)
		r.finish()
		r.conserved(t, 1)
		if n := store.counts(1)[Accepted]; n < 700 {
			t.Errorf("only %d accepted 10 s after Postgres came back", n)
		}
	})
}

func TestAWriteOfPoisonIsIsolated(t *testing.T) {
	t.Parallel()
	for name, refusal := range map[string]error{"the store says so": ErrRefused, "the lease lives, so Postgres does": errors.New("what?")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				store := newMemory(time.Millisecond, number(100, 0.2))
				c := store.campaign(1, 0, 300)
				bad := c.base + 77
				poisoned := true
				store.before = func(op string, v any) error {
					if op == "record" && poisoned && slices.ContainsFunc(v.([]Result), func(r Result) bool { return r.Recipient == bad }) {
						return refusal
					}
					return nil
				}
				r := startLane(t, store, &ledger{latency: 10 * time.Millisecond})
				for range 60 { // heartbeats get through
					time.Sleep(2 * time.Second)
					r.lane.trust.extend(clocks(), r.lane.opts.TTL-r.lane.opts.Margin)
				}
				synctest.Wait()
				if n := store.counts(1); n[Accepted] != 299 || n[Sending] != 1 || r.lane.writer.outstanding() != 1 {
					t.Errorf("%v, outstanding %d", n, r.lane.writer.outstanding())
				}
				store.change(func() { poisoned = false })
				time.Sleep(time.Second)
				r.finish() // tries what it kept once more
				r.conserved(t, 1)
			})
		})
	}
}

// A lane that ends while Postgres is away tries for FlushTimeout, says what it
// could not write, and leaves the claim batches for the next owner.
func TestALastFlushThatFailsLeavesItsClaims(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newMemory(time.Millisecond, number(100, 0.2))
		store.campaign(1, 0, 1000)
		r := startLane(t, store, &ledger{latency: 250 * time.Millisecond})
		time.Sleep(5 * time.Second)
		store.change(func() { store.down = true })
		start := time.Now()
		r.finish()
		if took := time.Since(start); took < 30*time.Second || took > 33*time.Second {
			t.Errorf("the drain took %v", took)
		}
		if n := store.counts(1)[Sending]; n == 0 || len(store.claims) == 0 || !strings.Contains(r.log.String(), "results not recorded") {
			t.Errorf("%d rows sending, %d claim batches, log:\n%s", n, len(store.claims), r.log)
		}
	})
}

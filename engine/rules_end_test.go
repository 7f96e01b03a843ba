package engine

import (
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// Rule 4: every check uses the earlier of lease trust and claim sent + T_claim,
// the one at the wire too.
func TestRule4NothingIsWrittenAfterTheClaimHasAged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const claim = 1500 * time.Millisecond // most of T_claim
		store := newMemory(0, number(100, 0.2))
		store.slow = map[string]time.Duration{"claim": claim}
		store.campaign(1, 0, 200)
		asked := make(map[int64]time.Time) // recipient → when its last claim was sent
		store.after = func(op string, v any) error {
			if ask, ok := v.(Ask); ok {
				for _, id := range store.claims[memClaim{ask.Lease, ask.Seq}].rows() {
					asked[id] = time.Now().Add(-claim)
				}
			}
			return nil
		}
		late := 0
		api := &ledger{latency: 100 * time.Millisecond}
		api.during = func(m Message) {
			var sent time.Time
			store.change(func() { sent = asked[m.Recipient] })
			if m.Recipient%2 == 0 {
				time.Sleep(600 * time.Millisecond) // every other dial is slow
			}
			if m.Fence() == nil && time.Since(sent) >= claimFresh {
				store.change(func() { late++ })
			}
		}
		r := startLane(t, store, api)
		time.Sleep(20 * time.Second)
		r.finish()
		if late > 0 || len(api.sends()) == 0 {
			t.Errorf("%d calls, %d of them written too long after their claim was sent", len(api.sends()), late)
		}
		r.conserved(t, 1)
	})
}

func (b *memBatch) rows() []int64 {
	if b == nil {
		return nil
	}
	return b.ids
}

// Rule 4: nothing is written once the lease is not trusted, and what waited
// is given back as soon as Postgres can be told.
func TestRule4NothingIsWrittenBeyondTrust(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newMemory(time.Millisecond, number(100, 0.2))
		store.campaign(1, 0, 2000)
		until := time.Now().Add(5 * time.Second)
		var began atomic.Int64
		api := &ledger{latency: 50 * time.Millisecond}
		api.during = func(Message) {
			if now := time.Now(); !now.Before(until) && now.Before(until.Add(5*time.Second)) {
				began.Add(1)
			}
			time.Sleep(30 * time.Millisecond)
		}
		r := startLane(t, store, api)
		r.lane.trust.word.Store(&word{since: clocks(), until: clocks().add(5 * time.Second)})
		time.Sleep(10 * time.Second)
		calls := api.sends()
		if last := calls[len(calls)-1].at; !last.Before(until) || last.Before(until.Add(-time.Second)) {
			t.Errorf("the last request was written %v after trust ended", last.Sub(until))
		}
		if n := began.Load(); n > 0 {
			t.Errorf("%d calls were begun after trust ended", n)
		}
		r.conserved(t, 1)
		r.lane.trust.extend(clocks(), time.Hour) // the heartbeat came through: the lease is ours still
		time.Sleep(5 * time.Second)
		r.finish()
		if len(api.sends()) < len(calls)+300 {
			t.Errorf("only %d calls in 5 s after trust came back", len(api.sends())-len(calls))
		}
		r.conserved(t, 1)
	})
}

// Rule 9: a claim batch is forgotten with its last result, not before and not
// never, whatever becomes of the writes.
func TestRule9ABatchIsForgottenWithItsLastResult(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newMemory(time.Millisecond, number(250, 0.2))
		c := store.campaign(1, 0, 2000)
		for i := range c.rows {
			c.rows[i].suppressed = i%7 == 0
		}
		dice := rand.New(rand.NewPCG(1, 2))
		store.before = func(op string, _ any) error {
			if op == "record" && dice.IntN(3) == 0 {
				return errDown
			}
			return nil
		}
		store.after = func(op string, _ any) error {
			if op == "record" && dice.IntN(3) == 0 {
				return errDown // committed all the same
			}
			return nil
		}
		api := &ledger{}
		api.during = func(m Message) { time.Sleep(time.Duration(m.Recipient%17) * 50 * time.Millisecond) }
		r := startLane(t, store, api)
		time.Sleep(30 * time.Second)
		r.finish()
		r.conserved(t, 1)
		if n := store.counts(1); n[Accepted]+n[Suppressed] != 2000 {
			t.Errorf("%v", n)
		}
	})
}

// Rule 18, the lane's part: when run has returned, nothing is claimed, held,
// begun or on the wire, and every answer is recorded.
func TestRule18AnEndedLaneHoldsNothing(t *testing.T) {
	t.Parallel()
	for _, claim := range []time.Duration{time.Millisecond, 700 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			store := newMemory(claim, number(100, 0.2))
			store.campaign(1, 0, 1000)
			r := startLane(t, store, &ledger{latency: 3 * time.Second})
			time.Sleep(7 * time.Second)
			stopped := time.Now()
			r.stop()
			time.Sleep(time.Second)
			select {
			case <-r.ended:
				t.Error("ended with calls on the wire")
			default:
			}
			<-r.ended
			calls := r.api.sends()
			if last := calls[len(calls)-1].at; last.After(stopped) {
				t.Errorf("a call began %v after the stop", last.Sub(stopped))
			}
			if strings.Contains(r.log.String(), "claim failed") {
				t.Error("the stop cut a claim short: only its give-back saved the rows")
			}
			r.conserved(t, 1)
		})
	}
}

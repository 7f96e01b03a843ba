package engine

import (
	"context"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// These tests are the rules of the row protocol that live in the lane. Each
// fails when its rule is left out.

// conserved fails unless every call that was made is known, nobody was called
// twice, and nothing is left in a lane's hands.
func (r *rig) conserved(t *testing.T, campaigns ...int64) {
	t.Helper()
	if twice := r.api.twice(); len(twice) > 0 {
		t.Errorf("%d recipients were called twice", len(twice))
	}
	accepted := 0
	for _, id := range campaigns {
		n := r.store.counts(id)
		accepted += n[Accepted]
		if n[Sending] > 0 {
			t.Errorf("campaign %d: %d rows are left sending", id, n[Sending])
		}
	}
	if calls := len(r.api.sends()); accepted != calls {
		t.Errorf("%d calls, %d accepted rows", calls, accepted)
	}
	if len(r.store.claims) > 0 || len(r.store.doneEarly) > 0 {
		t.Errorf("claim batches left: %d; forgotten with rows still sending: %v", len(r.store.claims), r.store.doneEarly)
	}
}

// Rule 1: who proves that no call was made gives the attempt back.
func TestRule1AnUnsentRowKeepsItsAttemptAndDueTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newMemory(time.Millisecond, number(100, 0.2))
		c := store.campaign(1, 0, 1000)
		due := c.rows[0].due
		r := startLane(t, store, &ledger{latency: 250 * time.Millisecond})
		time.Sleep(5 * time.Second)
		r.finish()
		r.conserved(t, 1)
		for i, row := range c.rows {
			if row.status == Pending && (row.attempt != 0 || !row.due.Equal(due)) {
				t.Fatalf("row %d was not sent: attempt %d, due %v later", i, row.attempt, row.due.Sub(due))
			}
		}
	})
}

// Rule 2: begin and give-back exclude each other. With a check and a set in
// place of the compare-and-swap, some rows here are both begun and given back,
// and what is given back while it is dialed is sent twice.
func TestRule2BeginAndGiveBackExcludeEachOther(t *testing.T) {
	t.Parallel()
	rows := make([]row, 100_000)
	begun, returned := make([]bool, len(rows)), make([]bool, len(rows))
	var at [2]atomic.Int64
	race := func(me int, won []bool, leave func(*row) bool) {
		for i := range rows {
			at[me].Store(int64(i))
			for spin := 0; at[1-me].Load() < int64(i); spin++ {
				if spin%100 == 99 {
					runtime.Gosched()
				}
			}
			won[i] = leave(&rows[i])
		}
		at[me].Store(int64(len(rows)))
	}
	var both sync.WaitGroup
	both.Go(func() { race(0, begun, (*row).begin) })
	both.Go(func() { race(1, returned, (*row).giveBack) })
	both.Wait()
	for i := range rows {
		if begun[i] == returned[i] {
			t.Fatalf("row %d: begun %v, given back %v", i, begun[i], returned[i])
		}
	}
}

// Rule 2, through the lane: what begins is not dropped, and what is dropped
// does not begin.
func TestRule2ADropTakesOnlyWhatHasNotBegun(t *testing.T) {
	t.Parallel()
	l := newLane(Options{}.withDefaults(), LeaseID{}, &trust{}, testMetrics())
	l.trust.extend(time.Now().Add(time.Hour))
	a, b := &row{by: time.Now().Add(time.Hour)}, &row{by: time.Now().Add(time.Hour)}
	l.hand.add([]*row{a, b})
	if !l.begin(a) {
		t.Error("a held row does not begin")
	}
	if dropped := l.hand.drop(func(*row) bool { return true }); len(dropped) != 1 || dropped[0] != b {
		t.Errorf("dropped %v", dropped)
	}
	if l.begin(b) || l.hand.len() != 0 {
		t.Error("a dropped row begins")
	}
}

// Rule 2: a row whose call has begun ends only by its result, however long
// its dial takes and whatever stops meanwhile.
func TestRule2ABegunRowIsNotGivenBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newMemory(time.Millisecond, number(100, 0.2))
		c := store.campaign(1, 0, 40)
		api := &ledger{latency: time.Second}
		api.answer = func(call int, m Message) Answer {
			if call == 10 {
				return Answer{Action: StopCampaign, Scope: ScopeCampaign, Code: 132015}
			}
			return accept(m)
		}
		r := startLane(t, store, api)
		time.Sleep(1200 * time.Millisecond) // the tenth call has come back; many are out
		store.mu.Lock()
		c.halted = false // an operator resumes at once
		store.mu.Unlock()
		time.Sleep(time.Minute)
		r.finish()
		if twice := api.twice(); len(twice) != 1 { // the one that was told to stop is sent again, rightly
			t.Errorf("called twice: %v", twice)
		}
		if n := store.counts(1); n[Accepted] != 40 {
			t.Errorf("after the operator resumed: %v", n)
		}
	})
}

// Rule 3: a claim call that failed burns its seq: its rows come back by seq,
// none of them is used, none is lost.
func TestRule3AFailedClaimIsBurned(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newMemory(time.Millisecond, number(100, 0.2))
		store.campaign(1, 0, 600)
		claims := 0
		store.after = func(op string, _ any) error {
			if op != "claim" {
				return nil
			}
			if claims++; claims%3 == 0 {
				return errDown // committed, but nobody hears of it
			}
			return nil
		}
		r := startLane(t, store, &ledger{latency: 100 * time.Millisecond})
		time.Sleep(30 * time.Second)
		r.finish()
		r.conserved(t, 1)
		if n := store.counts(1); n[Accepted] != 600 {
			t.Errorf("%v: rows of failed claims were lost", n)
		}
	})
}

// Rule 3: also a claim that commits long after its caller gave up, and one
// that failed just before the lane ends.
func TestRule3ALateCommitIsGivenBack(t *testing.T) {
	t.Parallel()
	for name, stopAfter := range map[string]time.Duration{"while running": 20 * time.Second, "before release": 3100 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				store := newMemory(time.Millisecond, number(100, 0.2))
				store.campaign(1, 0, 400)
				start := time.Now()
				store.before = func(op string, v any) error {
					if op != "claim" || time.Since(start) < time.Second || v.(Ask).Seq%4 != 0 || time.Since(start) > 4*time.Second {
						return nil
					}
					time.AfterFunc(1500*time.Millisecond, func() {
						store.mu.Lock()
						defer store.mu.Unlock()
						store.takeDue(v.(Ask))
					})
					return context.DeadlineExceeded
				}
				r := startLane(t, store, &ledger{latency: 2 * time.Second})
				time.Sleep(stopAfter)
				r.finish()
				r.conserved(t, 1)
			})
		})
	}
}

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
		api := &ledger{latency: 50 * time.Millisecond, during: func(Message) { time.Sleep(30 * time.Millisecond) }}
		r := startLane(t, store, api)
		until := time.Now().Add(5 * time.Second)
		r.lane.trust.until.Store(&until)
		time.Sleep(10 * time.Second)
		calls := api.sends()
		if last := calls[len(calls)-1].at; !last.Before(until) || last.Before(until.Add(-time.Second)) {
			t.Errorf("the last request was written %v after trust ended", last.Sub(until))
		}
		r.conserved(t, 1)
		r.lane.trust.extend(time.Now().Add(time.Hour)) // the heartbeat came through: the lease is ours still
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

package engine

import (
	"context"
	"runtime"
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
	l.trust.extend(clocks(), time.Hour)
	a, b := &row{by: clocks().add(time.Hour)}, &row{by: clocks().add(time.Hour)}
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
		c.resume() // an operator, at once
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

// Rule 3: also a claim that commits long after its caller gave up, as one whose
// packets were on a dead network for two minutes, and one that failed just
// before the lane ends.
func TestRule3ALateCommitIsGivenBack(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ commit, stop time.Duration }{
		"while running":  {1500 * time.Millisecond, 20 * time.Second},
		"when it heals":  {2 * time.Minute, 3 * time.Minute},
		"before release": {1500 * time.Millisecond, 3100 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				store := newMemory(time.Millisecond, number(100, 0.2))
				store.campaign(1, 0, 20_000)
				start := time.Now()
				store.before = func(op string, v any) error {
					if op != "claim" || time.Since(start) < time.Second || v.(Ask).Seq%4 != 0 || time.Since(start) > 4*time.Second {
						return nil
					}
					time.AfterFunc(tt.commit, func() {
						store.mu.Lock()
						defer store.mu.Unlock()
						store.takeDue(v.(Ask))
					})
					return context.DeadlineExceeded
				}
				r := startLane(t, store, &ledger{latency: 2 * time.Second})
				time.Sleep(tt.stop)
				r.finish()
				r.conserved(t, 1)
			})
		})
	}
}

package engine

import (
	"testing"
	"testing/synctest"
	"time"
)

// No claim passes an order: one that was not yet asked for when an answer
// stopped or paused something waits until the restraint is written, whatever
// the claimer was doing, and the one in flight is covered by the stop.
func TestNoClaimPassesAnOrder(t *testing.T) {
	t.Parallel()
	for name, a := range map[string]Answer{
		"a stopped campaign": {Action: StopCampaign, Scope: ScopeCampaign, Code: 132015},
		"a stopped number":   {Action: StopNumber, Scope: ScopeNumber, Code: 131031},
		"suspect failures":   {Action: Fail, Code: 132000, Suspect: true},
		"a short pause":      {Action: Pause, Scope: ScopeNumber, Throttled: true, Code: 130429},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { orderDuringWork(t, a) })
		})
	}
}

// orderDuringWork has an answer give its order while the claimer reads its
// settings: it has looked for orders before and has all its senders free after.
func orderDuringWork(t *testing.T, a Answer) {
	store := newMemory(time.Millisecond, number(100, 0.2))
	store.slow = map[string]time.Duration{"work": 400 * time.Millisecond}
	c := store.campaign(1, 0, 5000)
	store.campaign(2, 0, 5000)
	r := startLane(t, store, &ledger{latency: 50 * time.Millisecond})
	r.lane.guard.mu.Lock()
	r.lane.guard.policy.PauseBase = 10 * time.Millisecond
	r.lane.guard.mu.Unlock()
	var ordered bool
	var passed, writes int
	start := time.Now()
	before := func(op string, _ any) error {
		switch {
		case op == "work" && !ordered && time.Since(start) > 10*time.Second:
			ordered = true
			for range 5 { // so many suspect failures stop a campaign
				r.lane.react(&row{Recipient: Recipient{ID: c.base, Campaign: 1}, seq: last(store.asks).Seq, by: clocks().add(time.Minute)}, time.Now(), a)
			}
		case op == "restrain":
			writes++
		case op == "claim" && ordered && writes == 0:
			passed++
		}
		return nil
	}
	store.change(func() { store.before = before })
	time.Sleep(20 * time.Second)
	r.finish()
	if !ordered || writes != 1 || passed > 0 {
		t.Errorf("ordered: %v, written %d times, %d claims before that", ordered, writes, passed)
	}
	r.conserved(t, 1, 2)
}

// A stop covers the batch that is being claimed and none that comes later, so
// that a campaign which an operator resumes runs again by itself.
func TestAStopCoversTheBatchInFlight(t *testing.T) {
	t.Parallel()
	g := newGuard(Policy{}, testNumber)
	first, _ := g.claim()
	inFlight, _ := g.claim()
	of := func(seq int64) *row { return &row{Recipient: Recipient{Campaign: 1}, seq: seq} }
	stop := Answer{Action: StopCampaign}
	_, once := g.halt(of(first), stop)
	if _, twice := g.halt(of(inFlight), stop); !once || twice {
		t.Error("one stop is one order")
	}
	if seq, ok := g.claim(); ok {
		t.Errorf("batch %d is numbered while the order waits", seq)
	}
	g.written()
	resumed, ok := g.claim()
	if !ok || resumed != inFlight+1 || g.allows(of(inFlight)) || !g.allows(of(resumed)) {
		t.Errorf("after the write: batch %d, %v; in flight allowed: %v", resumed, ok, g.allows(of(inFlight)))
	}
}

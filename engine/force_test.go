package engine

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// What an operator holds open sends nothing, not even the probe that is out;
// what is held closed goes on whatever comes back.
func TestForceBeatsEverything(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, _ := outageLane(t, 10_000, outage)
		time.Sleep(2 * time.Second)
		r.store.force(NumberScope(testNumber), BreakerOpen, time.Minute)
		from := time.Now().Add(time.Second)
		time.Sleep(58 * time.Second)
		for _, c := range r.api.sends() {
			if c.at.After(from) {
				t.Fatalf("a call %v after the number was forced open", c.at.Sub(from))
			}
		}
		time.Sleep(10 * time.Second)
		if got := r.store.story(NumberScope(testNumber)); got != "open forced, half_open probe, closed probe_answered" {
			t.Errorf("the number: %s", got)
		}
		r.store.force(HostScope, BreakerClosed, time.Hour)
		r.store.force(NumberScope(testNumber), BreakerClosed, time.Hour)
		r.api.change(func() { r.api.answer = func(int, Message) Answer { return outage } })
		time.Sleep(10 * time.Second)
		before := len(r.api.sends())
		time.Sleep(20 * time.Second)
		r.finish()
		if n := len(r.api.sends()) - before; n < 1500 {
			t.Errorf("only %d calls in 20 s of an outage that an operator chose to ignore", n)
		}
		if n := r.store.counts(1); n[Dead] > 0 {
			t.Errorf("%v: an outage that was ignored used up attempts", n)
		}
	})
}

// A number that only ever meets throttles opens with that reason, and a probe
// that is throttled keeps it open.
func TestThrottlesInARowTrip(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newMemory(3*time.Millisecond, number(100, 0.2))
		store.campaign(1, 0, 10_000)
		api := &ledger{latency: 100 * time.Millisecond}
		shut := time.Now().Add(5 * time.Second)
		api.answer = func(_ int, m Message) Answer {
			if d := time.Since(shut); d > 0 && d < 2*time.Minute {
				return Answer{Action: Pause, Scope: ScopeNumber, Code: 130429, Throttled: true}
			}
			return accept(m)
		}
		r := startLane(t, store, api)
		time.Sleep(6 * time.Minute)
		r.finish()
		const begins = "open throttled, half_open probe, open probe_throttled"
		got := store.story(NumberScope(testNumber))
		if len(got) < len(begins) || got[:len(begins)] != begins || store.story(HostScope) != "" || len(r.closings()) != 1 {
			t.Errorf("the number: %s\nthe host: %s", got, store.story(HostScope))
		}
		if n := store.counts(1); n[Accepted] < 4000 || n[Dead] > 0 {
			t.Errorf("%v", n)
		}
	})
}

// Postgres is away when a number trips: nothing more is sent until it has
// judged, and all of it goes on after.
func TestATripWaitsForPostgres(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, down := outageLane(t, 5000, outage)
		time.Sleep(time.Until(down))
		r.store.change(func() { r.store.down = true })
		time.Sleep(4 * time.Second)
		if n := len(slices.DeleteFunc(r.api.sends(), func(c sent) bool { return c.at.Before(down) })); n > 20 {
			t.Errorf("%d calls while nobody could judge", n)
		}
		r.store.change(func() { r.store.down = false })
		time.Sleep(90 * time.Second)
		r.finish()
		if n := r.store.counts(1); n[Accepted] != 5000 {
			t.Errorf("%v; host: %s", n, r.store.story(HostScope))
		}
	})
}

package engine

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

const downFor = 8 * time.Second

var outage = Answer{Action: Reschedule, Scope: ScopeApp, Code: 131016}

// outageLane is a lane whose platform is away for downFor, from 5 s on.
func outageLane(t *testing.T, people int, trouble Answer) (r *rig, down time.Time) {
	t.Helper()
	store := newMemory(3*time.Millisecond, number(100, 0.2))
	store.campaign(1, 0, people)
	down = time.Now().Add(5 * time.Second)
	api := &ledger{latency: 100 * time.Millisecond}
	api.answer = func(_ int, m Message) Answer {
		if now := time.Now(); now.Before(down) || now.Sub(down) > downFor {
			return accept(m)
		}
		return trouble
	}
	return startLane(t, store, api), down
}

func (r *rig) closings() (at []time.Time) {
	r.store.change(func() {
		for _, v := range r.store.moves {
			if v.state == BreakerClosed {
				at = append(at, v.at)
			}
		}
	})
	return at
}

// The way back is a sixteenth, a quarter, all: each step a second's worth of
// calls that went well.
func TestALaneComesBackByItsSteps(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, _ := outageLane(t, 10_000, outage)
		time.Sleep(40 * time.Second)
		r.finish()
		closed := r.closings()
		if len(closed) != 1 {
			t.Fatalf("moves: %s", r.store.story(HostScope))
		}
		for _, step := range []struct {
			from, to time.Duration
			min, max int
		}{
			{0, 900 * time.Millisecond, 2, 6},                 // 5 a second
			{1500 * time.Millisecond, 2 * time.Second, 8, 12}, // 20 a second
			{4 * time.Second, 5 * time.Second, 78, 82},
		} {
			n := 0
			for _, c := range r.api.sends() {
				if d := c.at.Sub(closed[0]); d >= step.from && d < step.to {
					n++
				}
			}
			if n < step.min || n > step.max {
				t.Errorf("%d calls from %v to %v after closing, want %d to %d", n, step.from, step.to, step.min, step.max)
			}
		}
	})
}

// Calls that were under way when an outage came fail one by one, long after it,
// and many more of them than go well on the way back: they count for nothing,
// since they were begun before the breaker moved.
func TestLateFailuresAreOldNews(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newMemory(3*time.Millisecond, number(10, 0.2))
		store.campaign(1, 0, 10_000)
		down := time.Now().Add(time.Minute)
		api := &ledger{latency: 8 * time.Second}
		late := 0
		api.answer = func(call int, m Message) Answer {
			begun, now := api.calls[call-1].at, time.Now()
			if now.After(down) && begun.Before(down.Add(500*time.Millisecond)) {
				if now.Sub(down) > 5*time.Second { // it closes after 3 s and a little
					late++
				}
				return outage
			}
			return accept(m)
		}
		r := startLane(t, store, api)
		time.Sleep(time.Minute)
		r.api.change(func() { api.latency = 100 * time.Millisecond })
		time.Sleep(40 * time.Second)
		r.finish()
		const want = "open consecutive, half_open probe, closed probe_answered"
		if got := store.story(HostScope); got != want {
			t.Errorf("the host: %s\nwant %s", got, want)
		}
		if late < 10 {
			t.Errorf("%d calls failed after it had closed: too few to trip it", late)
		}
	})
}

// What a probe costs: its failure is not its row's. With one attempt each,
// nobody dies of an outage but those that failed before it was known.
func TestProbesCostTheirRowsNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, down := outageLane(t, 2000, outage)
		r.store.change(func() { r.store.campaigns[1].Retry.MaxAttempts = 1 })
		time.Sleep(60 * time.Second)
		r.finish()
		probes := 0
		for _, c := range r.api.sends() {
			if d := c.at.Sub(down); d > time.Second && d < downFor {
				probes++
			}
		}
		if n := r.store.counts(1); probes < 1 || n[Dead] > 4 || n[Dead]+n[Accepted] != 2000 {
			t.Errorf("%d probes; %v", probes, n)
		}
	})
}

// A probe is not of those that have just failed: one whose message never gets
// through, outage or not, would keep the breaker open for ever.
func TestOneBadMessageKeepsNoBreakerOpen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, down := outageLane(t, 2000, outage)
		var bad int64 // the first probe's
		r.api.change(func() {
			usual := r.api.answer
			r.api.answer = func(call int, m Message) Answer {
				if bad == 0 && time.Since(down) > time.Second {
					bad = m.Recipient
				}
				if m.Recipient == bad {
					return outage
				}
				return usual(call, m)
			}
		})
		time.Sleep(60 * time.Second)
		r.finish()
		if n := r.store.counts(1); len(r.closings()) != 1 || n[Accepted] != 1999 || n[Dead] != 1 {
			t.Errorf("%v; the host: %s", n, r.store.story(HostScope))
		}
	})
}

// A failure that stands alone is its message's: it spends an attempt.
func TestAFailureThatStandsAloneSpendsAnAttempt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newMemory(3*time.Millisecond, number(100, 0.2))
		c := store.campaign(1, 0, 1000)
		bad := c.base + 100
		api := &ledger{latency: 100 * time.Millisecond}
		api.answer = func(_ int, m Message) Answer {
			if m.Recipient == bad {
				return outage
			}
			return accept(m)
		}
		r := startLane(t, store, api)
		time.Sleep(30 * time.Second)
		r.finish()
		if row := c.rows[100]; row.status != Dead || row.attempt != 3 || store.story(HostScope) != "" {
			t.Errorf("the bad row is %v after %d attempts; host: %s", row.status, row.attempt, store.story(HostScope))
		}
	})
}

// Opted-out rows are no probe: the next row is.
func TestAProbeLooksPastOptOuts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, down := outageLane(t, 3000, outage)
		time.Sleep(time.Until(down.Add(time.Second)))
		var out int
		r.store.change(func() {
			c := r.store.campaigns[1]
			for _, id := range c.due[:20] {
				r.store.row(id).suppressed = true
				out++
			}
			for _, id := range c.delayed {
				r.store.row(id).suppressed = true
			}
		})
		time.Sleep(time.Minute)
		r.finish()
		story := r.store.story(HostScope)
		if n := r.store.counts(1); n[Suppressed] < out || n[Accepted]+n[Suppressed]+n[Dead] != 3000 {
			t.Errorf("%v; host: %s", n, story)
		}
		if slices.Contains([]string{"", "open consecutive"}, story) || len(r.closings()) != 1 {
			t.Errorf("the host: %s", story)
		}
	})
}

// A probe's claim that fails is burned like any other, and its permit is given
// up: no second row goes out on it.
func TestAProbesFailedClaimIsBurned(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, _ := outageLane(t, 3000, outage)
		var lost bool
		r.store.change(func() {
			r.store.after = func(op string, v any) error {
				if op == "claim" && v.(Ask).Probe != "" && !lost {
					lost = true
					return errDown
				}
				return nil
			}
		})
		time.Sleep(time.Minute)
		r.finish()
		if n := r.store.counts(1); !lost || n[Accepted]+n[Dead] != 3000 || n[Sending] != 0 {
			t.Errorf("claim lost: %v; %v", lost, n)
		}
		const begins = "open consecutive, half_open probe, open probe_unused, half_open probe"
		if got := r.store.story(HostScope); len(got) < len(begins) || got[:len(begins)] != begins {
			t.Errorf("the host: %s", got)
		}
		tokens := map[string]int{}
		for _, a := range r.store.asks {
			if a.Probe != "" {
				tokens[a.Probe]++
			}
		}
		for token, n := range tokens {
			if n > 1 {
				t.Errorf("%d claims with %s", n, token)
			}
		}
	})
}

// A breaker with nothing to send does not move: it waits for work.
func TestNothingToProbeWith(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, _ := outageLane(t, 1000, outage)
		time.Sleep(time.Second)
		r.store.force(HostScope, BreakerOpen, 2*time.Second)
		time.Sleep(time.Second)
		r.store.change(func() { r.store.campaigns[1].due, r.store.campaigns[1].delayed = nil, nil }) // opted out, expired, …
		time.Sleep(time.Minute)
		if got := r.store.story(HostScope); got != "open forced" {
			t.Errorf("the host: %s", got)
		}
		r.store.campaign(2, 0, 10)
		time.Sleep(5 * time.Second)
		r.finish()
		if n := r.store.counts(2); n[Accepted] != 10 {
			t.Errorf("%v; host: %s", n, r.store.story(HostScope))
		}
	})
}

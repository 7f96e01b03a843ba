package engine

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestAThrottlePausesTheNumberHereAndEverywhere(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newMemory(time.Millisecond, number(250, 0.2))
		store.campaign(1, 0, 20_000)
		api := &ledger{latency: 100 * time.Millisecond}
		var at time.Time
		api.answer = func(call int, m Message) Answer {
			if call == 1000 {
				at = time.Now()
			}
			if call >= 1000 && call < 1010 { // one storm
				return Answer{Action: Pause, Scope: ScopeNumber, Code: 130429, Throttled: true, After: 5 * time.Second}
			}
			return accept(m)
		}
		r := startLane(t, store, api)
		time.Sleep(20 * time.Second)
		r.finish()
		if len(store.restraints) != 1 {
			t.Fatalf("restraints %+v, want one pause", store.restraints)
		}
		got := store.restraints[0]
		want := Restraint{Kind: PauseNumber, Scope: ScopeNumber, Number: testNumber, For: 5 * time.Second, Code: 130429, Learned: got.Learned}
		if got != want || got.Learned.Rate < 0.85*200 || got.Learned.Rate > 0.9*200 {
			t.Errorf("restraint %+v, want %+v that taught nine tenths of 200", got, want)
		}
		for _, c := range api.sends() {
			if c.at.After(at) && c.at.Before(at.Add(got.For)) {
				t.Fatalf("a call %v into the pause", c.at.Sub(at))
			}
		}
		if over := overshoot(instants(api.sends()), 200, 1); over > 1e-6 {
			t.Errorf("a window across the pause holds %.2f too many", over)
		}
		r.sentAgain(t, 10)
	})
}

// sentAgain fails unless so many throttled rows were sent again, at no cost.
func (r *rig) sentAgain(t *testing.T, throttled int) {
	t.Helper()
	if n := r.store.counts(1); len(r.api.twice()) != throttled || n[Sending] != 0 || n[Accepted] < 2000 {
		t.Errorf("throttled rows were not sent again: twice %d, %v", len(r.api.twice()), n)
	}
	spent := func(r memRow) bool { return r.status == Accepted && r.attempt != 1 }
	if slices.ContainsFunc(r.store.campaigns[1].rows, spent) {
		t.Error("a throttle spent an attempt")
	}
}

func TestThrottlesInARowPauseLonger(t *testing.T) {
	t.Parallel()
	now := time.Unix(0, 0)
	g := newGuard(Policy{}, testNumber)
	throttle := Answer{Action: Pause}
	for i, want := range []time.Duration{500, 1000, 2000, 4000} {
		d, news := g.throttled(throttle, now, now, 0.5)
		if !news || d.Round(time.Millisecond) != want*time.Millisecond {
			t.Errorf("pause %d is %v, %v", i, d, news)
		}
		if _, news := g.throttled(throttle, now, now, 0.5); news {
			t.Error("a call begun before the pause is no news")
		}
		g.accepted(1, now, now) // begun before the pause: no forgiveness either
		now = now.Add(d)
	}
	g.accepted(1, now, now)
	if d, _ := g.throttled(throttle, now, now, 0.5); d.Round(time.Millisecond) != 500*time.Millisecond {
		t.Errorf("after a success a pause is %v", d)
	}
}

// A template that Meta refuses must not fail one more row, nor cost more calls
// than were under way.
func TestAStoppedCampaignIsHaltedOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newMemory(time.Millisecond, number(100, 0.2))
		bad := store.campaign(1, 0, 5000)
		store.campaign(2, 0, 5000)
		api := &ledger{latency: 250 * time.Millisecond}
		refused, revoked := 0, true
		api.answer = func(_ int, m Message) Answer {
			if m.Recipient/10_000_000 == 1 && revoked {
				refused++
				return Answer{Action: StopCampaign, Scope: ScopeCampaign, Code: 132015, Title: "template paused"}
			}
			return accept(m)
		}
		r := startLane(t, store, api)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		n := store.counts(1)
		if refused > 25 || n[Pending] != 5000 {
			t.Errorf("%d calls of a refused campaign; %v", refused, n)
		}
		if len(store.restraints) != 1 || store.restraints[0].Kind != HaltCampaign || store.restraints[0].Campaign != 1 || store.restraints[0].Code != 132015 {
			t.Errorf("restraints %+v", store.restraints)
		}
		if n := store.counts(2)[Accepted]; n < 680 {
			t.Errorf("the other campaign got only %d through", n)
		}
		store.change(func() { bad.resume() }) // an operator mends it and resumes
		api.change(func() { revoked = false })
		time.Sleep(10 * time.Second)
		r.finish()
		if n := store.counts(1)[Accepted]; n < 300 {
			t.Errorf("only %d accepted after the campaign was resumed", n)
		}
		if !strings.Contains(r.log.String(), "campaign stops") || strings.Contains(r.log.String(), "wamid") {
			t.Errorf("log:\n%s", r.log)
		}
	})
}

func TestAStoppedNumberStops(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newMemory(time.Millisecond, number(100, 0.2))
		store.campaign(1, 0, 5000)
		api := &ledger{latency: 250 * time.Millisecond}
		store.slow = map[string]time.Duration{"claim": 300 * time.Millisecond} // one is always under way
		var told time.Time
		api.answer = func(call int, m Message) Answer {
			if call >= 100 {
				if told.IsZero() {
					told = time.Now()
				}
				return Answer{Action: StopNumber, Scope: ScopeWABA, Code: 131042}
			}
			return accept(m)
		}
		start := time.Now()
		store.before = func(op string, _ any) error { // at first it cannot even be written
			if op == "restrain" && time.Since(start) < 10*time.Second {
				return errDown
			}
			return nil
		}
		r := startLane(t, store, api)
		time.Sleep(20 * time.Second)
		r.finish()
		if calls := api.sends(); last(calls).at.After(told) || len(calls) < 100 {
			t.Errorf("%d calls; the last began %v after the number was refused", len(calls), last(calls).at.Sub(told))
		}
		if n := store.counts(1); n[Accepted] != 99 || n[Pending] != 4901 {
			t.Errorf("%v", n)
		}
		if len(store.restraints) != 1 || store.restraints[0].Kind != HaltNumber || store.restraints[0].Scope != ScopeWABA {
			t.Errorf("restraints %+v", store.restraints)
		}
	})
}

func TestSuspectFailuresStopTheirCampaign(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newMemory(time.Millisecond, number(100, 0.2))
		store.campaign(1, 0, 1000)
		store.campaign(2, 0, 1000)
		api := &ledger{latency: 100 * time.Millisecond} // several calls are under way when the fifth fails
		each := make(map[int64]int)
		api.answer = func(_ int, m Message) Answer {
			k := m.Recipient / 10_000_000
			each[k]++
			if k == 1 || each[k]%5 != 0 { // campaign 2 has four bad rows, then a good one
				return Answer{Action: Fail, Code: 132000, Suspect: true, Title: "number of parameters does not match"}
			}
			return accept(m)
		}
		r := startLane(t, store, api)
		time.Sleep(20 * time.Second)
		r.finish()
		if len(store.restraints) != 1 || store.restraints[0].Campaign != 1 || store.restraints[0].Reason != "number of parameters does not match, 5 times in a row" {
			t.Errorf("restraints %+v", store.restraints)
		}
		if n := store.counts(1); n[Failed] != 5 || n[Pending] != 995 || each[1] <= 5 {
			t.Errorf("%d calls of a campaign that stops at the fifth failure: %v", each[1], n)
		}
	})
}

// What is worth another try is not, when it is said to one after the other: a
// picture that nobody can fetch must not cost a campaign its attempts.
func TestDoubtsInARowStopTheirCampaign(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newMemory(time.Millisecond, number(100, 0.2))
		store.campaign(1, 0, 1000)
		store.campaign(2, 0, 1000)
		api := &ledger{latency: 100 * time.Millisecond}
		each := make(map[int64]int)
		api.answer = func(_ int, m Message) Answer {
			k := m.Recipient / 10_000_000
			each[k]++
			if k == 1 || each[k]%5 != 0 { // campaign 2 has four links that fail, then a good one
				return Answer{Action: Reschedule, Code: 131053, Suspect: true, After: 30 * time.Second, Title: "media"}
			}
			return accept(m)
		}
		r := startLane(t, store, api)
		time.Sleep(20 * time.Second)
		r.finish()
		if len(store.restraints) != 1 || store.restraints[0].Campaign != 1 || store.restraints[0].Kind != HaltCampaign || store.restraints[0].Code != 131053 {
			t.Errorf("restraints %+v, want one stop of campaign 1", store.restraints)
		}
		spent := 0
		for _, row := range store.campaigns[1].rows {
			spent += row.attempt
		}
		if n := store.counts(1); n[Pending] != 1000 || spent != 5 || each[1] <= 5 {
			t.Errorf("%d calls spent %d attempts of a campaign that stops at the fifth: %v", each[1], spent, n)
		}
	})
}

// Calls that never leave this machine must not go round at full rate.
func TestOurOwnProxySlowsTheLane(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newMemory(time.Millisecond, number(1250, 0.2))
		store.campaign(1, 0, 5000)
		api := &ledger{latency: 10 * time.Millisecond}
		api.answer = func(int, Message) Answer { return Answer{Local: true, Title: "HTTP 502 without a readable answer"} }
		r := startLane(t, store, api)
		time.Sleep(time.Minute)
		r.finish()
		if calls := len(api.sends()); calls > 300 || calls < 3 || store.story(HostScope) != "" {
			t.Errorf("%d calls in a minute behind a broken proxy; host: %s", calls, store.story(HostScope))
		}
	})
}

func TestUnsentCallsSlowTheLane(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newMemory(time.Millisecond, number(1250, 0.2))
		store.campaign(1, 0, 5000)
		api := &ledger{}
		down := true
		api.answer = func(_ int, m Message) Answer {
			if down {
				return Answer{Action: Release, Local: true, Title: "no such host"}
			}
			return accept(m)
		}
		r := startLane(t, store, api)
		time.Sleep(time.Minute)
		if calls := len(api.sends()); calls > 200 || calls < 3 {
			t.Errorf("%d calls in a minute without a network", calls)
		}
		synctest.Wait()
		if n := store.counts(1); n[Pending]+n[Sending] != 5000 || len(store.restraints) != 0 {
			t.Errorf("%v, restraints %+v", n, store.restraints)
		}
		api.change(func() { down = false })
		time.Sleep(2 * time.Minute)
		r.finish()
		if n := store.counts(1)[Accepted]; n != 5000 {
			t.Errorf("%d accepted after the network came back", n)
		}
	})
}

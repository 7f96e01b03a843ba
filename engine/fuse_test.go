package engine

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestVerdicts(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		a    Answer
		want verdict
		end  ProbeEnd
	}{
		"accepted":                  {Answer{Action: Accept}, saysUp, ProbeAnswered},
		"refused for its recipient": {Answer{Action: Fail}, saysUp, ProbeAnswered},
		"refused before the call":   {Answer{Action: Fail, Local: true}, saysNothing, ProbeUnused},
		"template paused":           {Answer{Action: StopCampaign, Scope: ScopeCampaign}, saysUp, ProbeAnswered},
		"token refused":             {Answer{Action: StopNumber, Scope: ScopeApp}, saysUp, ProbeAnswered},
		"no token here":             {Answer{Action: StopNumber, Scope: ScopeNumber, Local: true}, saysNothing, ProbeUnused},
		"a template we cannot fill": {Answer{Action: StopCampaign, Local: true}, saysNothing, ProbeUnused},
		"number throttled":          {Answer{Action: Pause, Scope: ScopeNumber, Throttled: true}, saysThrottle, ProbeThrottled},
		"number in maintenance":     {Answer{Action: Pause, Scope: ScopeNumber}, saysNothing, ProbeAnswered},
		"pair throttled":            {Answer{Action: Reschedule, Scope: ScopePair, Throttled: true}, saysNothing, ProbeAnswered},
		"this person later":         {Answer{Action: Reschedule}, saysUp, ProbeAnswered},
		"platform down":             {Answer{Action: Reschedule, Scope: ScopeApp}, saysDown, ProbeFailed},
		"nobody knows":              {Answer{}, saysDown, ProbeFailed},
		"our own proxy":             {Answer{Local: true}, saysLocal, ProbeUnused},
		"name does not resolve":     {Answer{Action: Release, Local: true}, saysLocal, ProbeUnused},
		"fenced":                    {Answer{Action: Release}, saysNothing, ProbeUnused},
	} {
		if got, end := tt.a.verdict(), tt.a.probeEnd(); got != tt.want || end != tt.end {
			t.Errorf("%s: verdict %d, want %d; probe %v, want %v", name, got, tt.want, end, tt.end)
		}
	}
}

// counts are breakers' own: consecutive failures, throttles by the pause, and
// nothing that was begun before the scope moved.
func TestABreakerCounts(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	b := &breaker{policy: BreakerPolicy{}.WithDefaults(), lease: LeaseID{Number: testNumber}}
	play := func(vs ...verdict) (c counted) {
		for _, v := range vs {
			now = now.Add(time.Second)
			c = b.count(v, now.Add(-time.Millisecond), now)
		}
		return c
	}
	if c := play(saysDown, saysDown, saysDown, saysDown, saysUp, saysDown, saysThrottle, saysNothing, saysDown); c.streak != 2 || c.trip {
		t.Errorf("a success between: %+v", c)
	}
	if c := play(saysDown, saysDown, saysDown); c.streak != 5 || !c.trip {
		t.Errorf("five in a row: %+v", c)
	}
	if closed, _ := b.view(); closed {
		t.Error("a number that has tripped goes on before Postgres has judged")
	}
	got, news := b.take()
	if got.Samples != 10 || got.Failures != 9 || got.Streak != 5 || got.Storm != 1 || got.Lease.Number != testNumber || !news {
		t.Errorf("report %+v", got)
	}
	if again, _ := b.take(); again.Samples != 0 || again.Streak != 5 {
		t.Errorf("the next report %+v", again)
	}
	b.tell(Breaker{State: BreakerOpen, Mark: "e.1"}, now, now)
	if c := play(saysDown); c.news {
		t.Error("an open breaker counts")
	}
	begun := now
	now = now.Add(time.Minute)
	b.tell(Breaker{State: BreakerClosed, Mark: "e.3"}, now, now)
	if c := b.count(saysDown, begun, now); c.news {
		t.Error("a call of before the closing counts")
	}
	b.tell(Breaker{State: BreakerOpen, Mark: "e.2"}, now.Add(-time.Second), now)
	if closed, closings := b.view(); !closed || closings != 1 {
		t.Errorf("a late answer was believed: closed %v, %d closings", closed, closings)
	}
}

func TestThrottlesCountOncePerPause(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	b := &breaker{policy: BreakerPolicy{}.WithDefaults(), lease: LeaseID{Number: testNumber}}
	for pause := 1; pause <= 5; pause++ {
		begun := now
		now = now.Add(time.Second)
		for range 10 { // all in flight when the first was throttled
			b.count(saysThrottle, begun, now)
		}
		b.count(saysUp, begun, now) // of before the pause: no forgiveness
		if b.tally.Storm != pause {
			t.Fatalf("storm %d after %d pauses", b.tally.Storm, pause)
		}
		now = now.Add(time.Second)
	}
	if closed, _ := b.view(); closed {
		t.Error("five throttles in a row do not trip")
	}
	host := &breaker{policy: BreakerPolicy{}.WithDefaults()}
	for range 50 {
		now = now.Add(time.Second)
		host.count(saysThrottle, now, now)
	}
	if closed, _ := host.view(); !closed {
		t.Error("throttles tripped the host")
	}
}

// The ramp only ever climbs by calls that went well, and never above the rate.
func TestRamp(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		full := rapid.Float64Range(0.01, 1000).Draw(t, "full")
		var r ramp
		if r.rate(full) != full {
			t.Fatalf("a ramp that never started gives %v of %v", r.rate(full), full)
		}
		r.start()
		well, last := 0, r.rate(full)
		for range 3000 {
			v := rapid.SampledFrom([]verdict{saysUp, saysUp, saysUp, saysUp, saysUp, saysUp, saysDown, saysThrottle, saysNothing, saysLocal}).Draw(t, "v")
			switch v {
			case saysUp:
				well++
			case saysDown:
				well = 0
			}
			done := r.count(v, full)
			rate := r.rate(full)
			if rate > full || rate < last || done && (v != saysUp || float64(well) < min(last, full)) {
				t.Fatalf("%v: from %v to %v of %v after %d that went well", v, last, rate, full, well)
			}
			if done {
				well = 0
			}
			last = rate
		}
	})
}

func TestRampSteps(t *testing.T) {
	t.Parallel()
	for full, want := range map[float64][]float64{160: {10, 40, 160}, 8: {1, 2, 8}, 0.5: {0.5, 0.5, 0.5}} {
		var r ramp
		r.start()
		for i, rate := range want {
			if got := r.rate(full); got != rate {
				t.Errorf("step %d of %v is %v, want %v", i, full, got, rate)
			}
			for n := 0; r.left == len(rampShares)-i; n++ {
				if r.left == 0 || n > 1000 {
					break
				}
				r.count(saysUp, full)
			}
		}
	}
}

package engine

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestSettle(t *testing.T) {
	t.Parallel()
	due := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	r := Recipient{ID: 7, Campaign: 3, Claim: 2, Attempt: 2, Due: due, Code: 503}
	back := Result{Status: Pending, Refund: true, KeepDue: true, Due: due}
	for name, tt := range map[string]struct {
		answer Answer
		most   int
		u      float64
		want   Result
	}{
		"accepted":             {Answer{Action: Accept, MessageID: "m"}, 3, 0, Result{Status: Accepted, MessageID: "m"}},
		"held":                 {Answer{Action: Accept, MessageID: "m", Held: true}, 3, 0, Result{Status: Held, MessageID: "m"}},
		"failed":               {Answer{Action: Fail, Code: 131026, Title: "t"}, 3, 0, Result{Status: Failed, Code: 131026, Title: "t"}},
		"failed by our word":   {Answer{Action: Fail, Local: true, Title: "t"}, 3, 0, Result{Status: Dead, Refund: true, Title: "t"}},
		"nobody knows":         {Answer{}, 3, 0, Result{Status: Unknown}},
		"unforeseen":           {Answer{Action: 99}, 3, 0, Result{Status: Unknown}},
		"pause keeps due":      {Answer{Action: Pause, After: time.Hour}, 3, 0.5, back},
		"released":             {Answer{Action: Release}, 3, 0, back},
		"released, last":       {Answer{Action: Release}, 2, 0, back},
		"campaign stopped":     {Answer{Action: StopCampaign}, 3, 0, back},
		"number stopped":       {Answer{Action: StopNumber}, 2, 0, back},
		"retry, no jitter":     {Answer{Action: Reschedule}, 3, 0, Result{Status: Pending}},
		"retry, half jitter":   {Answer{Action: Reschedule}, 3, 0.5, Result{Status: Pending, Delay: time.Second}},
		"retry, not before":    {Answer{Action: Reschedule, After: time.Minute}, 3, 0.5, Result{Status: Pending, Delay: 61 * time.Second}},
		"once":                 {Answer{Action: Reschedule, Code: 131049, Once: true, After: time.Hour}, 3, 0, Result{Status: Pending, Code: 131049, Delay: time.Hour}},
		"once, again":          {Answer{Action: Reschedule, Code: 503, Once: true}, 3, 0, Result{Status: Dead, Code: 503, Title: ReasonRefused}},
		"not once, again":      {Answer{Action: Reschedule, Code: 503}, 3, 0, Result{Status: Pending, Code: 503}},
		"spared for a while":   {Answer{Action: Reschedule, Spare: SpareMarketing, After: time.Hour}, 2, 0, Result{Status: Dead, Title: ReasonAttempts, Spare: SpareMarketing, SpareFor: time.Hour}},
		"spared for good":      {Answer{Action: Fail, Spare: SpareForGood}, 2, 0, Result{Status: Failed, Spare: SpareForGood}},
		"spent":                {Answer{Action: Reschedule, Code: 2}, 2, 0.5, Result{Status: Dead, Code: 2, Title: ReasonAttempts}},
		"spent, no limit":      {Answer{Action: Reschedule}, 0, 0.5, Result{Status: Dead, Title: ReasonAttempts}},
		"pair throttled":       {Answer{Action: Reschedule, Throttled: true, After: 6 * time.Second}, 2, 0, Result{Status: Pending, Refund: true, Delay: 6 * time.Second}},
		"pair throttled, base": {Answer{Action: Reschedule, Throttled: true}, 2, 0, Result{Status: Pending, Refund: true, Delay: time.Second}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tt.want.Recipient, tt.want.Campaign, tt.want.Claim = 7, 3, 2
			if diff := cmp.Diff(tt.want, Policy{}.Settle(r, Retry{MaxAttempts: tt.most}, tt.answer, tt.u)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestBackoffDoublesToItsCap(t *testing.T) {
	t.Parallel()
	p := Policy{Base: time.Second, Cap: 5 * time.Minute}
	want := time.Second
	for attempt := 1; attempt < 100; attempt++ {
		got := p.Settle(Recipient{Attempt: attempt}, Retry{MaxAttempts: 1000}, Answer{Action: Reschedule}, 1).Delay
		if d := got - want; d > 0 || d < -time.Microsecond {
			t.Fatalf("attempt %d: largest delay %v, want just under %v", attempt, got, want)
		}
		want = min(2*want, 5*time.Minute)
	}
}

// The decorrelated wait is drawn from the base to three times the one before,
// which no row remembers: it must come out the same when the next is drawn.
func TestDecorrelatedJitter(t *testing.T) {
	t.Parallel()
	p := Policy{Base: time.Second, Cap: 5 * time.Minute}
	decorrelated := Retry{MaxAttempts: 100, Jitter: DecorrelatedJitter}
	wait := func(id int64, attempt int, u float64) time.Duration {
		return p.Settle(Recipient{ID: id, Attempt: attempt}, decorrelated, Answer{Action: Reschedule}, u).Delay
	}
	var sum time.Duration
	for id := range int64(1000) {
		before, longest := p.Base, p.Base
		for attempt := 1; attempt < 100; attempt++ {
			d := wait(id, attempt, 0.9)
			if d < p.Base || d > min(3*before, p.Cap) || d != wait(id, attempt, 0.1) {
				t.Fatalf("row %d waits %v after %v, want %v to %v and the same each time", id, d, before, p.Base, min(3*before, p.Cap))
			}
			before, longest = d, max(longest, d)
		}
		sum += wait(id, 1, 0)
		if longest < time.Minute {
			t.Errorf("row %d never waits longer than %v in 99 attempts", id, longest)
		}
	}
	if mean := sum / 1000; mean < 1900*time.Millisecond || mean > 2100*time.Millisecond {
		t.Errorf("first waits are %v on average, want about 2s: evenly from 1s to 3s", mean)
	}
}

// checkSettled holds for every answer there can be.
func checkSettled(r Recipient, retry Retry, a Answer, u float64) error {
	p := Policy{}.WithDefaults()
	res := p.Settle(r, retry, a, u)
	least, most := p.Waits(retry.Jitter, r.Attempt)
	switch {
	case res.Recipient != r.ID || res.Campaign != r.Campaign || res.Claim != r.Claim:
		return fmt.Errorf("%+v is not about its row", res)
	case res.Status == Pending && res.KeepDue && !res.Refund:
		return fmt.Errorf("a give-back spent an attempt: %+v", res)
	case res.Status == Pending && !res.Refund && r.Attempt >= max(retry.MaxAttempts, 1):
		return fmt.Errorf("attempt %d of %d is retried: %+v", r.Attempt, retry.MaxAttempts, res)
	case res.Status != Pending && (res.Refund || res.KeepDue || res.Delay != 0):
		return fmt.Errorf("a settled row has a retry: %+v", res)
	case res.Delay < 0 || res.Delay > max(a.After, 0)+p.Cap:
		return fmt.Errorf("delay %v after %v", res.Delay, a.After)
	case res.Status == Pending && !res.Refund && (res.Delay-max(a.After, 0) < least || res.Delay-max(a.After, 0) > most):
		return fmt.Errorf("delay %v after %v, want from %v to %v beyond it", res.Delay, a.After, least, most)
	case res.Status == Pending && a.Action == Reschedule && res.Delay < a.After:
		return fmt.Errorf("delay %v is under the platform's %v", res.Delay, a.After)
	case (res.Status == Accepted || res.Status == Held) != (a.Action == Accept):
		return fmt.Errorf("%v for %+v", res.Status, a)
	case res.Status == Failed && a.Action != Fail:
		return fmt.Errorf("our policy wrote failed for %+v", a)
	case a.Action == Reconcile && res.Status != Unknown:
		return fmt.Errorf("an unknown outcome became %v", res.Status)
	}
	return nil
}

func TestSettleInvariants(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a := Answer{
			Action:    Action(rapid.IntRange(0, 9).Draw(t, "action")),
			After:     time.Duration(rapid.Int64Range(-1, int64(24*time.Hour)).Draw(t, "after")),
			Throttled: rapid.Bool().Draw(t, "throttled"), Held: rapid.Bool().Draw(t, "held"), MessageID: "m",
		}
		r := Recipient{ID: 1, Campaign: 2, Claim: 3, Attempt: rapid.IntRange(0, 1<<20).Draw(t, "attempt")}
		retry := Retry{
			MaxAttempts: rapid.IntRange(-1, 20).Draw(t, "most"),
			Jitter:      rapid.SampledFrom([]Jitter{"", FullJitter, DecorrelatedJitter}).Draw(t, "jitter"),
		}
		if err := checkSettled(r, retry, a, rapid.Float64().Draw(t, "u")); err != nil {
			t.Fatal(err)
		}
	})
}

func FuzzSettle(f *testing.F) {
	f.Add(uint8(Reschedule), int64(time.Second), 1, 3, false, 0.5, "full")
	f.Add(uint8(Reschedule), int64(time.Second), 2, 3, false, 0.5, "decorrelated")
	f.Add(uint8(Reschedule), int64(math.MaxInt64), math.MaxInt, 3, true, math.NaN(), "decorrelated")
	f.Add(uint8(Reschedule), int64(0), math.MaxInt, math.MaxInt, false, 0.5, "decorrelated")
	f.Add(uint8(Accept), int64(-1), 0, 0, false, math.Inf(1), "")
	f.Add(uint8(200), int64(0), -5, -5, true, -1.0, "else")
	f.Fuzz(func(t *testing.T, action uint8, after int64, attempt, most int, throttled bool, u float64, jitter string) {
		after = min(after, int64(365*24*time.Hour))
		a := Answer{Action: Action(action), After: time.Duration(after), Throttled: throttled}
		retry := Retry{MaxAttempts: most, Jitter: Jitter(jitter)}
		if err := checkSettled(Recipient{ID: int64(attempt), Attempt: attempt}, retry, a, u); err != nil {
			t.Fatal(err)
		}
	})
}

func TestPauseGrowsAndIsJittered(t *testing.T) {
	t.Parallel()
	p := Policy{}
	for strikes, most := range map[int]time.Duration{1: time.Second, 2: 2 * time.Second, 4: 8 * time.Second, 50: time.Minute} {
		if d := p.pause(strikes, 0, 1); d > most || d < most-time.Microsecond {
			t.Errorf("after %d strikes at most %v, want %v", strikes, d, most)
		}
		if d := p.pause(strikes, 0, 0); d != 0 {
			t.Errorf("full jitter starts at 0, not %v", d)
		}
		if d := p.pause(strikes, time.Hour, 0.5); d != time.Hour {
			t.Errorf("the platform's hour became %v", d)
		}
	}
}

func TestHopeless(t *testing.T) {
	t.Parallel()
	for f, want := range map[Failing]bool{
		{Failures: FailedInRow, Span: FailedSpan}:                 true,
		{Failures: FailedInRow - 1, Suspects: 4, Span: time.Hour}: false,
		{Failures: 5, Suspects: 5, Span: FailedSpan}:              true,
		{Failures: 1000, Suspects: 1000, Span: FailedSpan - 1}:    false, // a crowd accepted at once
		{}: false,
		{Failures: FailedInRow, Suspects: 1, Span: 10 * time.Second}:   true,
		{Failures: FailedInRow - 1, Suspects: 5, Span: 2 * FailedSpan}: true,
	} {
		if got := (Policy{}).Hopeless(f); got != want {
			t.Errorf("%+v: %v", f, got)
		}
	}
	if !(Policy{Suspects: 2}).Hopeless(Failing{Failures: 2, Suspects: 2, Span: FailedSpan}) {
		t.Error("a policy of two suspects is not asked")
	}
}

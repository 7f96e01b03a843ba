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
	r := Recipient{ID: 7, Campaign: 3, Claim: 2, Attempt: 2, Due: due}
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
		"spent":                {Answer{Action: Reschedule, Code: 2}, 2, 0.5, Result{Status: Dead, Code: 2, Title: ReasonAttempts}},
		"spent, no limit":      {Answer{Action: Reschedule}, 0, 0.5, Result{Status: Dead, Title: ReasonAttempts}},
		"pair throttled":       {Answer{Action: Reschedule, Throttled: true, After: 6 * time.Second}, 2, 0, Result{Status: Pending, Refund: true, Delay: 6 * time.Second}},
		"pair throttled, base": {Answer{Action: Reschedule, Throttled: true}, 2, 0, Result{Status: Pending, Refund: true, Delay: time.Second}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tt.want.Recipient, tt.want.Campaign, tt.want.Claim = 7, 3, 2
			if diff := cmp.Diff(tt.want, Policy{}.Settle(r, tt.most, tt.answer, tt.u)); diff != "" {
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
		got := p.Settle(Recipient{Attempt: attempt}, 1000, Answer{Action: Reschedule}, 1).Delay
		if d := got - want; d > 0 || d < -time.Microsecond {
			t.Fatalf("attempt %d: largest delay %v, want just under %v", attempt, got, want)
		}
		want = min(2*want, 5*time.Minute)
	}
}

// checkSettled holds for every answer there can be.
func checkSettled(r Recipient, most int, a Answer, u float64) error {
	p := Policy{}.withDefaults()
	res := p.Settle(r, most, a, u)
	switch {
	case res.Recipient != r.ID || res.Campaign != r.Campaign || res.Claim != r.Claim:
		return fmt.Errorf("%+v is not about its row", res)
	case res.Status == Pending && res.KeepDue && !res.Refund:
		return fmt.Errorf("a give-back spent an attempt: %+v", res)
	case res.Status == Pending && !res.Refund && r.Attempt >= max(most, 1):
		return fmt.Errorf("attempt %d of %d is retried: %+v", r.Attempt, most, res)
	case res.Status != Pending && (res.Refund || res.KeepDue || res.Delay != 0):
		return fmt.Errorf("a settled row has a retry: %+v", res)
	case res.Delay < 0 || res.Delay > max(a.After, 0)+p.Cap:
		return fmt.Errorf("delay %v after %v", res.Delay, a.After)
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
		if err := checkSettled(r, rapid.IntRange(-1, 20).Draw(t, "most"), a, rapid.Float64().Draw(t, "u")); err != nil {
			t.Fatal(err)
		}
	})
}

func FuzzSettle(f *testing.F) {
	f.Add(uint8(Reschedule), int64(time.Second), 1, 3, false, 0.5)
	f.Add(uint8(Reschedule), int64(math.MaxInt64), math.MaxInt, 3, true, math.NaN())
	f.Add(uint8(Accept), int64(-1), 0, 0, false, math.Inf(1))
	f.Add(uint8(200), int64(0), -5, -5, true, -1.0)
	f.Fuzz(func(t *testing.T, action uint8, after int64, attempt, most int, throttled bool, u float64) {
		after = min(after, int64(365*24*time.Hour))
		a := Answer{Action: Action(action), After: time.Duration(after), Throttled: throttled}
		if err := checkSettled(Recipient{ID: 1, Attempt: attempt}, most, a, u); err != nil {
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

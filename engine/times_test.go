package engine

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// A quantile lies in the class of the true one, however the calls were spread,
// and classes of several nodes add up.
func TestTimesQuantile(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		calls := rapid.SliceOfN(rapid.IntRange(0, 12_000), 1, 300).Draw(t, "ms")
		var times Times
		sorted := make([]time.Duration, len(calls))
		for i, ms := range calls {
			sorted[i] = time.Duration(ms) * time.Millisecond
			times.add(sorted[i])
		}
		slices.Sort(sorted)
		for _, q := range []float64{0.5, 0.95, 0.99, 1} {
			truth := sorted[max(0, int(q*float64(len(sorted))+0.999999)-1)]
			var one Times
			one.add(truth)
			low, high := one.Quantile(0), one.Quantile(1)
			if got := times.Quantile(q); got < low || got > high {
				t.Fatalf("%v of %v is %v, want %v to %v (truth %v)", q, sorted, got, low, high, truth)
			}
		}
	})
	if (Times{}).Quantile(0.5) != 0 {
		t.Error("no calls took time")
	}
}

func TestBreakerNamesGoBothWays(t *testing.T) {
	t.Parallel()
	for i, s := range BreakerStates() {
		if got, err := ParseBreakerState(s.String()); err != nil || got != s || int(s) != i {
			t.Errorf("%v is %d and becomes %v, %v", s, i, got, err)
		}
	}
	if _, err := ParseBreakerState("ajar"); err == nil {
		t.Error("a breaker is ajar")
	}
	if (Tally{}).Scope() != HostScope || (Tally{Lease: LeaseID{Number: "1"}}).Scope() != "number:1" {
		t.Error("a tally's scope")
	}
}

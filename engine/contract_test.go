package engine

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

func TestStatusNamesGoBothWays(t *testing.T) {
	t.Parallel()
	all := Statuses()
	if !slices.IsSorted(all) || all[0] != Pending || last(all) != Read {
		t.Errorf("statuses %v are not in order of rank", all)
	}
	for _, s := range all {
		if got, err := ParseStatus(s.String()); err != nil || got != s {
			t.Errorf("%v becomes %v, %v", s, got, err)
		}
		if want := s != Pending && s != Sending && s != Unknown; s.Settled() != want {
			t.Errorf("%v settled: %v", s, !want)
		}
	}
	if _, err := ParseStatus("sented"); err == nil || Status(99).String() != "status(99)" {
		t.Errorf("an unknown status: %v, %v", err, Status(99))
	}
	if names := Actions(); len(names) != 8 || names[0].String() != "reconcile" || names[7].String() != "release" {
		t.Errorf("actions %v", names)
	}
}

func TestParamValue(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		p    Param
		want string
	}{
		{Param{Column: 1}, "b"}, {Param{Column: 2}, ""}, {Param{Column: -1, Literal: "x"}, "x"},
	} {
		if got := tt.p.Value([]string{"a", "b"}); got != tt.want {
			t.Errorf("%+v: %q, want %q", tt.p, got, tt.want)
		}
	}
}

// What an operator or another lane changes takes hold in about a second.
func TestSettingsAreLive(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newMemory(time.Millisecond, number(100, 0.2))
		store.campaign(1, 0, 100_000)
		r := startLane(t, store, &ledger{latency: 250 * time.Millisecond})
		n := store.numbers[testNumber]
		during := func(change func(), settle time.Duration) float64 {
			store.change(change)
			time.Sleep(settle)
			before := len(r.api.sends())
			time.Sleep(20 * time.Second)
			return float64(len(r.api.sends())-before) / 20
		}
		for name, tt := range map[string]struct {
			change   func()
			min, max float64
		}{
			"faster":  {func() { n.Limit = 500 }, 396, 404},
			"slower":  {func() { n.Limit = 10 }, 7.9, 8.1},
			"paused":  {func() { n.paused = time.Now().Add(30 * time.Second) }, 0, 0},
			"stopped": {func() { n.Enabled = false }, 0, 0},
		} {
			if rate := during(tt.change, 3*time.Second); rate < tt.min || rate > tt.max {
				t.Errorf("%s: %v a second", name, rate)
			}
			store.change(func() { n.Limit, n.Enabled, n.paused = 100, true, time.Time{} })
			time.Sleep(15 * time.Second)
		}
		r.finish()
		r.conserved(t, 1)
	})
}

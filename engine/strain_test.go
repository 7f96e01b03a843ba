package engine

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestStrain(t *testing.T) {
	t.Parallel()
	const fast, slow = 20 * time.Millisecond, 600 * time.Millisecond
	type calls struct {
		n   int
		d   time.Duration
		err error
	}
	for name, tt := range map[string]struct {
		calls []calls
		want  int // of 160
	}{
		"nothing known":                {nil, 160},
		"fast":                         {[]calls{{n: 100, d: fast}}, 160},
		"one slow call of twenty":      {[]calls{{n: 19, d: fast}, {n: 1, d: slow}, {n: 19, d: fast}, {n: 1, d: slow}}, 160},
		"two slow calls":               {[]calls{{n: 2, d: slow}}, 80},
		"half a second is not slow":    {[]calls{{n: 100, d: slowCall}}, 160},
		"slow and slow again":          {[]calls{{n: 4, d: slow}}, 40},
		"slow for ever":                {[]calls{{n: 100, d: slow}}, 10},
		"timeouts are slow":            {[]calls{{n: 2, d: claimCall, err: context.DeadlineExceeded}}, 80},
		"failures at once say nothing": {[]calls{{n: 2, d: slow}, {n: 1000, d: fast, err: errDown}}, 80},
		"an eighth a look comes back":  {[]calls{{n: 2, d: slow}, {n: 20, d: fast}}, 100},
		"all of it, and no more":       {[]calls{{n: 2, d: slow}, {n: 200, d: fast}}, 160},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var s strain
			for _, c := range tt.calls {
				for range c.n {
					s.took(c.d, c.err)
				}
			}
			if got := s.part(160, 0); got != tt.want {
				t.Errorf("part of 160: %d, want %d", got, tt.want)
			}
			if got := s.part(160, 120); got != max(tt.want, 120) {
				t.Errorf("and at least 120: %d", got)
			}
		})
	}
}

// TestASlowDatabaseIsAskedForLess: while claims and writes take over half a
// second, what is claimed and outstanding shrinks to little more than a batch;
// nothing is lost or sent twice, and afterwards the rate comes back.
func TestASlowDatabaseIsAskedForLess(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newMemory(3*time.Millisecond, number(250, 0.2))
		store.campaign(1, 0, 60_000)
		r := startLane(t, store, &ledger{latency: 100 * time.Millisecond})
		time.Sleep(10 * time.Second)
		store.change(func() {
			store.slow = map[string]time.Duration{"claim": 1200 * time.Millisecond, "record": 900 * time.Millisecond}
		})
		time.Sleep(30 * time.Second)
		before := store.claimed()
		most := 0
		for range 100 {
			time.Sleep(200 * time.Millisecond)
			most = max(most, r.lane.writer.outstanding())
		}
		largest := 0
		store.change(func() {
			for _, ask := range store.asks[before:] {
				largest = max(largest, ask.Free)
			}
		})
		if batch := 50; largest > batch || largest < batch/3 || most > 2*batch {
			t.Errorf("claims of %d, %d outstanding; want little more than a batch of %d", largest, most, batch)
		}
		store.change(func() { store.slow = nil })
		time.Sleep(40 * time.Second)
		sent := len(r.api.sends())
		time.Sleep(10 * time.Second)
		if got := len(r.api.sends()) - sent; got < 1960 {
			t.Errorf("%d sends in 10 s at 200 a second, 40 s after the database was quick again", got)
		}
		r.finish()
		r.conserved(t, 1)
	})
}

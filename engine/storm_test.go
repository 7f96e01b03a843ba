package engine

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// limiter is the platform's side of a throughput: at most so many messages of
// a number in any second; those refused do not count.
type limiter struct {
	limit map[string]int
	taken map[string][]time.Time
}

func newLimiter() *limiter {
	return &limiter{limit: make(map[string]int), taken: make(map[string][]time.Time)}
}

func (l *limiter) admit(number string, at time.Time) bool {
	limit, ok := l.limit[number]
	if !ok {
		limit = 80
	}
	taken := l.taken[number]
	if n := len(taken); n >= limit && at.Sub(taken[n-limit]) < time.Second {
		return false
	}
	l.taken[number] = append(taken, at)
	return true
}

// storm is a fleet in a bubble whose first number is throttled.
type storm struct {
	store   *memory
	api     *ledger
	limiter *limiter
	refused []time.Time
	others  int // refusals of the other number
}

func newStorm() *storm {
	s := &storm{
		store:   newMemory(2*time.Millisecond, number(80, 0.2), Number{ID: "other", Limit: 80, Headroom: 0.2}),
		api:     &ledger{latency: 100 * time.Millisecond},
		limiter: newLimiter(),
	}
	s.store.campaign(1, 0, 60_000)
	s.api.answer = func(call int, m Message) Answer {
		arrived := s.api.calls[call-1]
		switch {
		case s.limiter.admit(arrived.Number, arrived.at):
			return Answer{Action: Accept, MessageID: "m"}
		case m.Number != testNumber:
			s.others++
		default:
			s.refused = append(s.refused, arrived.at)
		}
		return Answer{Action: Pause, Scope: ScopeNumber, Throttled: true, Code: 130429}
	}
	return s
}

func (s *storm) cut(limit int) { s.api.change(func() { s.limiter.limit[testNumber] = limit }) }

// during counts a number's messages that were accepted, and those refused, from
// one time to another.
func (s *storm) during(number string, from, to time.Time) (accepted, refused int) {
	s.api.change(func() {
		for _, at := range s.limiter.taken[number] {
			if !at.Before(from) && at.Before(to) {
				accepted++
			}
		}
		for _, at := range s.refused {
			if number == testNumber && !at.Before(from) && at.Before(to) {
				refused++
			}
		}
	})
	return accepted, refused
}

// firstAfter is when the throttled number's first message after a time was accepted.
func (s *storm) firstAfter(at time.Time) (first time.Time) {
	s.api.change(func() {
		taken := s.limiter.taken[testNumber]
		first = taken[slices.IndexFunc(taken, at.Before)]
	})
	return first
}

// TestAStormOfThrottles: the platform's real limit of one number falls from 80
// to 20 a second and comes back. The number finds the new pace, loses little of
// it to throttles, keeps what it learned over a change of owner, and is back at
// its full rate within two minutes; the other number notices nothing.
func TestAStormOfThrottles(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStorm()
		stop := startNode(t, Options{Store: s.store, Sender: s.api, ID: "a"})
		time.Sleep(20 * time.Second)
		cut := time.Now()
		s.cut(20)
		time.Sleep(2 * time.Minute)
		stop()
		stop = startNode(t, Options{Store: s.store, Sender: s.api, ID: "b"})
		taken := time.Now()
		time.Sleep(2 * time.Minute)
		s.cut(80)
		time.Sleep(2 * time.Minute)
		settled := time.Now()
		time.Sleep(20 * time.Second)
		stop()

		accepted, refused := s.during(testNumber, cut.Add(30*time.Second), taken)
		mean := float64(accepted) / taken.Sub(cut.Add(30*time.Second)).Seconds()
		share := float64(refused) / float64(accepted+refused)
		t.Logf("from 30 s on: %.2f a second of 20, %.2f %% throttled", mean, 100*share)
		if mean < 17 || share >= 0.05 {
			t.Errorf("%.2f a second accepted and %.1f %% throttled, want at least 17 and under 5 %%", mean, 100*share)
		}
		first := s.firstAfter(taken)
		if accepted, refused := s.during(testNumber, first, first.Add(time.Second/5)); accepted+refused > 7 {
			t.Errorf("%d calls in the new owner's first fifth of a second, want 20 a second: what was learned is forgotten", accepted+refused)
		}
		if accepted, refused := s.during(testNumber, settled, settled.Add(20*time.Second)); accepted < 20*63 || refused > 0 {
			t.Errorf("%d accepted in 20 s, two minutes after the limit came back (%d refused), want 64 a second", accepted, refused)
		}
		if got, _ := s.during("other", cut, taken); s.others > 0 || float64(got) < 63.5*taken.Sub(cut).Seconds() {
			t.Errorf("the other number had %d accepted in %v and %d refused", got, taken.Sub(cut), s.others)
		}
		for _, row := range s.store.campaigns[1].rows {
			if row.status == Accepted && row.attempt != 1 || row.status == Dead {
				t.Fatalf("a throttle spent an attempt: %+v", row)
			}
		}
	})
}

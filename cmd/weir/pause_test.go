package main

import (
	"testing"
	"time"

	"github.com/weirhq/weir/internal/sim"
)

// silence is a time in which nothing of a campaign may be received.
type silence struct{ from, to time.Time }

// TestAPauseIsSilence: a campaign at a few hundred messages per second is paused
// and resumed, several times over. From each confirmation to the resume the
// platform receives not one request, and in the end everybody was sent to once.
func TestAPauseIsSilence(t *testing.T) {
	t.Parallel()
	const n = 4000
	s := newStage(t, sim.Options{
		Latency: sim.Spread{Base: 50 * time.Millisecond, Jitter: 250 * time.Millisecond},
		Sent:    sim.Spread{Base: 50 * time.Millisecond}, Delivered: sim.Spread{Base: 50 * time.Millisecond},
		Numbers: []sim.Number{{ID: scriptNumber, WABA: "waba", Throughput: 1000}},
	})
	s.weir("number", "add", scriptNumber, "--waba", "waba", "--limit", "400", "--headroom", "0.1", "--no-verify")
	s.campaign(n)
	s.serve()
	var silences []silence
	for left := float64(n); len(silences) < 4; {
		left *= 0.75
		s.until("further", time.Minute, func(v campaignView) bool { return float64(v.Counts["pending"]) < left })
		s.weir("campaign", "pause", "c")
		silences = append(silences, s.keepSilent())
	}
	s.until("finished", time.Minute, func(v campaignView) bool {
		return v.State == "finished" && v.Counts["delivered"]+v.Counts["read"] == n
	})
	s.silent(silences)
	s.holds(n)
}

// keepSilent leaves a paused campaign alone for a moment and resumes it.
func (s *stage) keepSilent() (q silence) {
	s.t.Helper()
	if view := s.status(); view.State != "paused" || view.Reason != "paused by the operator" {
		s.t.Fatalf("after the pause it is %s (%s)", view.State, view.Reason)
	}
	pool := s.pool()
	if err := pool.QueryRow(s.t.Context(), `SELECT confirmed_at FROM campaigns`).Scan(&q.from); err != nil {
		s.t.Fatal(err)
	}
	<-time.After(700 * time.Millisecond) // what breaks the silence comes now
	s.weir("campaign", "resume", "c")
	if err := pool.QueryRow(s.t.Context(), `SELECT control_at FROM campaigns`).Scan(&q.to); err != nil {
		s.t.Fatal(err)
	}
	return q
}

// silent holds the platform's ledger to the silences.
func (s *stage) silent(silences []silence) {
	s.t.Helper()
	ledger := s.platform.Ledger()
	for i, q := range silences {
		broken := 0
		for _, e := range ledger {
			if at := time.Unix(0, e.Received); at.After(q.from) && at.Before(q.to) {
				broken++
			}
		}
		if broken > 0 {
			s.t.Errorf("silence %d: the platform received %d requests in its %v", i, broken, q.to.Sub(q.from))
		}
	}
}

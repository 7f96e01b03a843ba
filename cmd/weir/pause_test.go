package main

import (
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/sim"
)

// silence is a time in which nothing of a campaign may be received.
type silence struct{ from, to time.Time }

// TestAPauseIsSilence: a campaign at a few hundred messages per second is paused
// and resumed, several times over, and then canceled. From each confirmation to
// the resume, and from the cancel's on, the platform receives not one request.
// Who was not sent to is canceled and can be exported, and nothing takes the
// campaign up again.
func TestAPauseIsSilence(t *testing.T) {
	t.Parallel()
	const n = 40_000 // so many that it is not over before the test is, on a slow machine too
	s := newStage(t, sim.Options{
		Latency: sim.Spread{Base: 50 * time.Millisecond, Jitter: 250 * time.Millisecond},
		Sent:    sim.Spread{Base: 50 * time.Millisecond}, Delivered: sim.Spread{Base: 50 * time.Millisecond},
		Numbers: []sim.Number{{ID: scriptNumber, WABA: "waba", Throughput: 1000}},
	})
	s.weir("number", "add", scriptNumber, "--waba", "waba", "--limit", "400", "--headroom", "0.1", "--no-verify")
	s.campaign(n)
	s.serve()
	var silences []silence
	for range 4 {
		s.sends(300)
		s.weir("campaign", "pause", "c")
		silences = append(silences, s.keepSilent())
	}
	s.sends(300)
	s.weir("campaign", "cancel", "c")
	last := silence{from: s.instant("confirmed_at")}
	view := s.until("canceled", time.Minute, func(v campaignView) bool { return v.State == "canceled" })
	unsent := view.Counts["canceled"]
	if sent := int64(len(s.platform.Ledger())); view.FinishedAt == "" || unsent+sent != n || sent < 1500 {
		t.Errorf("%d requests and %d canceled of %d; it ended at %q", sent, unsent, n, view.FinishedAt)
	}
	for _, verb := range []string{"start", "resume", "pause"} {
		if said := s.refused("campaign", verb, "c"); !strings.Contains(said, "canceled") {
			t.Errorf("%s of a canceled campaign says %q", verb, said)
		}
	}
	if rows := strings.Count(s.weir("campaign", "export", "c", "--status", "canceled"), "\n") - 1; int64(rows) != unsent {
		t.Errorf("%d rows are exported as unsent, want %d", rows, unsent)
	}
	s.holds(n)
	last.to = time.Now()
	s.silent(append(silences, last))
}

// sends waits until the platform has received more requests.
func (s *stage) sends(more int) {
	s.t.Helper()
	want, deadline := len(s.platform.Ledger())+more, time.After(patience)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for len(s.platform.Ledger()) < want {
		select {
		case <-deadline:
			s.t.Fatalf("the platform has received %d requests, want %d", len(s.platform.Ledger()), want)
		case <-tick.C:
		}
	}
}

// instant is a time of the campaign's that no command shows as exactly.
func (s *stage) instant(column string) (at time.Time) {
	s.t.Helper()
	if err := s.pool().QueryRow(s.t.Context(), `SELECT `+column+` FROM campaigns`).Scan(&at); err != nil {
		s.t.Fatal(err)
	}
	return at
}

// keepSilent leaves a paused campaign alone for a moment and resumes it.
func (s *stage) keepSilent() (q silence) {
	s.t.Helper()
	if view := s.status(); view.State != "paused" || view.Reason != "paused by the operator" || view.ConfirmedAt == "" {
		s.t.Fatalf("after the pause it is %s (%s), confirmed at %q", view.State, view.Reason, view.ConfirmedAt)
	}
	q.from = s.instant("confirmed_at")
	<-time.After(700 * time.Millisecond) // what breaks the silence comes now
	s.weir("campaign", "resume", "c", "--no-verify")
	q.to = s.instant("control_at")
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
		if broken > 0 || !q.from.Before(q.to) {
			s.t.Errorf("silence %d: the platform received %d requests in its %v", i, broken, q.to.Sub(q.from))
		}
	}
}

package store

import (
	"errors"
	"testing"
	"time"
)

// A pause until a time ends by itself, once, and only when that time has come
// and nobody has said otherwise: each of those is spoiled alone.
func TestResumeDue(t *testing.T) {
	t.Parallel()
	s := openOperator(t)
	id := draft(t, s, "c", 3)
	later := time.Now().Add(time.Hour)
	const over = "UPDATE campaigns SET resume_at = now() - interval '1 s' WHERE resume_at IS NOT NULL"
	for _, tc := range []struct {
		name  string
		moved func() error // between the pause and its end
		want  bool
	}{
		{name: "its time has not come", moved: func() error { exec(t, s, "UPDATE campaigns SET resume_at = now() + interval '1 h'"); return nil }},
		{name: "paused anew until later", moved: func() error { exec(t, s, over); return s.PauseCampaignUntil(t.Context(), id, later) }},
		{name: "paused anew without a time", moved: func() error { exec(t, s, over); return s.PauseCampaign(t.Context(), id) }},
		{name: "canceled", moved: func() error { exec(t, s, over); return s.CancelCampaign(t.Context(), id) }},
		{name: "resumed and paused for good", moved: func() error {
			exec(t, s, over)
			_, err := s.ResumeCampaign(t.Context(), id)
			return errors.Join(err, s.PauseCampaign(t.Context(), id))
		}},
		{name: "expired", moved: func() error {
			exec(t, s, over)
			exec(t, s, "UPDATE campaigns SET expire_at = now()")
			return nil
		}},
		{name: "everything is stopped", moved: func() error {
			exec(t, s, over)
			exec(t, s, stopped)
			return nil
		}},
		{name: "its time has come", moved: func() error { exec(t, s, over); return nil }, want: true},
	} {
		exec(t, s, "UPDATE instance SET stopped_at = NULL, stopped_by = NULL, stop_reason = NULL")
		exec(t, s, "UPDATE campaigns SET state = 'running', resume_at = NULL, expire_at = NULL, state_reason = NULL, start_at = now() - interval '1 min'")
		if err := errors.Join(s.PauseCampaignUntil(t.Context(), id, later), tc.moved()); err != nil {
			t.Fatalf("%s: %v", tc.name, err)
		}
		for i, want := range []bool{tc.want, false} {
			if resumed, err := s.ResumeDue(t.Context()); err != nil || (len(resumed) == 1) != want {
				t.Errorf("%s, look %d: resumed %v, %v", tc.name, i, resumed, err)
			}
		}
		if runs := count(t, s, "SELECT count(*) FROM campaigns WHERE state = 'running' AND resume_at IS NULL") == 1; runs != tc.want {
			t.Errorf("%s: it runs: %v", tc.name, runs)
		}
	}
	exec(t, s, "UPDATE campaigns SET state = 'paused', state_reason = '132015: template paused', resume_at = NULL")
	if err := s.PauseCampaignUntil(t.Context(), id, later); !errors.Is(err, ErrRefused) {
		t.Errorf("what stopped by itself is to go on by itself: %v", err)
	}
}

// The tender's look may be older than an operator's word: the write asks again.
func TestResumeDueAsksUnderTheLock(t *testing.T) {
	t.Parallel()
	s := openOperator(t)
	id := draft(t, s, "c", 3)
	exec(t, s, "UPDATE campaigns SET state = 'paused', state_reason = 'paused by the operator', start_at = now(), resume_at = now() - interval '1 s'")
	tx := begin(t, s)
	if _, err := tx.Exec(t.Context(), "UPDATE campaigns SET resume_at = NULL WHERE id = $1", id); err != nil {
		t.Fatal(err)
	}
	done := make(chan []int64, 1)
	go func() {
		resumed, err := s.ResumeDue(t.Context())
		if err != nil {
			t.Error(err)
		}
		done <- resumed
	}()
	for len(done) == 0 && count(t, s, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'") == 0 {
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if resumed := <-done; len(resumed) != 0 || count(t, s, "SELECT count(*) FROM campaigns WHERE state = 'paused'") != 1 {
		t.Errorf("resumed %v, which its operator had paused for good", resumed)
	}
}

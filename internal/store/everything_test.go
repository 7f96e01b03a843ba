package store

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/weirhq/weir/engine"
	"github.com/weirhq/weir/internal/store/db"
)

// A stop pauses what runs, lets nothing begin, and is confirmed by the lanes like
// any pause; its end takes back that pause and no other.
func TestStopEverything(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	runs, first := l.campaign(3)
	byHand, _ := l.campaign(1)
	since, _ := l.campaign(1)
	canceled, _ := l.campaign(1)
	l.must(l.PauseCampaign(t.Context(), byHand))
	l.must(l.StopEverything(t.Context(), "ana", "wrong price"))
	l.must(l.StopEverything(t.Context(), "bob", "me too"))
	stop, err := l.Stopped(t.Context())
	if l.must(err); !stop.Stands() || stop.By != "ana" || stop.Reason != "wrong price" || stop.Campaigns != 3 || stop.Awaited != 4 {
		t.Errorf("stopped %+v", stop)
	}
	l.must(l.PauseCampaign(t.Context(), since))
	l.must(l.CancelCampaign(t.Context(), canceled))
	l.stays(runs, first)
	for _, c := range []int64{runs, byHand, since, canceled} {
		l.acknowledge(l.lease, engine.Control{Campaign: c, Version: scalar[int64](l, `SELECT control_version FROM campaigns WHERE id = $1`, c)})
	}
	if stop, err = l.Stopped(t.Context()); err != nil || stop.Awaited != 0 || stop.Campaigns != 1 || l.state(runs) != "paused" {
		t.Errorf("%s, stopped %+v, %v", l.state(runs), stop, err)
	}
	l.stays(runs, first)
	released, resumed, err := l.ReleaseEverything(t.Context(), "cleo")
	if err != nil || !released || resumed != 1 || l.state(runs) != "running" || l.state(byHand) != "paused" || l.state(since) != "paused" || l.state(canceled) != "canceling" {
		t.Errorf("released %v, %d resumed, %v: %s %s %s %s", released, resumed, err, l.state(runs), l.state(byHand), l.state(since), l.state(canceled))
	}
	if released, _, err = l.ReleaseEverything(t.Context(), "cleo"); released || err != nil {
		t.Errorf("released a second time: %v, %v", released, err)
	}
	if rows := l.claim(10, runs); len(rows) != 3 {
		t.Errorf("%d claimed after the release, want 3", len(rows))
	}
	const told = `SELECT string_agg(what || ' ' || who || coalesce(' ' || (body->>'reason'), ''), ', ' ORDER BY id) FROM audit WHERE subject = 'everything'`
	if got := scalar[string](l, told); got != "everything_stopped ana wrong price, everything_released cleo" {
		t.Errorf("audit: %s", got)
	}
	if got := scalar[string](l, `SELECT string_agg(kind, ' ' ORDER BY id) FROM notices WHERE subject = 'everything'`); got != "sending.stopped sending.released" {
		t.Errorf("notices: %s", got)
	}
}

// stays holds that under a stop nothing is claimed, whatever the campaign says,
// and that nothing starts, resumes or is replayed.
func (l *lab) stays(running, first int64) {
	l.t.Helper()
	ctx := l.t.Context()
	refused := func(what string, err error) {
		l.t.Helper()
		if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "weir go") {
			l.t.Errorf("%s: %v, want a refusal that says what to do", what, err)
		}
	}
	state := l.state(running)
	_, err := l.ResumeCampaign(ctx, running)
	refused("resume", err)
	l.exec(`INSERT INTO campaign_imports (campaign_id, file, head_sha256, size, rows_read, accepted) VALUES ($1, 'f', '', 1, 1, 1) ON CONFLICT DO NOTHING`, running)
	l.exec(`UPDATE campaigns SET state = 'draft' WHERE id = $1`, running)
	_, err = l.StartCampaign(ctx, running, true)
	refused("start", err)
	l.exec(`UPDATE campaigns SET state = 'scheduled' WHERE id = $1`, running)
	if started, wait, err := l.MarkScheduledStart(ctx, running); started || wait != 0 || err != nil {
		l.t.Errorf("a scheduled start under the stop: %v, %v, %v", started, wait, err)
	}
	l.exec(`UPDATE campaigns SET state = 'finished' WHERE id = $1`, running)
	_, err = l.replayPage(ctx, Campaign{ID: running}, &db.ReplayRecipientsParams{Campaign: running, Ids: []int64{first}})
	refused("replay", err)
	l.exec(`UPDATE campaigns SET state = 'running' WHERE id = $1`, running)
	if rows := l.claim(10, running); len(rows) != 0 {
		l.t.Errorf("%d claimed under the stop", len(rows))
	}
	l.exec(`UPDATE campaigns SET state = $2 WHERE id = $1`, running, state)
}

// A start and a stop at the same time: whichever commits first, nothing runs.
func TestStartAndStopAtOnce(t *testing.T) {
	t.Parallel()
	s := openOperator(t)
	id := draft(t, s, "c", 3)
	first := func(own func(context.Context, pgx.Tx) error, other func() error) error {
		t.Helper()
		tx := begin(t, s)
		if err := own(t.Context(), tx); err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() { done <- other() }()
		// It waits for the first; one that does not has made its mistake by then.
		for len(done) == 0 && count(t, s, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'") == 0 {
		}
		if err := tx.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
		return <-done
	}
	start := &db.StartCampaignParams{ID: id, AtOnce: true, States: []string{"draft"}}
	stop := &db.StopEverythingParams{Who: "ana", Reason: ""}
	for _, scheduled := range []bool{false, true} {
		err := first(func(ctx context.Context, tx pgx.Tx) (err error) {
			if scheduled {
				_, err = s.q.MarkScheduledStart(ctx, tx, id)
			} else {
				_, err = s.q.StartCampaign(ctx, tx, start)
			}
			return err
		}, func() error { return s.StopEverything(t.Context(), "ana", "") })
		if n := count(t, s, "SELECT count(*) FROM campaigns WHERE state = 'pausing' AND stopped AND started_at IS NOT NULL"); err != nil || n != 1 {
			t.Errorf("a start that came first, by schedule %v, runs on under the stop: %v", scheduled, err)
		}
		exec(t, s, "UPDATE instance SET stopped_at = NULL, stopped_by = NULL, stop_reason = NULL")
		exec(t, s, "UPDATE campaigns SET state = 'scheduled', started_at = NULL, start_at = now() - interval '1 min', stopped = false")
	}
	exec(t, s, "UPDATE campaigns SET state = 'draft', started_at = NULL, stopped = false")
	err := first(func(ctx context.Context, tx pgx.Tx) error { return s.q.StopEverything(ctx, tx, stop) },
		func() error { _, err := s.StartCampaign(t.Context(), id, true); return err })
	if !errors.Is(err, ErrRefused) || count(t, s, "SELECT count(*) FROM campaigns WHERE state = 'draft'") != 1 {
		t.Errorf("a stop that came first did not keep the start out: %v", err)
	}
}

package jobs

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/weirhq/weir/internal/store"
)

// TestOneCampaignsTroubleIsNotTheOthers: bad is tended first, and cannot start.
func TestOneCampaignsTroubleIsNotTheOthers(t *testing.T) {
	t.Parallel()
	s := newStage(t, time.Time{})
	s.exec(`UPDATE campaigns SET state = 'scheduled', start_at = now()`)
	s.exec(`INSERT INTO campaigns (name, template, language, state, start_at) VALUES ('bad', 'hello', 'en_US', 'scheduled', now())`)
	s.exec(`CREATE FUNCTION boom() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'boom'; END $$`)
	s.exec(`CREATE TRIGGER boom BEFORE UPDATE ON campaigns FOR EACH ROW WHEN (OLD.name = 'bad') EXECUTE FUNCTION boom()`)
	s.run()
	s.becomes(store.Running)
}

// TestTroubleIsSoonOver: River's own wait after a fourth error is minutes, and
// would keep every later job of the kind out.
func TestTroubleIsSoonOver(t *testing.T) {
	t.Parallel()
	s := newStage(t, time.Time{})
	s.start()
	s.settle()
	s.exec(`ALTER TABLE campaigns RENAME TO away`)
	s.run()
	s.until("tend has not met four errors", func() bool {
		return s.scalar(`SELECT coalesce(max(cardinality(errors)), 0) FROM river_job WHERE kind = 'tend'`) >= 4
	})
	s.exec(`ALTER TABLE away RENAME TO campaigns`)
	s.becomes(store.Finished)
}

// TestCountsAreFoldedWhateverSweepMeets: the two are jobs of their own.
func TestCountsAreFoldedWhateverSweepMeets(t *testing.T) {
	t.Parallel()
	s := newStage(t, time.Time{})
	s.exec(`ALTER TABLE webhook_events RENAME TO away`)
	s.exec(`INSERT INTO campaign_counts SELECT campaign_id, status, 1 FROM campaign_counts, generate_series(1, 9)`)
	s.run()
	s.until("the log of counts is not folded", func() bool { return s.scalar(`SELECT count(*) FROM campaign_counts`) == 1 })
}

// TestALongFinishIsLeftAlone: ten million rows take longer to read than any
// other job may take, and River asks the worker before it rescues one.
func TestALongFinishIsLeftAlone(t *testing.T) {
	t.Parallel()
	s := newStage(t, time.Time{})
	s.exec(`INSERT INTO river_job (kind, args, max_attempts, state, attempt, attempted_at, attempted_by)
		SELECT kind, '{}', 25, 'running', 1, now() - interval '5 min', ARRAY['a node'] FROM unnest(ARRAY['finish_campaign', 'sweep']) kind`)
	s.run()
	s.until("what a killed node left is not rescued", func() bool {
		return s.scalar(`SELECT count(*) FROM river_job WHERE kind = 'sweep' AND attempted_by[1] = 'a node' AND state = 'running'`) == 0
	})
	if n := s.scalar(`SELECT count(*) FROM river_job WHERE kind = 'finish_campaign' AND state = 'running'`); n != 1 {
		t.Error("a finish that is under way was taken for stuck")
	}
}

// TestADatabaseThatIsAwayAtTheStartIsWaitedFor: a node that starts while
// Postgres restarts has work to do as soon as it is back.
func TestADatabaseThatIsAwayAtTheStartIsWaitedFor(t *testing.T) {
	t.Parallel()
	s := newStage(t, time.Time{})
	s.start()
	s.settle()
	doors := s.doors()
	doors(false)
	s.run()
	s.until("it has not been refused", func() bool { return s.refused.Load() })
	doors(true)
	s.becomes(store.Finished)
}

// doors opens and shuts the stage's database to everybody, and throws out who
// is in it.
func (s *stage) doors() func(open bool) {
	s.t.Helper()
	config := s.Pool().Config().ConnConfig.Copy()
	name := config.Database
	config.Database = "postgres"
	conn, err := pgx.ConnectConfig(s.t.Context(), config)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return func(open bool) {
		s.t.Helper()
		for _, sql := range []string{
			`UPDATE pg_database SET datallowconn = $2 WHERE datname = $1`,
			`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1 AND NOT $2`,
		} {
			if _, err := conn.Exec(s.t.Context(), sql, name, open); err != nil {
				s.t.Fatal(err)
			}
		}
	}
}

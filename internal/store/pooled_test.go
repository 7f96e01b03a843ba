package store

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/weirhq/weir/engine"
	"github.com/weirhq/weir/internal/pgtest"
)

// newPooledLab is a lab whose main pool goes through a transaction pooler.
func newPooledLab(t *testing.T) *lab {
	t.Helper()
	direct := pgtest.URL(t)
	return labOf(t, openUnhurried(t, pgtest.Pooled(t, direct), Options{LeaseURL: direct}))
}

// TestThroughAPooler: the life of rows.
func TestThroughAPooler(t *testing.T) {
	t.Parallel()
	l := newPooledLab(t)
	c, first := l.campaign(400)
	for range 40 {
		rows := l.claim(10, c)
		if len(rows) != 10 {
			t.Fatalf("claimed %d rows, want 10", len(rows))
		}
		l.must(l.Record(t.Context(), l.lease, acceptAll(rows), []int64{l.seq}))
		_, err := l.ApplyStatuses(t.Context(), sayAll(rows, engine.Read), nil)
		l.must(err)
	}
	pulse, err := l.Heartbeat(t.Context(), engine.Beat{Node: "node", TTL: labTTL, Leases: []engine.LeaseID{l.lease}})
	if err != nil || len(pulse.Held) != 1 {
		t.Errorf("heartbeat: %+v, %v", pulse, err)
	}
	l.want(first, look{Status: "read", Claim: 1, Attempt: 1, Message: message(first, 1)})
	l.recounted()
	finished, err := l.FinishCampaign(t.Context(), c)
	if err != nil || !finished {
		t.Errorf("finished %v: %v", finished, err)
	}
}

// TestLimitsBehindAPooler: sessions are shared, so each statement and each
// transaction brings its limits along, and leaves nothing behind.
func TestLimitsBehindAPooler(t *testing.T) {
	t.Parallel()
	direct := pgtest.URL(t)
	s := openUnhurried(t, pgtest.Pooled(t, direct), Options{StatementTimeout: 3 * time.Second, LeaseURL: direct})
	if _, err := s.pool.Exec(t.Context(), `SELECT pg_sleep(600)`); sqlState(err) != "57014" {
		t.Errorf("a statement beyond its time: %v", err)
	}
	if _, err := s.pool.Exec(t.Context(), `SELECT pg_sleep($1)`, 600); sqlState(err) != "57014" {
		t.Errorf("a statement with arguments beyond its time: %v", err)
	}
	const limits = `SELECT format('%s, %s, %s', current_setting('statement_timeout'), current_setting('idle_in_transaction_session_timeout'), current_setting('transaction_isolation'))`
	opts := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	var got string
	err := pgx.BeginTxFunc(t.Context(), s.pool, opts, func(tx pgx.Tx) error {
		return tx.QueryRow(t.Context(), limits).Scan(&got)
	})
	if want := "3s, 5s, repeatable read"; err != nil || got != want {
		t.Errorf("in a transaction: %s, %v, want %s", got, err, want)
	}
	for _, got := range several(t, s.pool, 4, limits) {
		if want := "0, 0, read committed"; got != want {
			t.Errorf("left in the session: %s, want %s", got, want)
		}
	}
}

// TestPlansBehindAPooler: Postgres says how it ran each claim. A plan for the
// arguments has them in it, at the twentieth time too; a generic one has their
// places.
func TestPlansBehindAPooler(t *testing.T) {
	t.Parallel()
	l := newPooledLab(t)
	c, _ := l.campaign(100)
	l.exec(`DO $$ BEGIN
		EXECUTE format('ALTER DATABASE %I SET session_preload_libraries = auto_explain', current_database());
		EXECUTE format('ALTER DATABASE %I SET auto_explain.log_min_duration = 0', current_database());
		EXECUTE format('ALTER DATABASE %I SET auto_explain.log_level = notice', current_database());
	END $$`)
	cfg, err := pooledConfig(l.leases.Config().ConnString(), 1)
	l.must(err)
	var plans []string
	cfg.ConnConfig.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) {
		if strings.Contains(n.Message, "name: ClaimRecipients") {
			plans = append(plans, n.Message)
		}
	}
	watched, err := connect(t.Context(), cfg, &pool{bound: time.Minute}, func(p *pool) error { return p.Ping(t.Context()) })
	l.must(err)
	defer watched.Close()
	for range 20 {
		_, err := l.q.ClaimRecipients(t.Context(), watched, claimParams(l.ask(1, c)))
		l.must(err)
	}
	if len(plans) != 20 {
		t.Fatalf("%d plans of 20 claims", len(plans))
	}
	for i, plan := range plans {
		_, plan, _ = strings.Cut(plan, "FROM taken ORDER BY id") // the statement's last words
		if !strings.Contains(plan, "(number_id = '"+labNumber+"'::text)") {
			t.Fatalf("claim %d was not planned for its arguments:\n%s", i+1, plan)
		}
	}
}

// TestAPoolerIsToldFrom: what shares sessions is not taken for what keeps them.
func TestAPoolerIsToldFrom(t *testing.T) {
	t.Parallel()
	direct := pgtest.URL(t)
	for name, c := range map[string]struct {
		url, lease string
		refused    func(error) bool
	}{
		"no lease address": {url: pgtest.Pooled(t, direct), refused: func(err error) bool { return sqlState(err) == "08P01" }},
		"settings ignored": {
			url:     pgtest.Pooled(t, direct, "ignore_startup_parameters = plan_cache_mode, statement_timeout, idle_in_transaction_session_timeout"),
			refused: func(err error) bool { return errors.Is(err, ErrPooler) },
		},
		"lease address of a pooler": {url: direct, lease: pgtest.Pooled(t, direct), refused: func(err error) bool { return sqlState(err) == "08P01" }},
		"two databases": {url: direct, lease: pgtest.URL(t), refused: func(err error) bool {
			return err != nil && strings.Contains(err.Error(), "two databases")
		}},
		"": {url: direct, lease: direct, refused: func(err error) bool { return err == nil }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := Open(t.Context(), c.url, Options{LeaseURL: c.lease})
			if !c.refused(err) {
				t.Errorf("open: %v", err)
			}
			if err == nil {
				s.Close()
			}
		})
	}
}

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weirhq/weir/internal/sim"
)

// TestImportKilledAndResumed: an import killed in the middle leaves a campaign
// that cannot start; the same command goes on, and everything is as if nothing
// had happened; another command of that name is refused.
func TestImportKilledAndResumed(t *testing.T) {
	t.Parallel()
	const n = 60_000 // three parts
	s := newStage(t, sim.Options{})
	s.weir("number", "add", scriptNumber, "--waba", "w", "--limit", "80", "--no-verify")
	file := filepath.Join(s.dir, "people.csv")
	rows := people(n) + "+4915110000000,Ana,twice\nnonsense,Bo,rejected\n"
	if err := os.WriteFile(file, []byte(rows), 0o600); err != nil {
		t.Fatal(err)
	}
	create := []string{
		"campaign", "create", "c", "--template", "t", "--language", "en_US", "--number", scriptNumber, "--csv", file, "--no-verify", "--window", "none",
		"--param", "body.1=first_name", "--param", "body.2=order",
	}
	s.killInTheMiddle(create, n)

	refused := func(want string, args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "weir", args...)
		cmd.Env, cmd.Dir = s.env, s.dir
		out, err := cmd.CombinedOutput()
		if err == nil || !strings.Contains(string(out), want) {
			t.Errorf("weir %s: %v, %s; want a refusal with %q", strings.Join(args, " "), err, out, want)
		}
	}
	refused("import has not finished", "campaign", "start", "c", "--no-verify")
	refused("another --priority", append(create, "--priority", "7")...)
	refused("began with another file", append(create, "--default-country", "BR")...)
	s.weir(create...)
	view := s.status()
	if view.State != "draft" || view.Rows != (rowsView{Read: n + 2, Accepted: n, Rejected: 1, Duplicate: 1}) {
		t.Errorf("after the resume: %s, %+v", view.State, view.Rows)
	}
	if got := strings.Count(s.weir("campaign", "export", "c", "--raw"), "\n"); got != n+1 {
		t.Errorf("%d lines exported, want %d and a header", got-1, n)
	}
	rejects, err := os.ReadFile(file + ".rejected.csv")
	if err != nil || !strings.Contains(string(rejects), "nonsense") {
		t.Errorf("rejects: %q, %v", rejects, err)
	}
	s.weir("campaign", "verify", "c")
}

// killInTheMiddle starts an import and kills it once a part is committed: the
// second one waits for a lock of ours.
func (s *stage) killInTheMiddle(create []string, n int64) {
	s.t.Helper()
	release := s.holdSecondPart()
	defer release()
	cmd := exec.Command("weir", create...)
	cmd.Env, cmd.Dir = s.env, s.dir
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	pool := s.pool()
	deadline := time.After(patience)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for read := int64(0); read == 0; {
		select {
		case <-deadline:
			s.t.Fatal("the import never began")
		case <-tick.C:
			read = rowsRead(s.t, pool)
		}
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if view := s.status(); view.State != "importing" || view.Rows.Read == 0 || view.Rows.Read >= n {
		s.t.Fatalf("not killed in the middle: %s, %+v", view.State, view.Rows)
	}
}

// holdSecondPart keeps an import from committing a second part until the
// returned function is called, which ends whoever waits for that.
func (s *stage) holdSecondPart() (release func()) {
	s.t.Helper()
	ctx := s.t.Context()
	conn, err := pgx.Connect(ctx, s.database)
	if err != nil {
		s.t.Fatal(err)
	}
	exec := func(sql string) {
		s.t.Helper()
		if _, err := conn.Exec(ctx, sql); err != nil {
			s.t.Fatal(err)
		}
	}
	exec(`SELECT pg_advisory_lock(4711)`)
	exec(`CREATE FUNCTION hold() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_advisory_xact_lock(4711); RETURN NEW; END $$`)
	exec(`CREATE TRIGGER hold BEFORE UPDATE ON campaign_imports FOR EACH ROW WHEN (OLD.rows_read > 0) EXECUTE FUNCTION hold()`)
	return func() {
		const waits = `FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'advisory'`
		for n := 1; n > 0; {
			exec(`SELECT pg_terminate_backend(pid) ` + waits)
			if err := conn.QueryRow(ctx, `SELECT count(*) `+waits).Scan(&n); err != nil {
				s.t.Fatal(err)
			}
		}
		exec(`DROP FUNCTION hold CASCADE`)
		if err := conn.Close(ctx); err != nil {
			s.t.Fatal(err)
		}
	}
}

// rowsRead asks the database itself: a command a time would be too slow.
func rowsRead(t testing.TB, pool *pgxpool.Pool) (read int64) {
	t.Helper()
	err := pool.QueryRow(t.Context(), `SELECT coalesce(max(rows_read), 0) FROM campaign_imports`).Scan(&read)
	if err != nil {
		t.Fatal(err)
	}
	return read
}

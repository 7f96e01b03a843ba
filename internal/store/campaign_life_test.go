package store

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

// draft makes a draft of n recipients.
func draft(t require, s *Store, name string, n int) int64 {
	t.Helper()
	id := newCampaign(t, s, name)
	if _, err := s.Import(context.Background(), id, file(numbered(n), whole), ImportOptions{}); err != nil {
		t.Fatal(err)
	}
	return id
}

// startCases come one after the other: each finds what the one before left.
var startCases = []struct {
	name, before string // before: what the operator or time did
	atOnce       bool
	want         Started // without StartAt
	says         string  // of a refusal
}{
	{name: "draft", before: "state = 'draft'", want: Started{Was: Draft, State: Running}},
	{name: "twice", before: "priority = 0", want: Started{Was: Running, State: Running}},
	{name: "paused", before: "state = 'paused', state_reason = 'token'", says: "it is paused (token); resume it"},
	{name: "pausing", before: "state = 'pausing'", says: "it is pausing (token); resume it"},
	{name: "in an hour", before: "state = 'draft', start_at = now() + interval '1 h', started_at = NULL", want: Started{Was: Draft, State: Scheduled}},
	{name: "scheduled again", before: "priority = 0", want: Started{Was: Scheduled, State: Scheduled}},
	{name: "scheduled, now", before: "priority = 0", atOnce: true, want: Started{Was: Scheduled, State: Running}},
	{name: "an hour ago", before: "state = 'draft', start_at = now() - interval '1 h'", want: Started{Was: Draft, State: Running}},
	{name: "importing", before: "state = 'importing'", says: "its import has not finished (3 rows"},
	{name: "dropping", before: "state_reason = 'being dropped'", says: "being dropped"},
	{name: "expired", before: "state = 'draft', state_reason = NULL, expire_at = now() - interval '1 s'", says: "it expires at"},
	{name: "expires before it starts", before: "start_at = now() + interval '1 h', expire_at = now() + interval '1 m'", says: "it expires at"},
	{name: "canceling", before: "state = 'canceling', start_at = NULL, expire_at = NULL", says: "it is canceling"},
	{name: "canceled", before: "state = 'canceled'", says: "it is canceled"},
	{name: "finished", before: "state = 'finished'", says: "it is finished"},
}

func TestStartCampaign(t *testing.T) {
	t.Parallel()
	s := openOperator(t)
	id := draft(t, s, "c", 3)
	for _, tc := range startCases {
		exec(t, s, "UPDATE campaigns SET "+tc.before)
		got, err := s.StartCampaign(t.Context(), id, tc.atOnce)
		if tc.says != "" {
			if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("%s: %+v, %v, want a refusal that says %q", tc.name, got, err, tc.says)
			}
			continue
		}
		if got.StartAt = (time.Time{}); err != nil || got != tc.want {
			t.Errorf("%s: %+v, %v, want %+v", tc.name, got, err, tc.want)
		}
		claimable := count(t, s, `SELECT count(*) FROM campaigns WHERE state = 'running' AND start_at <= now() AND started_at <= now() AND state_reason IS NULL`)
		if (claimable == 1) != (tc.want.State == Running) {
			t.Errorf("%s: a claim would not see it as it was reported", tc.name)
		}
	}
	if _, err := s.StartCampaign(t.Context(), id+1, true); !errors.Is(err, ErrNotFound) {
		t.Errorf("start of no campaign: %v", err)
	}
}

// Each of these, too, finds what the one before left.
var resumeCases = []struct {
	name, before string
	want         Started
	says         string
}{
	{name: "draft", before: "state = 'draft'", says: "nobody has paused it; start it"},
	{name: "scheduled", before: "state = 'scheduled', start_at = now() + interval '1 h'", says: "nobody has paused it; start it"},
	{name: "paused before its time", before: "state = 'paused'", want: Started{Was: Paused, State: Scheduled}},
	{name: "paused", before: "state = 'paused', state_reason = 'token', start_at = now() - interval '1 h'", want: Started{Was: Paused, State: Running}},
	{name: "twice", before: "priority = 0", want: Started{Was: Running, State: Running}},
	{name: "pausing", before: "state = 'pausing', state_reason = 'token', confirmed_at = now()", want: Started{Was: Pausing, State: Running}},
	{name: "expired", before: "state = 'paused', expire_at = now()", says: "it expires at"},
	{name: "importing", before: "state = 'importing', expire_at = NULL", says: "its import has not finished"},
	{name: "canceling", before: "state = 'canceling'", says: "it is canceling"},
	{name: "canceled", before: "state = 'canceled'", says: "it is canceled"},
	{name: "finished", before: "state = 'finished'", says: "it is finished"},
}

func TestResumeCampaign(t *testing.T) {
	t.Parallel()
	s := openOperator(t)
	id := draft(t, s, "c", 3)
	for _, tc := range resumeCases {
		exec(t, s, "UPDATE campaigns SET control_version = 1, "+tc.before)
		got, err := s.ResumeCampaign(t.Context(), id)
		if tc.says != "" {
			if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("%s: %+v, %v, want a refusal that says %q", tc.name, got, err, tc.says)
			}
			continue
		}
		if got.StartAt = (time.Time{}); err != nil || got != tc.want {
			t.Errorf("%s: %+v, %v, want %+v", tc.name, got, err, tc.want)
		}
		// A new version, and nothing of the pause is left.
		fresh := count(t, s, `SELECT count(*) FROM campaigns WHERE control_version = 2 AND state_reason IS NULL AND confirmed_at IS NULL AND control_at IS NOT NULL`)
		if (fresh == 1) != (tc.want.Was != Running) {
			t.Errorf("%s: something of the pause is left, or its acknowledgements still count", tc.name)
		}
	}
}

func TestMarkScheduledStart(t *testing.T) {
	t.Parallel()
	s := openOperator(t)
	id := draft(t, s, "c", 3)
	mark := func(before string, want bool, least, most time.Duration) {
		t.Helper()
		exec(t, s, "UPDATE campaigns SET "+before)
		started, wait, err := s.MarkScheduledStart(t.Context(), id)
		if err != nil || started != want || wait < least || wait > most {
			t.Errorf("%s: %v, wait %v, %v", before, started, wait, err)
		}
	}
	mark("state = 'scheduled', start_at = now() + interval '1 h'", false, 59*time.Minute, time.Hour)
	mark("state = 'paused', start_at = now() - interval '1 s'", false, 0, 0)
	mark("state = 'scheduled'", true, 0, 0)
	mark("priority = 1", false, 0, 0) // twice is once
	if started, _, err := s.MarkScheduledStart(t.Context(), id+1); err != nil || started {
		t.Errorf("no campaign: %v, %v", started, err)
	}
}

func TestFinishCampaign(t *testing.T) {
	t.Parallel()
	s := openOperator(t)
	id := draft(t, s, "c", 3)
	other := draft(t, s, "other", 3)
	exec(t, s, "UPDATE recipients SET status = 'delivered', due_at = NULL WHERE campaign_id = $1", id)
	row := "UPDATE recipients SET number_id = 'n1', claim = 1, status = $2, due_at = CASE WHEN $2 = 'pending'::recipient_status THEN now() + interval '1 h' END WHERE id = (SELECT min(id) FROM recipients WHERE campaign_id = $1)"
	finish := func(name string, want bool) {
		t.Helper()
		if got, err := s.FinishCampaign(t.Context(), id); err != nil || got != want {
			t.Errorf("%s: finished %v, %v", name, got, err)
		}
	}
	finish("a draft", false)
	exec(t, s, "UPDATE campaigns SET state = 'running'")
	for _, status := range []string{"pending", "sending", "unknown"} { // without claims or unknowns: only the rows tell
		exec(t, s, row, id, status)
		finish(status, false)
	}
	exec(t, s, row, id, "dead")
	exec(t, s, "INSERT INTO unknowns VALUES ((SELECT min(id) FROM recipients WHERE campaign_id = $1), 1)", id)
	exec(t, s, "INSERT INTO claims SELECT 'n1', gen_random_uuid(), 1, now(), array_agg(id), array_agg(claim), array_agg(now()) FROM recipients WHERE campaign_id = $1", id)
	finish("settled, with leftovers", true)
	finish("twice", false)
	if n := count(t, s, "SELECT count(*) FROM campaigns WHERE id = $1 AND state = 'finished' AND finished_at IS NOT NULL", id); n != 1 {
		t.Error("it is not finished")
	}
	if n := count(t, s, "SELECT count(*) FROM campaigns WHERE id = $1 AND state = 'running'", other); n != 1 {
		t.Error("another campaign has been finished too")
	}
	if v, err := s.Verify(t.Context(), id); err != nil || !checkOf(v, "counts").OK {
		t.Errorf("the counts were not mended: %+v, %v", v, err)
	}
}

// A finish looks only under the campaign's lock: what a replay that holds it
// makes pending is seen. (A look of the same statement as the lock would be
// from before the replay.)
func TestFinishSeesAReplay(t *testing.T) {
	t.Parallel()
	s := openOperator(t)
	id := draft(t, s, "c", 3)
	exec(t, s, "UPDATE recipients SET status = 'dead', due_at = NULL")
	exec(t, s, "UPDATE campaigns SET state = 'running'")
	tx := begin(t, s)
	for _, sql := range []string{
		"SELECT FROM campaigns FOR NO KEY UPDATE",
		"UPDATE recipients SET status = 'pending', due_at = now() WHERE id = (SELECT min(id) FROM recipients)",
	} {
		if _, err := tx.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	finished := make(chan bool)
	go func() {
		got, err := s.FinishCampaign(t.Context(), id)
		if err != nil {
			t.Error(err)
		}
		finished <- got
	}()
	for count(t, s, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'") == 0 {
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if <-finished {
		t.Fatal("finished, and a recipient waits: it is left out")
	}
}

func TestDropCampaign(t *testing.T) {
	t.Parallel()
	s := openOperator(t)
	id := newCampaign(t, s, "c")
	if _, err := s.Import(t.Context(), id, file(numbered(50), 30), ImportOptions{BatchRows: 10}); !errors.Is(err, errCut) {
		t.Fatal(err)
	}
	other := draft(t, s, "other", 7)
	exec(t, s, "WITH g AS (UPDATE campaign_ranges SET hi = hi + 1 WHERE campaign_id = $1 RETURNING hi) INSERT INTO recipients (id, campaign_id, due_at) SELECT hi, $2, now() FROM g", id, other)
	if err := s.DropCampaign(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if _, err := s.FindCampaign(t.Context(), "c"); !errors.Is(err, ErrNotFound) {
		t.Errorf("find after the drop: %v", err)
	}
	for _, table := range []string{"recipients", "recipient_params", "campaign_ranges", "campaign_imports", "campaign_numbers", "campaign_zones", "campaign_counts"} {
		if n := count(t, s, "SELECT count(*) FROM "+table+" WHERE campaign_id <> $1", other); n != 0 {
			t.Errorf("%d rows are left in %s", n, table)
		}
	}
	if err := s.DropCampaign(t.Context(), id); !errors.Is(err, ErrNotFound) {
		t.Errorf("drop twice: %v", err)
	}
	for _, state := range []CampaignState{Scheduled, Running, Paused, Canceled, Finished} {
		exec(t, s, "UPDATE campaigns SET state = $1", string(state))
		if err := s.DropCampaign(t.Context(), other); !errors.Is(err, ErrRefused) {
			t.Errorf("drop of a %s one: %v, want ErrRefused", state, err)
		}
	}
	if n := count(t, s, "SELECT count(*) FROM recipients"); n != 8 {
		t.Errorf("%d recipients are left, want the other campaign's 8, one of them among the dropped ids", n)
	}
}

func TestDropCutShortCanOnlyBeDroppedAgain(t *testing.T) {
	t.Parallel()
	s := openOperator(t)
	id := draft(t, s, "c", 10)
	exec(t, s, `CREATE FUNCTION boom() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'boom'; END $$`)
	exec(t, s, "CREATE TRIGGER boom BEFORE DELETE ON recipient_params FOR EACH ROW EXECUTE FUNCTION boom()")
	if err := s.DropCampaign(t.Context(), id); err == nil {
		t.Fatal("dropped in spite of the trigger")
	}
	if _, err := s.StartCampaign(t.Context(), id, true); !errors.Is(err, ErrRefused) {
		t.Errorf("start: %v, want ErrRefused", err)
	}
	if _, err := s.Import(t.Context(), id, file(numbered(10), whole), ImportOptions{}); !errors.Is(err, ErrRefused) {
		t.Errorf("import: %v, want ErrRefused", err)
	}
	exec(t, s, "DROP FUNCTION boom CASCADE")
	if err := s.DropCampaign(t.Context(), id); err != nil {
		t.Errorf("drop again: %v", err)
	}
	if n := count(t, s, "SELECT (SELECT count(*) FROM recipient_params) + (SELECT count(*) FROM campaigns)"); n != 0 {
		t.Errorf("%d rows are left", n)
	}
}

package store

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weirhq/weir/engine"
)

// A report is counted from the rows, whatever the counts on display say, and
// tells who ended how: by the recipient, not by the attempt.
func TestReportCountsRows(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	c, _ := l.campaign(8)
	l.exec(`UPDATE campaigns SET started_at = now() - interval '1 h'`)
	rows := l.claim(7, c)
	for i, r := range rows[:4] {
		l.record(r, accept(message(r.ID, r.Claim)))
		if i < 2 {
			l.hear(r.ID, r.Claim, message(r.ID, r.Claim), engine.Delivered)
		}
	}
	l.exec(`UPDATE recipients SET status = 'failed', error_code = 131026 WHERE id = ANY ($1)`, ids(rows[3:5]))
	l.exec(`INSERT INTO attempts (recipient_id, claim, code, title, failed) SELECT unnest($1::bigint[]), 1, 131026, 'not on WhatsApp', true`, ids(rows[3:5]))
	l.exec(`UPDATE recipients SET status = 'dead', claim = 2 WHERE id = $1`, rows[5].ID)
	l.exec(`INSERT INTO attempts (recipient_id, claim, code, title) VALUES ($1, 1, 131016, 'busy'), ($1, 2, NULL, 'attempts')`, rows[5].ID)
	l.exec(`UPDATE recipients SET status = 'suppressed', due_at = NULL WHERE id = $1`, rows[6].ID)
	l.exec(`INSERT INTO attempts (recipient_id, claim, title) VALUES ($1, 1, 'opted_out')`, rows[6].ID)
	l.exec(`INSERT INTO campaign_counts (campaign_id, status, n) VALUES ($1, 'delivered', 1000)`, c)
	l.exec(`INSERT INTO campaign_controls (campaign_id, control_version, kind, asked_at, confirmed_at) VALUES ($1, 0, 'pause', now(), now())`, c)
	r, err := l.Report(t.Context(), c)
	l.must(err)
	want := map[string]int64{"pending": 1, "accepted": 1, "delivered": 2, "failed": 2, "dead": 1, "suppressed": 1}
	for status, n := range r.Statuses {
		if n != want[status] {
			t.Errorf("%d %s, want %d", n, status, want[status])
		}
	}
	failures := []ReportFailure{{Status: "failed", Code: 131026, Title: "not on WhatsApp", Recipients: 2}, {Status: "dead", Title: "attempts", Recipients: 1}}
	if diff := cmp.Diff(failures, r.Failures); diff != "" {
		t.Errorf("failures (-want +got):\n%s", diff)
	}
	if r.Final || r.Unheard != 1 || r.Duplicates != 0 || r.LeftOut["opted_out"] != 1 || len(r.Pauses) != 1 || r.Seconds < 3600 || len(r.Checks) == 0 {
		t.Errorf("%+v", r)
	}
	if len(r.Numbers) != 1 || r.Numbers[0].ID != labNumber || r.Numbers[0].Accepted != 4 {
		t.Errorf("numbers %+v", r.Numbers)
	}
	for _, k := range r.Checks {
		if k.Name == "counts" && k.OK {
			t.Error("the wrong counts on display are not said")
		}
	}
}

// The report of an end is kept once, of no campaign that is not over, and anew
// after another end.
func TestKeepReport(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	c, _ := l.campaign(1)
	keep := func(what string, want bool) {
		t.Helper()
		if got, err := l.KeepReport(t.Context(), c); err != nil || got != want {
			t.Errorf("%s: kept %v, %v", what, got, err)
		}
	}
	unreported := func(what string, want int) {
		t.Helper()
		if due, err := l.Unreported(t.Context()); err != nil || len(due) != want {
			t.Errorf("%s: unreported %v, %v", what, due, err)
		}
	}
	keep("running", false)
	unreported("running", 0)
	l.exec(`UPDATE recipients SET status = 'dead', due_at = NULL`)
	if done, err := l.FinishCampaign(t.Context(), c); err != nil || !done {
		t.Fatalf("finished %v, %v", done, err)
	}
	unreported("finished", 1)
	keep("finished", true)
	l.exec(`UPDATE recipients SET status = 'read'`)
	keep("twice", false)
	unreported("kept", 0)
	r, kept, err := l.KeptReport(t.Context(), c)
	if err != nil || !kept || !r.Final || r.Statuses["dead"] != 1 || r.Statuses["read"] != 0 {
		t.Errorf("kept %v, %+v, %v", kept, r, err)
	}
	l.exec(`UPDATE campaigns SET state = 'running', finished_at = NULL`)
	unreported("opened anew", 0)
	if _, kept, err = l.KeptReport(t.Context(), c); err != nil || kept {
		t.Errorf("a report of an end that was taken back is shown: %v", err)
	}
	l.exec(`UPDATE campaigns SET state = 'finished', finished_at = now()`)
	unreported("another end", 1)
	keep("another end", true)
	if r, _, err = l.KeptReport(t.Context(), c); err != nil || r.Statuses["read"] != 1 {
		t.Errorf("of the second end: %+v, %v", r, err)
	}
}

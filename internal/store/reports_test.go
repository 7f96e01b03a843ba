package store

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/weirhq/weir/engine"
)

var ignoreTimes = cmpopts.IgnoreFields(ExportRow{}, "AcceptedAt", "SentAt", "DeliveredAt", "ReadAt", "FailedAt")

func TestExportShowsEveryRow(t *testing.T) {
	t.Parallel()
	s := openOperator(t)
	id := sent(t, s, "c")
	sent(t, s, "other")
	exec(t, s, "UPDATE recipients SET error_code = 131026, failed_at = now() WHERE campaign_id = $1 AND status IN ('failed', 'read')", id)
	exec(t, s, `INSERT INTO attempts (recipient_id, claim, code, title) SELECT id, c, CASE c WHEN 1 THEN 131026 ELSE 500 END, 'title of claim ' || c
		FROM recipients, generate_series(1, 2) c WHERE campaign_id = $1 AND status IN ('failed', 'read')`, id)
	exec(t, s, `INSERT INTO attempts (recipient_id, claim, title) SELECT id, 1, 'unknown_outcome' FROM recipients WHERE campaign_id = $1 AND status = 'dead'`, id)
	got := map[engine.Status]ExportRow{}
	line := int64(1)
	for row, err := range s.Export(t.Context(), id) {
		if line++; err != nil || row.Line != line {
			t.Fatalf("line %d comes where %d should: %v", row.Line, line, err)
		}
		if row.AcceptedAt.IsZero() == (row.Status >= engine.Accepted) {
			t.Errorf("%s: accepted at %v", row.Status, row.AcceptedAt)
		}
		got[row.Status] = row
	}
	want := map[engine.Status]ExportRow{
		engine.Dead: {Line: 8, Phone: "+5511900000006", Status: engine.Dead, Attempts: 1, Number: "n1", ErrorTitle: "unknown_outcome"},
		engine.Failed: {
			Line: 12, Phone: "+5511900000010", Status: engine.Failed, Attempts: 1, Number: "n1", MessageID: "wamid.11",
			ErrorCode: 131026, ErrorTitle: "title of claim 1",
		},
		engine.Read: {Line: 14, Phone: "+5511900000012", Status: engine.Read, Attempts: 1, Number: "n1", MessageID: "wamid.13"}, // it was read: no error any more
	}
	for status, w := range want {
		w.Values = []string{"a", "b", "c", "d", "e"}
		if diff := cmp.Diff(w, got[status], ignoreTimes); diff != "" {
			t.Errorf("%s (-want +got):\n%s", status, diff)
		}
	}
	if len(got) != 13 {
		t.Errorf("%d statuses, want 13", len(got))
	}
	if got[engine.Read].ReadAt.IsZero() || got[engine.Delivered].DeliveredAt.IsZero() || got[engine.Failed].FailedAt.IsZero() {
		t.Error("times are missing")
	}
}

// Pages and ranges end anywhere: no row may be lost or come twice between them.
func TestExportPages(t *testing.T) {
	t.Parallel()
	s := openOperator(t)
	first := newCampaign(t, s, "first")
	if _, err := s.Import(t.Context(), first, file(numbered(15_001), 12_000), ImportOptions{BatchRows: 4_000}); err == nil {
		t.Fatal("not cut")
	}
	draft(t, s, "second", 10)
	if _, err := s.Import(t.Context(), first, file(numbered(15_001), whole), ImportOptions{}); err != nil {
		t.Fatal(err)
	}
	line := int64(1)
	for row, err := range s.Export(t.Context(), first) {
		if line++; err != nil || row.Line != line {
			t.Fatalf("line %d where %d should be: %v", row.Line, line, err)
		}
	}
	if line != 15_002 {
		t.Fatalf("ended at line %d", line)
	}
	for row, err := range s.Export(t.Context(), first) {
		if row.Line > 2 || err != nil {
			t.Fatalf("it goes on after a break: %v, %v", row.Line, err)
		}
		break
	}
}

func TestErrorsByCode(t *testing.T) {
	t.Parallel()
	s := openOperator(t)
	id := sent(t, s, "c")
	other := sent(t, s, "other")
	exec(t, s, "UPDATE recipients SET error_code = 131026 WHERE status = 'failed'")
	exec(t, s, `INSERT INTO attempts (recipient_id, claim, at, code, title)
		SELECT id, c, now() + make_interval(secs => c), CASE WHEN status = 'dead' THEN NULL ELSE 131026 END,
			CASE WHEN status = 'dead' THEN 'unknown_outcome' ELSE 'words ' || c END
		FROM recipients, generate_series(1, 2) c WHERE status IN ('failed', 'read') OR (status = 'dead' AND c = 1)`)
	exec(t, s, "INSERT INTO attempts (recipient_id, claim, message_id) SELECT id, 9, 'wamid.9' FROM recipients WHERE status = 'sent'") // a duplicate is no error
	exec(t, s, "DELETE FROM attempts a USING recipients r WHERE r.id = a.recipient_id AND r.campaign_id = $1 AND a.code IS NULL", other)
	got, err := s.ErrorsByCode(t.Context(), id)
	want := []CodeCount{{Code: 131026, Title: "words 2", Attempts: 4}, {Title: "unknown_outcome", Attempts: 1}}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Fatalf("%v, (-want +got):\n%s", err, diff)
	}
}

// What a number has had accepted is counted once a message, whatever is
// recorded twice and whatever its webhook was faster than.
func TestPace(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.number("n2")
	c, _ := l.campaign(5)
	l.exec(`INSERT INTO campaign_numbers VALUES ('n2', $1, 'fallback')`, c)
	l.exec(`UPDATE numbers SET enabled = false, stop_reason = 'payment' WHERE id = 'n2'`)
	rows := l.claim(5, c)
	l.hear(rows[0].ID, 1, message(rows[0].ID, 1), engine.Sent)
	for range 2 { // the first answer to it was lost
		l.must(l.Record(t.Context(), l.lease, acceptAll(rows[:2]), nil))
	}
	l.record(rows[2], engine.Result{Status: engine.Held, MessageID: "wamid.held"})
	l.record(rows[3], engine.Result{Status: engine.Failed, Code: 131026})
	l.record(rows[4], engine.Result{Status: engine.Pending})
	got, err := l.Pace(t.Context(), c)
	l.must(err)
	want := []NumberPace{
		{Number: engine.Number{ID: labNumber, Limit: 80, Headroom: 0.2, Burst: 1, Enabled: true}, Owned: true, Accepted: 3},
		{Number: engine.Number{ID: "n2", Limit: 80, Headroom: 0.2, Burst: 1}, Fallback: true, StopReason: "payment", Why: "stopped: payment"},
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(NumberPace{}, "Away")); diff != "" || got[0].Away != 0 || got[1].Away == 0 {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestInstance(t *testing.T) {
	t.Parallel()
	s := openOperator(t)
	key, err := s.InstanceKey(t.Context())
	if err != nil || len(key) != 32 {
		t.Errorf("key of %d bytes, %v", len(key), err)
	}
	if at, err := s.WebhookHeard(t.Context()); err != nil || !at.IsZero() {
		t.Errorf("before any webhook: %v, %v", at, err)
	}
	exec(t, s, "INSERT INTO receivers (node, heard_at) VALUES ('a', now() - interval '1 h'), ('b', now()), ('c', NULL)")
	if at, err := s.WebhookHeard(t.Context()); err != nil || time.Since(at).Abs() > time.Minute {
		t.Errorf("heard %v, %v", at, err)
	}
}

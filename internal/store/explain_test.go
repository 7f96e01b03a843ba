package store

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/weirhq/weir/engine"
)

// Everything about a person is found by the phone, in either way to write it,
// and nothing of anybody else.
func TestExplain(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	old, rows := l.dead(2)
	const phone, written = "+5511987654321", "+551187654321" // with and without Brazil's 9
	name := func(id int64, phone string) {
		l.exec(`UPDATE recipient_params SET phone = $2 WHERE id = $1`, id, phone)
	}
	name(rows[0].ID, phone)
	l.replayed(ReplayOrder{Campaign: old}, 2)
	l.exec(`UPDATE recipients SET due_at = now() + interval '1 h'`)
	c, first := l.campaign(2)
	name(first, written)
	claimed := l.claim(1, c)[0]
	l.exec(`INSERT INTO suppressions (phone, scope, reason) VALUES ($1, 'all', 'STOP'), ('+4915112345678', 'all', 'another')`, phone)
	l.exec(`INSERT INTO suppressions (phone, scope, kind, reason, until, at) VALUES ($1, 'waba:9001:marketing', 'wait', '131049', now() + interval '1 h', now() + interval '1 s')`, phone)
	l.apply1(strange("5511987654321", "m9", engine.Sent))
	l.apply1(strange("4915112345678", "m8", engine.Sent))
	p, err := l.Explain(t.Context(), phone)
	l.must(err)
	if len(p.Rows) != 2 || p.Rows[0].CampaignID != c || p.Rows[1].CampaignID != old {
		t.Fatalf("rows: %+v", p.Rows)
	}
	now, before := p.Rows[0], p.Rows[1]
	if claimed.ID != first || now.Status != engine.Sending || now.ClaimedAt.IsZero() || now.Phone != written || now.ZoneOpens != (time.Time{}) {
		t.Errorf("the claimed row: %+v", now)
	}
	wantAttempts := []Attempt{{Claim: 1, Number: labNumber, Code: 131026, Title: "undeliverable", Failed: true}}
	if diff := cmp.Diff(wantAttempts, before.Attempts, cmpopts.IgnoreFields(Attempt{}, "At")); diff != "" {
		t.Errorf("attempts (-want +got):\n%s", diff)
	}
	if before.Replay == nil || before.Replay.Who != "ana" || before.Replays != 1 || !before.DueAt.After(p.Now) {
		t.Errorf("the replayed row: %+v", before)
	}
	if len(now.Senders) != 1 || now.Senders[0].ID != labNumber || !now.Senders[0].Owned || now.Senders[0].Breaker != "closed" || now.Senders[0].Host != "closed" {
		t.Errorf("senders: %+v", now.Senders)
	}
	if len(p.Suppressions) != 2 || p.Suppressions[0].Kind == Wait || !p.Suppressions[0].Until.IsZero() || p.Suppressions[1].Kind != Wait || !p.Suppressions[1].Holds || !p.Confirmed || len(p.Unmatched) != 1 || p.Unmatched[0].MessageID != "m9" {
		t.Errorf("opt-outs %+v, webhooks %+v", p.Suppressions, p.Unmatched)
	}
	if _, err := l.Explain(t.Context(), "+4915100000000"); !errors.Is(err, ErrNotFound) {
		t.Errorf("nobody: %v, want ErrNotFound", err)
	}
}

// Evidence that comes late, after a resend, is counted and shown as a duplicate.
func TestDuplicatesAreShown(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	first, second := l.twice()
	l.exec(`UPDATE campaigns SET on_unknown = 'resend'`)
	shown := func(want int64) {
		t.Helper()
		n, err := l.Duplicates(t.Context(), first.Campaign)
		l.must(err)
		exported := 0
		for row, err := range l.Export(t.Context(), first.Campaign) {
			l.must(err)
			exported += row.Duplicates
		}
		if n != want || int64(exported) != want {
			t.Errorf("%d duplicates counted, %d exported, want %d", n, exported, want)
		}
	}
	l.record(second, accept("m2"))
	shown(0)
	l.hear(first.ID, 1, "m1", engine.Sent)
	shown(1)
	p, err := l.Explain(t.Context(), scalar[string](l, `SELECT phone FROM recipient_params WHERE id = $1`, first.ID))
	l.must(err)
	if a := p.Rows[0].Attempts; len(a) != 1 || a[0].MessageID != "m1" || a[0].Failed || p.Rows[0].MessageID != "m2" {
		t.Errorf("explained by %+v", p.Rows[0])
	}
	l.hear(first.ID, 1, "m1", engine.Failed) // it lives no more
	shown(0)
}

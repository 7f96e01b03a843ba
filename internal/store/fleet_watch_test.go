package store

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirhq/weir/engine"
	"github.com/weirhq/weir/internal/store/db"
)

// TestNumberWork: owned by the fleet, and whether somebody is due whom the number
// could send to, each gate once.
func TestNumberWork(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.number("1002")
	l.campaign(1) // another campaign's work, whose gates stay open
	l.exec(`UPDATE campaign_numbers SET number_id = '1002'`)
	c, _ := l.campaign(2)
	const ours = `WHERE id = (SELECT max(id) FROM campaigns)`
	l.looks("all is well", "", true, true)
	for gate, sql := range map[string]string{
		"the number is stopped":  `UPDATE numbers SET enabled = false WHERE id = '` + labNumber + `'`,
		"the number pauses":      `UPDATE numbers SET paused_until = now() + interval '1 min' WHERE id = '` + labNumber + `'`,
		"it is another number's": `UPDATE campaign_numbers SET number_id = '1002' WHERE campaign_id = (SELECT max(id) FROM campaigns)`,
		"the campaign is paused": `UPDATE campaigns SET state = 'paused' ` + ours,
		"it has not started":     `UPDATE campaigns SET start_at = now() + interval '1 min' ` + ours,
		"it has expired":         `UPDATE campaigns SET expire_at = now() ` + ours,
		"it waits as a whole":    `UPDATE campaigns SET paused_until = now() + interval '1 min' ` + ours,
		"it stands by as a fallback": `WITH f AS (UPDATE campaign_numbers SET role = 'fallback' WHERE number_id = '` + labNumber + `')
			INSERT INTO campaign_numbers (number_id, campaign_id) SELECT '1002', max(id) FROM campaigns`,
		"its window is closed":     `UPDATE campaign_zones SET closes_at = now() WHERE campaign_id = (SELECT max(id) FROM campaigns)`,
		"its window is not open":   `UPDATE campaign_zones SET opens_at = now() + interval '1 min' WHERE campaign_id = (SELECT max(id) FROM campaigns)`,
		"nobody is due":            `UPDATE recipients SET due_at = now() + interval '1 min'`,
		"everybody has been taken": `UPDATE recipients SET due_at = NULL, status = 'sending'`,
	} {
		l.looks(gate, sql, true, false)
	}
	l.looks("it stands in for a primary without a breaker", `WITH f AS (UPDATE campaign_numbers SET role = 'fallback' WHERE number_id = '`+labNumber+`'),
			away AS (DELETE FROM breakers WHERE scope = 'number:1002'), long AS (UPDATE numbers SET created_at = now() - interval '1 h' WHERE id = '1002')
			INSERT INTO campaign_numbers (number_id, campaign_id) SELECT '1002', max(id) FROM campaigns`, true, true)
	for what, sql := range map[string]string{
		"never leased": `DELETE FROM number_leases`, "released": `UPDATE number_leases SET released = true`,
		"expired": `UPDATE number_leases SET expires_at = now()`,
	} {
		l.looks(what, sql, false, true)
	}
	if rows := l.claim(5, c); len(rows) != 2 { // what is said to wait can be claimed
		t.Errorf("claimed %d rows", len(rows))
	}
	if all, err := l.NumberWork(t.Context()); err != nil || cmp.Diff([]NumberWork{{labNumber, true, false}, {"1002", false, true}}, all) != "" {
		t.Errorf("all is under way: %v, %v", all, err)
	}
}

// looks holds the lab's number to what is so after sql, which is then undone.
func (l *lab) looks(what, sql string, owned, waiting bool) {
	l.t.Helper()
	tx, err := l.pool.Begin(l.t.Context())
	l.must(err)
	defer func() { _ = tx.Rollback(context.Background()) }()
	_, err = tx.Exec(l.t.Context(), sql)
	l.must(err)
	all, err := l.q.NumberWork(l.t.Context(), tx)
	l.must(err)
	if len(all) != 2 || all[0] != (db.NumberWorkRow{ID: labNumber, Owned: owned, Waiting: waiting}) || all[1].ID != "1002" {
		l.t.Errorf("%s: %+v, want owned %v, waiting %v", what, all, owned, waiting)
	}
}

// An unconfirmed database is told of once, by whoever gathers, and so is its
// confirmation, which is on record; a database that was confirmed already is
// neither.
func TestAnUnconfirmedDatabaseIsTold(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.confirm()
	l.expectTold("it is the operator's")
	for range 2 { // each time it becomes another
		l.exec(anotherCluster)
		identity, err := l.Identity(t.Context())
		l.must(err)
		l.expectTold("another database answers", fmt.Sprintf(`database.unconfirmed database {"cluster":%q,"vouched":%q}`, identity.Cluster, identity.Vouched))
		l.expectTold("and still does")
		l.confirm()
		l.confirm()
		l.expectTold("confirmed", fmt.Sprintf(`database.confirmed database {"cluster":%q,"was":%q}`, identity.Cluster, identity.Vouched))
	}
	if all := l.audited(time.Time{}); cmp.Diff([]string{"ana database_confirmed database", "ana database_confirmed database"}, all) != "" {
		t.Errorf("on record: %q", all)
	}
}

func (l *lab) audited(since time.Time) (lines []string) {
	l.t.Helper()
	entries, err := l.Audit(l.t.Context(), since)
	l.must(err)
	for _, e := range entries {
		if e.At.IsZero() || len(e.Body) < 3 {
			l.t.Errorf("an entry at %v with %s", e.At, e.Body)
		}
		lines = append(lines, fmt.Sprint(e.Who, " ", e.What, " ", e.Subject))
	}
	return lines
}

// What forces a breaker is on record; what was refused is not.
func TestAudit(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	force := func(scope, who string) error {
		return l.ForceBreaker(t.Context(), Force{Scope: scope, State: engine.BreakerOpen, For: time.Minute, Note: "why", Who: who})
	}
	l.must(force("host", "ana"))
	if err := force("number:7", "bob"); err == nil {
		t.Error("a breaker that does not exist was forced")
	}
	l.exec(`UPDATE audit SET at = now() - interval '1 h'`)
	l.must(force(labScope, "bob\x00"))
	want := []string{"ana breaker_forced host", "bob\uFFFD breaker_forced " + labScope}
	if diff := cmp.Diff(want, l.audited(time.Time{})); diff != "" {
		t.Errorf("ever (-want +got):\n%s", diff)
	}
	since := scalar[time.Time](l, `SELECT now() - interval '30 min'`)
	if diff := cmp.Diff(want[1:], l.audited(since)); diff != "" {
		t.Errorf("since then (-want +got):\n%s", diff)
	}
}

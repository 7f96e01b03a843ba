package store

import (
	"regexp"
	"strings"
	"testing"

	"github.com/weirhq/weir/engine"
	"github.com/weirhq/weir/internal/store/db"
)

// statements are the hot ones with arguments like real ones: 500 rows each.
func (l *lab) statements(campaign, first int64) map[string]*spy {
	var rows []engine.Recipient
	var words []word
	for i := range int64(500) {
		rows = append(rows, engine.Recipient{ID: first + i*90, Campaign: campaign, Claim: 1})
		words = append(words, word{row: rowClaim{first + i*90, 1}, update: engine.StatusUpdate{Status: engine.Sent, MessageID: message(first+i*90, 1)}})
	}
	spied := map[string]*spy{}
	to := func(name string) *spy {
		spied[name] = &spy{}
		return spied[name]
	}
	ctx := l.t.Context()
	_, _ = l.q.ClaimRecipients(ctx, to("claim"), claimParams(l.ask(500, campaign)))
	probe := l.ask(1, campaign)
	probe.Probe = otherToken
	_, _ = l.q.ClaimRecipients(ctx, to("probe"), claimParams(probe))
	_, _ = l.q.RecordResults(ctx, to("record"), resultParams(acceptAll(rows)))
	_, _ = l.q.ApplyStatuses(ctx, to("apply"), statusParams(words))
	_, _ = l.q.ApplyEvidence(ctx, to("evidence"), evidenceParams(words))
	_ = l.q.LockRecipients(ctx, to("lock"), ids(rows))
	_, _ = l.q.GiveBackClaims(ctx, to("give back"), &db.GiveBackClaimsParams{Number: labNumber, Lease: l.lease.ID, Seqs: []int64{1}})
	_, _ = l.q.ReclaimRecipients(ctx, to("reclaim"), &db.ReclaimRecipientsParams{Number: labNumber, Lease: l.lease.ID})
	_, _ = l.q.ResolveUnknowns(ctx, to("resolve"), &db.ResolveUnknownsParams{WindowSeconds: 1})
	_, _ = l.q.TakePermit(ctx, to("permit"), &db.TakePermitParams{Scope: "host", Number: labNumber, Lease: l.lease.ID, PermitSeconds: 20})
	_, _ = l.q.FindMessages(ctx, to("find"), &db.FindMessagesParams{Keys: []int32{0, 1}, Phones: []string{"+5511900000001", "+5511900000002"}, MessageIds: []string{"a", "b"}})
	return spied
}

func (l *lab) explain(s *spy, options string) string {
	l.t.Helper()
	rows, err := l.pool.Query(l.t.Context(), `EXPLAIN (`+options+`) `+s.sql, s.args...)
	l.must(err)
	defer rows.Close()
	var plan strings.Builder
	for rows.Next() {
		var line string
		l.must(rows.Scan(&line))
		plan.WriteString(line + "\n")
	}
	l.must(rows.Err())
	return plan.String()
}

// A statement that reads the whole table, or a claim that sorts, is 100 times
// slower on ten million rows; both must hold right after an import, whether or
// not its ANALYZE has run.
func TestPlans(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.exec(`ALTER TABLE recipients SET (autovacuum_enabled = false)`)
	c, first := l.campaign(50_000)
	l.exec(`UPDATE recipients SET message_id = 'wamid' WHERE id % 1000 = 0`)
	whole := regexp.MustCompile(`Seq Scan on (recipients|recipient_params)\b`)
	for _, analyzed := range []bool{false, true} {
		if analyzed {
			l.exec(`ANALYZE`)
		}
		for name, s := range l.statements(c, first) {
			if plan := l.explain(s, "COSTS off"); whole.MatchString(plan) {
				t.Errorf("analyzed %v: %s reads the whole table:\n%s", analyzed, name, plan)
			}
		}
		plan := l.explain(l.statements(c, first)["claim"], "COSTS off")
		due := regexp.MustCompile(`(?s)CTE due\n.*?Nested Loop\n\s+->  CTE Scan on slice\n\s+Filter: \(floor IS NOT NULL\)\n(?:\s+->  Subquery Scan on d\n)?\s+->  Limit\n` +
			`\s+InitPlan \d+ [^\n]*\n\s+->  Limit\n\s+->  Sort\n\s+Sort Key: [^\n]*\n\s+->  Result\n\s+One-Time Filter: false\n` +
			`\s+InitPlan \d+ [^\n]*\n\s+->  Limit\n\s+->  Result\n\s+One-Time Filter: [^\n]*\n\s+->  Index Only Scan using recipients_due on recipients h\n\s+Index Cond: [^\n]*\n\s+->  LockRows\n\s+->  Index Scan using recipients_due on recipients`)
		if !due.MatchString(plan) {
			t.Errorf("analyzed %v: priorities and turns rest on a nested loop over slice, and the order on recipients_due; the claim's plan is\n%s", analyzed, plan)
		}
		if plan := l.explain(l.statements(c, first)["probe"], "COSTS off"); !strings.Contains(plan, "Index Only Scan Backward using recipients_due on recipients o") {
			t.Errorf("analyzed %v: who waits longest is found by the index, backwards; a probe's plan is\n%s", analyzed, plan)
		}
	}
}

package store

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/weirhq/weir/engine"
)

// gate is a way to close one gate of the claim.
type gate struct {
	name string
	sql  string              // what closes it
	ask  func(a *engine.Ask) // or how the call is wrong
}

const (
	probeToken = "00000000-0000-0000-0000-00000000000a"
	stopped    = `UPDATE instance SET stopped_at = now(), stopped_by = 'ana', stop_reason = ''`
	otherToken = "00000000-0000-0000-0000-00000000000b"
)

// halfOpen is a breaker that lets one probe through, until then from now.
func halfOpen(scope, until string) string {
	return `UPDATE breakers SET state = 'half_open', probe_token = '` + probeToken + `', probe_until = now() + interval '` + until + `' WHERE scope = '` + scope + `'; `
}

func ownerGates() []gate {
	const number = "number:" + labNumber
	probe := func(token string) func(*engine.Ask) { return func(a *engine.Ask) { a.Probe = token } }
	return []gate{
		{name: "wrong lease", ask: func(a *engine.Ask) { a.Lease.ID = otherToken }},
		{name: "another number's lease", ask: func(a *engine.Ask) { a.Lease.Number = "1002" }},
		{name: "lease released", sql: `UPDATE number_leases SET released = true`},
		{name: "lease not ready", sql: `UPDATE number_leases SET ready_at = now() + interval '1 s'`},
		{name: "lease expired", sql: `UPDATE number_leases SET expires_at = now()`},
		{name: "another database than the one vouched for", sql: anotherCluster},
		{name: "nobody has ever vouched for one", sql: `DELETE FROM instance`},
		{name: "everything is stopped", sql: stopped},
		{name: "number disabled", sql: `UPDATE numbers SET enabled = false`},
		{name: "number paused", sql: `UPDATE numbers SET paused_until = now() + interval '1 s'`},
		{name: "host breaker open", sql: `UPDATE breakers SET state = 'open' WHERE scope = 'host'`},
		{name: "number breaker open", sql: `UPDATE breakers SET state = 'open' WHERE scope = '` + number + `'`},
		{name: "host breaker row missing", sql: `DELETE FROM breakers WHERE scope = 'host'`},
		{name: "number breaker row missing", sql: `DELETE FROM breakers WHERE scope = '` + number + `'`},
		{name: "no probe token", sql: halfOpen(number, "1 min")},
		{name: "no probe token of the host's", sql: halfOpen("host", "1 min")},
		{name: "wrong probe token", sql: halfOpen(number, "1 min"), ask: probe(otherToken)},
		{name: "expired probe token", sql: halfOpen(number, "0"), ask: probe(probeToken)},
		{
			name: "host's probe while the number is forced open", ask: probe(probeToken),
			sql: halfOpen("host", "1 min") + `UPDATE breakers SET state = 'open', forced_until = now() + interval '1 min' WHERE scope = '` + number + `'`,
		},
		{
			name: "number's probe while the host is open", ask: probe(probeToken),
			sql: halfOpen(number, "1 min") + `UPDATE breakers SET state = 'open' WHERE scope = 'host'`,
		},
	}
}

func workGates() []gate {
	return []gate{
		{name: "campaign pausing", sql: `UPDATE campaigns SET state = 'pausing'`},
		{name: "campaign paused", sql: `UPDATE campaigns SET state = 'paused'`},
		{name: "campaign canceling", sql: `UPDATE campaigns SET state = 'canceling'`},
		{name: "campaign scheduled", sql: `UPDATE campaigns SET state = 'scheduled'`},
		{name: "campaign in the future", sql: `UPDATE campaigns SET start_at = now() + interval '1 s'`},
		{name: "campaign without a start", sql: `UPDATE campaigns SET start_at = NULL`},
		{name: "campaign expired", sql: `UPDATE campaigns SET expire_at = now()`},
		{name: "zone not open yet", sql: `UPDATE campaign_zones SET opens_at = now() + interval '1 s'`},
		{name: "zone closed", sql: `UPDATE campaign_zones SET closes_at = now()`},
		{name: "another zone", ask: func(a *engine.Ask) { a.Slices[0].Zone = 1 }},
		{name: "not this number's campaign", sql: `DELETE FROM campaign_numbers`},
		{name: "rows due later", sql: `UPDATE recipients SET due_at = now() + interval '1 s' WHERE status = 'pending'`},
		{name: "rows not pending", sql: `UPDATE recipients SET status = 'canceled', due_at = NULL`},
		{name: "nothing free", ask: func(a *engine.Ask) { a.Free = 0 }},
		{name: "negative free", ask: func(a *engine.Ask) { a.Free = -1 }},
		{name: "no share", ask: func(a *engine.Ask) { a.Slices[0].Share = 0 }},
		{name: "no slices", ask: func(a *engine.Ask) { a.Slices = nil }},
	}
}

// Each gate, closed alone, lets nothing through; with all of them open the
// same call takes rows. Each runs in a transaction that is rolled back.
func TestClaimGates(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.number("1002")
	c, _ := l.campaign(3)
	for _, g := range append(append(ownerGates(), workGates()...), gate{}) {
		t.Run(g.name, func(t *testing.T) {
			tx, err := l.pool.Begin(t.Context())
			l.must(err)
			defer func() { l.must(tx.Rollback(t.Context())) }()
			_, err = tx.Exec(t.Context(), g.sql, pgx.QueryExecModeSimpleProtocol)
			l.must(err)
			ask := l.ask(2, c)
			if g.ask != nil {
				g.ask(&ask)
			}
			rows, err := l.q.ClaimRecipients(t.Context(), tx, claimParams(ask))
			l.must(err)
			want := 0
			if g.name == "" {
				want = 2
			}
			if len(rows) != want {
				t.Errorf("claimed %d rows, want %d", len(rows), want)
			}
			var booked int
			l.must(tx.QueryRow(t.Context(), `SELECT count(*) FROM claims`).Scan(&booked))
			if booked != min(want, 1) {
				t.Errorf("%d claims rows", booked)
			}
		})
	}
}

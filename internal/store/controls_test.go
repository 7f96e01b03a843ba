package store

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/weirhq/weir/engine"
	"github.com/weirhq/weir/internal/store/db"
)

const labQuarantine = 4 * time.Second

// paused is a campaign that is being paused, and what its lanes must acknowledge.
func (l *lab) pausing() (int64, engine.Control) {
	l.t.Helper()
	c, _ := l.campaign(3)
	l.must(l.PauseCampaign(l.t.Context(), c))
	return c, engine.Control{Campaign: c, Version: 1}
}

func (l *lab) acknowledge(lease engine.LeaseID, k engine.Control) {
	l.t.Helper()
	l.must(l.Acknowledge(l.t.Context(), engine.Ack{Control: k, Lease: lease, Quarantine: labQuarantine}))
}

func (l *lab) state(c int64) string {
	l.t.Helper()
	return scalar[string](l, `SELECT state FROM campaigns WHERE id = $1`, c)
}

// An acknowledgement counts only from the lease that holds the number, while it
// may claim, and only for the order as it stands. Each clause is spoiled alone.
func TestAcknowledgeGates(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.number("1002")
	other := l.acquire("1002")
	l.exec(`UPDATE number_leases SET expires_at = now() + interval '1 h'`)
	c, k := l.pausing()
	for _, g := range []struct {
		name, sql string
		call      func(*db.AcknowledgeControlParams)
	}{
		{name: "wrong lease", call: func(p *db.AcknowledgeControlParams) { p.Lease = otherToken }},
		{name: "another number's lease", call: func(p *db.AcknowledgeControlParams) { p.Lease = other.ID }},
		{name: "a number of other campaigns", call: func(p *db.AcknowledgeControlParams) { p.Number, p.Lease = other.Number, other.ID }},
		{name: "lease released", sql: `UPDATE number_leases SET released = true`},
		{name: "lease not ready", sql: `UPDATE number_leases SET ready_at = now() + interval '1 s'`},
		{name: "lease expired", sql: `UPDATE number_leases SET expires_at = now()`},
		{name: "an earlier version", call: func(p *db.AcknowledgeControlParams) { p.Version-- }},
		{name: "a version to come", call: func(p *db.AcknowledgeControlParams) { p.Version++ }},
		{name: "another campaign", call: func(p *db.AcknowledgeControlParams) { p.Campaign++ }},
		{name: "it runs", sql: `UPDATE campaigns SET state = 'running'`},
		{name: "it is paused", sql: `UPDATE campaigns SET state = 'paused'`},
		{name: "it is canceled", sql: `UPDATE campaigns SET state = 'canceled'`},
		{name: "", sql: `UPDATE campaigns SET state = 'canceling'`},
		{name: ""},
	} {
		t.Run(g.name, func(t *testing.T) {
			tx, err := l.pool.Begin(t.Context())
			l.must(err)
			defer func() { l.must(tx.Rollback(t.Context())) }()
			_, err = tx.Exec(t.Context(), g.sql, pgx.QueryExecModeSimpleProtocol)
			l.must(err)
			p := &db.AcknowledgeControlParams{Number: l.lease.Number, Lease: l.lease.ID, Campaign: c, Version: k.Version}
			if g.call != nil {
				g.call(p)
			}
			n, err := l.q.AcknowledgeControl(t.Context(), tx, p)
			l.must(err)
			if want := int64(0); (g.name == "") == (n == want) {
				t.Errorf("%d acknowledgements were written", n)
			}
		})
	}
}

// A pause is confirmed exactly when each number's lease of today has
// acknowledged it, or can no longer send. The lab's number always has; what the
// other one is decides.
func TestConfirmGates(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.number("1002")
	c, k := l.pausing()
	l.exec(`INSERT INTO campaign_numbers (number_id, campaign_id) VALUES ('1002', $1)`, c)
	l.acknowledge(l.lease, k)
	if got := l.state(c); got != "paused" { // 1002 was never leased
		t.Fatalf("with one acknowledgement of the one lease there is: %s", got)
	}
	l.exec(`UPDATE campaigns SET state = 'pausing', confirmed_at = NULL`)
	l.exec(`DELETE FROM campaign_controls`)
	l.acquire("1002")
	l.exec(`UPDATE number_leases SET expires_at = now() + interval '1 h'`)
	lease := func(sql string) string { return `UPDATE number_leases SET ` + sql + ` WHERE number_id = '1002'; ` }
	acked := func(version, lease string) string {
		return `INSERT INTO campaign_acks SELECT campaign_id, '1002', ` + lease + `, ` + version + ` FROM campaign_acks; `
	}
	const ranOut = "expires_at = now() - interval '5 s', silent_at = now() - interval '5 s'"
	const own = `(SELECT lease_id FROM number_leases WHERE number_id = '1002')`
	for _, g := range []struct {
		name, sql string
		confirmed bool
	}{
		{name: "a living lease without a word"},
		{name: "its ack is of an earlier version", sql: acked("0", own)},
		{name: "its ack is of an earlier lease", sql: acked("1", "gen_random_uuid()")},
		{name: "its ack is of the lease, and the lease has changed hands", sql: acked("1", own) + lease("lease_id = gen_random_uuid()")},
		{name: "it was seen to have run out a moment ago", sql: lease("expires_at = now() - interval '1 h', silent_at = now() - interval '3 s'")},
		{name: "it ran out long ago, and nobody has seen it", sql: lease("expires_at = now() - interval '1 h'")},
		{name: "it ran out, and lives again", sql: lease("silent_at = now() - interval '5 s'")},
		{name: "it ran out long ago, within its predecessor's quarantine", sql: lease(ranOut + ", ready_at = now() + interval '1 s'")},
		{name: "it was released within its predecessor's quarantine", sql: lease("released = true, ready_at = now() + interval '1 s'")},
		{name: "the lab's number has lost its ack", sql: lease("released = true") + `DELETE FROM campaign_acks`},
		{name: "it runs", sql: lease("released = true") + `UPDATE campaigns SET state = 'running'`},
		{name: "it is confirmed already", sql: lease("released = true") + `UPDATE campaigns SET confirmed_at = now()`},
		{name: "acknowledged", sql: acked("1", own), confirmed: true},
		{name: "released", sql: lease("released = true"), confirmed: true},
		{name: "dead for long enough", sql: lease(ranOut), confirmed: true},
		{name: "a cancel", sql: lease("released = true") + `UPDATE campaigns SET state = 'canceling'`, confirmed: true},
	} {
		t.Run(g.name, func(t *testing.T) {
			tx, err := l.pool.Begin(t.Context())
			l.must(err)
			defer func() { l.must(tx.Rollback(t.Context())) }()
			_, err = tx.Exec(t.Context(), g.sql, pgx.QueryExecModeSimpleProtocol)
			l.must(err)
			_, err = l.q.ConfirmControls(t.Context(), tx, labQuarantine.Seconds())
			l.must(err)
			var noted int
			l.must(tx.QueryRow(t.Context(), `SELECT count(*) FROM campaign_controls n JOIN campaigns c ON c.id = n.campaign_id
				WHERE (c.state, n.kind) IN (('paused', 'pause'), ('canceling', 'cancel')) AND n.control_version = 1 AND n.asked_at = c.control_at AND n.confirmed_at = c.confirmed_at`).Scan(&noted))
			if (noted == 1) != g.confirmed {
				t.Errorf("%d confirmed, want %v", noted, g.confirmed)
			}
		})
	}
}

// A late acknowledgement is void: of an earlier pause, and of an earlier lease.
func TestRule19_ALateAckConfirmsNothing(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	c, first := l.pausing()
	l.exec(`UPDATE campaigns SET state = 'running', control_version = 2, control_at = now() WHERE id = $1`, c) // resumed
	l.must(l.PauseCampaign(t.Context(), c))
	l.acknowledge(l.lease, first)
	if got := l.state(c); got != "pausing" {
		t.Fatalf("the second pause is %s by the first one's ack", got)
	}
	dead := l.lease
	l.lease = l.bid(l.expired(labNumber)).Lease
	second := engine.Control{Campaign: c, Version: 3}
	l.acknowledge(dead, second)
	l.acknowledge(l.lease, second) // too early: its predecessor may still be sending
	if got := l.state(c); got != "pausing" {
		t.Fatalf("within the new lease's quarantine it is %s", got)
	}
	l.exec(`UPDATE number_leases SET ready_at = now()`)
	l.acknowledge(dead, second)
	if got := l.state(c); got != "pausing" {
		t.Fatalf("it is %s by a dead lease's ack", got)
	}
	l.acknowledge(l.lease, second)
	l.acknowledge(l.lease, first) // still on its way: it must not replace the later one
	if got := scalar[int](l, `SELECT control_version FROM campaign_acks`); got != 3 || l.state(c) != "paused" {
		t.Errorf("%s, with an ack of version %d", l.state(c), got)
	}
}

// A lane is told of what it has not acknowledged, under the lease it has now.
func TestWorkNamesWhatIsToBeAcknowledged(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.number("1002")
	c, k := l.pausing()
	l.exec(`INSERT INTO campaign_numbers (number_id, campaign_id) VALUES ('1002', $1)`, c)
	other := l.acquire("1002")
	canceling, _ := l.campaign(1)
	l.exec(`UPDATE campaigns SET state = 'canceling', control_version = 7 WHERE id = $1`, canceling)
	confirmed, _ := l.campaign(1)
	l.exec(`UPDATE campaigns SET state = 'canceling', confirmed_at = now() WHERE id = $1`, confirmed)
	expect := func(lease engine.LeaseID, want ...engine.Control) {
		t.Helper()
		work, err := l.Work(t.Context(), lease)
		l.must(err)
		if diff := cmp.Diff(want, work.Controls); diff != "" || len(work.Campaigns) > 0 {
			t.Errorf("%v (-want +got):\n%s", work.Campaigns, diff)
		}
	}
	_, awaited, err := l.ConfirmControls(t.Context(), labQuarantine)
	if l.must(err); slices.ContainsFunc(awaited, func(a Awaited) bool { return a.Campaign == confirmed }) {
		t.Errorf("awaited, though it is confirmed: %+v", awaited)
	}
	second := engine.Control{Campaign: canceling, Version: 7}
	expect(l.lease, k, second)
	l.acknowledge(l.lease, k)
	expect(l.lease, second)
	expect(other, k)
	l.exec(`UPDATE number_leases SET lease_id = gen_random_uuid() WHERE number_id = $1`, labNumber)
	l.lease.ID = scalar[string](l, `SELECT lease_id::text FROM number_leases WHERE number_id = $1`, labNumber)
	expect(l.lease, k, second)
}

// A campaign that stops by itself is paused like any other, and keeps saying why.
func TestASelfStopIsConfirmedAndKeepsItsReason(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	c, _ := l.campaign(1)
	l.must(l.Restrain(t.Context(), engine.Restraint{Kind: engine.HaltCampaign, Campaign: c, Code: 132015, Reason: "template paused"}))
	l.must(l.PauseCampaign(t.Context(), c)) // an operator, too late: the reason stands
	_, awaited, err := l.ConfirmControls(t.Context(), labQuarantine)
	l.must(err)
	if diff := cmp.Diff([]Awaited{{Campaign: c, Number: labNumber, Holder: "node"}}, awaited); diff != "" {
		t.Errorf("who is awaited (-want +got):\n%s", diff)
	}
	l.must(l.Release(t.Context(), l.lease))
	done, awaited, err := l.ConfirmControls(t.Context(), labQuarantine)
	if l.must(err); len(done) != 1 || len(awaited) != 0 || done[0].Campaign != c || done[0].State != Paused || done[0].Took <= 0 {
		t.Errorf("confirmed %+v, awaited %+v", done, awaited)
	}
	if got := scalar[string](l, `SELECT state || ' ' || state_reason || ' ' || (confirmed_at > control_at)::text FROM campaigns`); got != "paused 132015: template paused true" {
		t.Errorf("it is %s", got)
	}
}

func TestPauseCampaign(t *testing.T) {
	t.Parallel()
	s := openOperator(t)
	ordered(t, s, s.PauseCampaign, []orderCase{
		{state: "running", want: "pausing 1 f"},
		{state: "scheduled", want: "paused 1 t"},
		{state: "pausing", want: "pausing 0 f"},
		{state: "paused", want: "paused 0 f"},
		{state: "draft", says: "it is draft"},
		{state: "importing", says: "it is importing"},
		{state: "canceling", says: "it is canceling"},
		{state: "canceled", says: "it is canceled"},
		{state: "finished", says: "it is finished"},
	})
}

// orderCase is what an operator's order makes of a campaign in a state.
type orderCase struct {
	state, want string // want: state, version, and whether nobody has to confirm it
	says        string // the refusal
}

// ordered gives an order to a campaign in each state, and to none.
func ordered(t *testing.T, s *Store, order func(context.Context, int64) error, cases []orderCase) {
	t.Helper()
	id := draft(t, s, "c", 3)
	for _, tc := range cases {
		exec(t, s, `UPDATE campaigns SET state = $1, control_version = 0, control_at = NULL, confirmed_at = NULL`, tc.state)
		err := order(t.Context(), id)
		if tc.says != "" {
			if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("%s: %v, want a refusal that says %q", tc.state, err, tc.says)
			}
			continue
		}
		var got string
		const sql = `SELECT format('%s %s %s', state, control_version, confirmed_at IS NOT NULL AND confirmed_at = control_at) FROM campaigns`
		if scanned := s.pool.QueryRow(t.Context(), sql).Scan(&got); err != nil || scanned != nil || got != tc.want {
			t.Errorf("%s: %v, now %q, want %q", tc.state, err, got, tc.want)
		}
	}
	if err := order(t.Context(), id+1); !errors.Is(err, ErrNotFound) {
		t.Errorf("no campaign: %v", err)
	}
}

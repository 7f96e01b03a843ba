package store

import (
	"testing"

	"github.com/weirhq/weir/engine"
	"github.com/weirhq/weir/internal/store/db"
)

// The statement alone keeps every rule of a replay: each gate closed in turn,
// and what force opens of them.
func TestReplayGates(t *testing.T) {
	t.Parallel()
	const (
		set    = `UPDATE recipients SET `
		inHand = `INSERT INTO claims (number_id, lease_id, seq, ids, fences, dues) SELECT number_id, '` + otherToken + `', id, ARRAY[id], ARRAY[1], ARRAY[now()] FROM recipients WHERE campaign_id = $1`
	)
	gates := map[string]struct {
		sql    string // what closes it; $1 is the campaign
		ask    func(p *db.ReplayRecipientsParams)
		forced bool // force opens it
	}{
		"moved by this replay":    {sql: set + `last_replay_id = '` + probeToken + `' WHERE campaign_id = $1`},
		"replayed too often":      {sql: set + `replays = 3 WHERE campaign_id = $1`},
		"claimed since":           {sql: set + `claim = 2 WHERE campaign_id = $1`},
		"of another status":       {ask: func(p *db.ReplayRecipientsParams) { p.Statuses[0] = "dead" }},
		"of another campaign":     {ask: func(p *db.ReplayRecipientsParams) { p.Campaign = -1 }},
		"in a node's hands":       {sql: inHand, forced: true},
		"unknown outcome":         {sql: dead("unknown_outcome"), ask: asDead, forced: true},
		"closed by the operator":  {sql: dead("closed_by_operator"), ask: asDead, forced: true},
		"campaign canceled":       {sql: `UPDATE campaigns SET state = 'canceled' WHERE id = $1`},
		"campaign being canceled": {sql: `UPDATE campaigns SET state = 'canceling' WHERE id = $1`},
		"database not vouched":    {sql: `UPDATE instance SET cluster = CASE WHEN $1::bigint > 0 THEN 'another' END`},
		"campaign expired":        {sql: `UPDATE campaigns SET expire_at = now() WHERE id = $1`},
	}
	for _, s := range engine.Statuses() {
		if s != engine.Dead && s != engine.Failed {
			gates["is "+s.String()] = struct {
				sql    string
				ask    func(p *db.ReplayRecipientsParams)
				forced bool
			}{
				sql: set + `status = '` + s.String() + `', due_at = CASE '` + s.String() + `' WHEN 'pending' THEN now() END WHERE campaign_id = $1`,
				ask: func(p *db.ReplayRecipientsParams) { p.Statuses[0] = s.String() },
			}
		}
	}
	l := newLab(t)
	for name, gate := range gates {
		for _, force := range []bool{false, true} {
			c, rows := l.dead(1)
			l.exec(`DELETE FROM replays`)
			l.exec(`INSERT INTO replays (id, campaign_id, filter, forced, who) VALUES ($1, $2, '{}', false, 'ana')`, probeToken, c)
			if gate.sql != "" {
				l.exec(gate.sql, c)
			}
			p := ReplayOrder{ID: probeToken, Campaign: c, Force: force}.choose([]DeadLetter{{Recipient: rows[0].ID, Claim: 1, Status: engine.Failed}}, nil)
			if !force && p.Ids == nil {
				t.Fatal("the order itself left it out")
			}
			if gate.ask != nil {
				gate.ask(p)
			}
			n, err := l.q.ReplayRecipients(t.Context(), l.pool, p)
			l.exec(`UPDATE instance SET cluster = cluster_identity()`)
			if want := gate.forced && force; err != nil || (n == 1) != want {
				t.Errorf("%s, force %t: moved %d, %v", name, force, n, err)
			}
		}
	}
}

// dead makes a campaign's rows dead for a reason.
func dead(reason string) string {
	return `WITH row AS (UPDATE recipients SET status = 'dead' WHERE campaign_id = $1 RETURNING id) UPDATE attempts a SET title = '` + reason + `' FROM row WHERE a.recipient_id = row.id`
}

func asDead(p *db.ReplayRecipientsParams) { p.Statuses[0] = "dead" }

package store

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/weirhq/weir/engine"
)

// doubted is a recipient of a campaign of that policy that has been unknown
// for that long, with healthy webhooks since.
func (l *lab) doubted(policy engine.OnUnknown, ago time.Duration) engine.Recipient {
	l.t.Helper()
	r := l.one()
	l.exec(`UPDATE campaigns SET on_unknown = $1 WHERE id = $2`, string(policy), r.Campaign)
	l.record(r, engine.Result{Status: engine.Unknown, Title: "timeout"})
	l.exec(`UPDATE unknowns SET since = now() - make_interval(secs => $1) WHERE recipient_id = $2`, ago.Seconds(), r.ID)
	l.healthy()
	return r
}

// healthy says that a status of a message accepted just now has arrived.
func (l *lab) healthy() {
	l.t.Helper()
	l.exec(`UPDATE number_traffic SET accepted_at = now(), heard_at = now()`)
}

func (l *lab) resolve(want Resolved) {
	l.t.Helper()
	got, err := l.ResolveUnknowns(l.t.Context(), window)
	l.must(err)
	if got != want {
		l.t.Errorf("resolved %+v, want %+v", got, want)
	}
	l.recounted()
}

func TestUnknownFails(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	r := l.doubted(engine.UnknownFails, window)
	l.resolve(Resolved{Dead: 1})
	l.want(r.ID, look{Status: "dead", Claim: 1, Attempt: 1})
	if title := scalar[string](l, `SELECT title FROM attempts`); title != "unknown_outcome" {
		t.Errorf("reason = %q", title)
	}
	l.resolve(Resolved{})
	l.hear(r.ID, r.Claim, "wamid.a", engine.Delivered) // evidence after the window still counts
	l.want(r.ID, look{Status: "delivered", Claim: 1, Attempt: 1, Message: "wamid.a"})
	if n := scalar[int](l, `SELECT count(*) FROM unknowns`); n != 0 {
		t.Errorf("%d unknowns left", n)
	}
}

func TestUnknownIsSettledByItsStatus(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	for _, status := range []engine.Status{engine.Sent, engine.Failed} {
		r := l.doubted(engine.UnknownFails, window)
		l.hear(r.ID, r.Claim, "wamid.a", status)
		l.resolve(Resolved{})
		l.want(r.ID, look{Status: status.String(), Claim: 1, Attempt: 1, Message: "wamid.a"})
	}
}

func TestRule06_ProofLiftsUnknown(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	r := l.doubted(engine.UnknownFails, window)
	l.record(r, engine.Result{Status: engine.Pending, Refund: true})
	l.resolve(Resolved{})
	l.want(r.ID, look{Status: "pending", Claim: 1, Due: true})
}

// unknowns is upserted: an entry that an earlier claim left does not make the
// new one look old, nor does it stay.
func TestRule10_UnknownsAreUpserted(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	stale := func(id int64) {
		l.exec(`INSERT INTO unknowns (recipient_id, claim, since) VALUES ($1, 0, now() - interval '1 day')`, id)
	}
	renewed := func(what string, id int64) {
		t.Helper()
		if !scalar[bool](l, `SELECT claim = 1 AND since > now() - interval '1 min' FROM unknowns WHERE recipient_id = $1`, id) {
			t.Errorf("%s kept an older claim's entry", what)
		}
	}
	r := l.one()
	stale(r.ID)
	l.record(r, engine.Result{Status: engine.Unknown})
	renewed("record", r.ID)
	s := l.one()
	stale(s.ID)
	l.bid(l.expired(labNumber))
	l.exec(`UPDATE number_leases SET ready_at = now()`)
	l.lease.ID = scalar[string](l, `SELECT lease_id::text FROM number_leases`)
	if n, err := l.Reclaim(t.Context(), l.lease); n != 1 || err != nil {
		t.Fatalf("reclaimed %d, %v", n, err)
	}
	renewed("reclaim", s.ID)
}

func TestRule10_TheDecisionNamesItsClaim(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	for name, spoil := range map[string]string{
		"the row is claimed again":       `UPDATE recipients SET claim = claim + 1, status = 'sending' WHERE id = $1`,
		"unknown again at another claim": `UPDATE recipients SET claim = claim + 1 WHERE id = $1`,
		"the row has moved on":           `UPDATE recipients SET status = 'accepted', message_id = 'wamid.a' WHERE id = $1`,
	} {
		r := l.doubted(engine.UnknownFails, window)
		l.exec(spoil, r.ID)
		before := l.look(r.ID)
		got, err := l.ResolveUnknowns(t.Context(), window)
		l.must(err)
		if want := (Resolved{Orphans: 1}); got != want {
			t.Errorf("%s: resolved %+v, want %+v", name, got, want)
		}
		l.want(r.ID, before)
	}
}

func TestUnknownWaitsForItsWindow(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	r := l.doubted(engine.UnknownFails, window-time.Minute)
	l.resolve(Resolved{})
	l.want(r.ID, look{Status: "unknown", Claim: 1, Attempt: 1})
}

func TestRule12_ResendWhileAttemptsAndTheCampaignLast(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	for _, c := range []struct {
		state   string
		attempt int
		want    string
	}{
		{"running", 2, "pending"},
		{"pausing", 1, "pending"},
		{"paused", 1, "pending"},
		{"running", 3, "dead"},
		{"canceling", 1, "dead"},
		{"canceled", 1, "dead"},
		{"finished", 1, "dead"},
	} {
		r := l.doubted(engine.UnknownResends, window)
		l.exec(`UPDATE campaigns SET state = $1 WHERE id = $2`, c.state, r.Campaign)
		l.exec(`UPDATE recipients SET attempt = $1 WHERE id = $2`, c.attempt, r.ID)
		_, err := l.ResolveUnknowns(t.Context(), window)
		l.must(err)
		l.want(r.ID, look{Status: c.want, Claim: 1, Attempt: c.attempt, Due: c.want == "pending"})
		if c.want == "pending" && c.state == "running" {
			if rows := l.claim(1, r.Campaign); len(rows) != 1 || rows[0].Claim != 2 {
				t.Errorf("a resend is not due now: claimed %v", rows)
			}
		}
	}
	l.recounted()
}

func TestRule12_HoldWaitsForAnOperator(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	r := l.doubted(engine.UnknownHolds, 100*window)
	l.resolve(Resolved{Held: 1})
	l.want(r.ID, look{Status: "unknown", Claim: 1, Attempt: 1})
}

func TestRule13_HealthyWebhookTime(t *testing.T) {
	t.Parallel()
	receiver := func(up, seen string) string {
		return `INSERT INTO receivers (node, up_since, seen_at) VALUES ('a', now() - interval '` + up + `', now() - interval '` + seen + `'); `
	}
	const (
		nothingLater = `UPDATE number_traffic SET accepted_at = now() - interval '1 day', heard_at = '-infinity'; `
		laterUnheard = `UPDATE number_traffic SET accepted_at = now() - interval '1 min', heard_at = now() - interval '1 day'; `
		laterHeard   = `UPDATE number_traffic SET accepted_at = now() - interval '1 min', heard_at = now() - interval '2 min'; `
	)
	for name, c := range map[string]struct {
		traffic string
		healthy bool
	}{
		"a later message was heard of":                  {laterHeard, true},
		"a later message was not heard of":              {laterUnheard + receiver("10 h", "1 s"), false},
		"none later, no receiver":                       {nothingLater, false},
		"none later, receiver up for two windows":       {nothingLater + receiver("60 min", "1 s"), true},
		"none later, receiver up for less":              {nothingLater + receiver("59 min", "1 s"), false},
		"none later, receiver gone":                     {nothingLater + receiver("10 h", "2 min"), false},
		"no traffic known, receiver up for two windows": {`DELETE FROM number_traffic; ` + receiver("60 min", "1 s"), true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			r := l.doubted(engine.UnknownFails, window)
			_, err := l.pool.Exec(t.Context(), c.traffic, pgx.QueryExecModeSimpleProtocol)
			l.must(err)
			_, err = l.ResolveUnknowns(t.Context(), window)
			l.must(err)
			if got := l.look(r.ID).Status; (got == "dead") != c.healthy {
				t.Errorf("the row is %s, want it decided: %v", got, c.healthy)
			}
		})
	}
}

// What makes time healthy is written by results and statuses themselves, in
// either order and for failures too; a repeat of an old status proves nothing.
func TestRule13_TrafficIsHeard(t *testing.T) {
	t.Parallel()
	for name, say := range map[string]func(*lab, engine.Recipient){
		"result, then status": func(l *lab, r engine.Recipient) {
			l.record(r, accept("wamid.b"))
			l.hear(r.ID, r.Claim, "wamid.b", engine.Sent)
		},
		"status, then result": func(l *lab, r engine.Recipient) {
			l.hear(r.ID, r.Claim, "wamid.b", engine.Sent)
			l.record(r, accept("wamid.b"))
		},
		"result, then failure": func(l *lab, r engine.Recipient) {
			l.record(r, accept("wamid.b"))
			l.hear(r.ID, r.Claim, "wamid.b", engine.Failed)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			old := l.one()
			l.record(old, accept("wamid.a"))
			r := l.one()
			l.record(r, engine.Result{Status: engine.Unknown})
			healthy := func() bool {
				return scalar[bool](l, `SELECT t.heard_at > u.since FROM unknowns u, number_traffic t`)
			}
			l.hear(old.ID, old.Claim, "wamid.a", engine.Sent)
			if healthy() {
				t.Error("a status of an earlier message counts as a later one's")
			}
			later := l.one()
			say(l, later)
			if !healthy() {
				t.Error("a later message's status was not heard of")
			}
		})
	}
}

func TestReceiverSeen(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	state := func() (up, heard bool) {
		l.must(l.pool.QueryRow(t.Context(), `SELECT up_since < now() - interval '1 h', heard_at IS NOT NULL FROM receivers`).Scan(&up, &heard))
		return up, heard
	}
	see := func(heard, wantUp, wantHeard bool) {
		t.Helper()
		l.must(l.ReceiverSeen(t.Context(), "node", heard))
		if up, heard := state(); up != wantUp || heard != wantHeard {
			t.Errorf("up for an hour %v, heard %v, want %v, %v", up, heard, wantUp, wantHeard)
		}
	}
	see(false, false, false)
	l.exec(`UPDATE receivers SET up_since = now() - interval '2 h', seen_at = now() - interval '50 s'`)
	see(true, true, true)
	see(false, true, true)
	l.exec(`UPDATE receivers SET up_since = now() - interval '2 h', seen_at = now() - interval '61 s'`)
	see(false, false, true)
}

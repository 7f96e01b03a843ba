package store

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/weirhq/weir/engine"
	"github.com/weirhq/weir/internal/store/db"
)

// labStandby is the fallback number beside a lab's primary.
const labStandby = "1002"

// standby is the lab of a fallback number: its asks are the fallback's.
func (l *lab) standby() *lab {
	l.t.Helper()
	l.number(labStandby)
	f := *l
	f.lease = l.acquire(labStandby)
	l.exec(`UPDATE number_leases SET expires_at = now() + interval '1 h'`) // however slow the test is
	return &f
}

// relayed makes the standby the fallback number of a campaign.
func (l *lab) relayed(campaign int64) {
	l.t.Helper()
	l.exec(`INSERT INTO campaign_numbers (number_id, campaign_id, role) VALUES ($1, $2, 'fallback')`, labStandby, campaign)
}

// away stops a number so many seconds ago.
func away(number string, seconds int) string {
	return fmt.Sprintf(`UPDATE numbers SET enabled = false, stop_reason = 'payment' WHERE id = '%s';
		UPDATE numbers SET stopped_at = now() - interval '%d s' WHERE id = '%[1]s';`, number, seconds)
}

// broken leaves a number's breaker in a state, and not closed for so many seconds.
func broken(number, state string, seconds int) string {
	return fmt.Sprintf(`UPDATE breakers SET state = '%s', open_until = now() + interval '1 h', probe_until = now() + interval '1 h' WHERE scope = 'number:%s';
		UPDATE breakers SET away_since = now() - interval '%d s' WHERE scope = 'number:%[2]s';`, state, number, seconds)
}

// paused leaves a number paused for so many seconds, and still.
func paused(number string, seconds int) string {
	return fmt.Sprintf(`UPDATE numbers SET paused_until = now() + interval '1 h' WHERE id = '%s';
		UPDATE numbers SET paused_since = now() - interval '%d s' WHERE id = '%[1]s';`, number, seconds)
}

// TestFallbackGates: what a fallback number may claim, what it is shown as its
// work, whether it needs an owner and whether it may probe are one question, and
// each of the reasons against it is enough. Time stands still in a transaction,
// so a second more or less decides.
func TestFallbackGates(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	f := l.standby()
	l.number("1003")
	c, _ := l.campaign(3)
	l.relayed(c)
	l.exec(`INSERT INTO campaign_numbers (number_id, campaign_id) VALUES ('1003', $1)`, c)
	const both, other = "1001", "1003"
	stopped := away(both, 60) + away(other, 60)
	for _, tc := range []struct {
		name, sql string
		want      bool
	}{
		{"both primaries are able", ``, false},
		{"one is able", away(both, 3600), false},
		{"both stopped for the wait", stopped, true},
		{"one of them not yet for so long", away(both, 3600) + away(other, 59), false},
		{"both stopped, and one enabled again", stopped + `UPDATE numbers SET enabled = true WHERE id = '1003'`, false},
		{"both paused for the wait", paused(both, 60) + paused(other, 60), true},
		{"paused, not yet for so long", paused(both, 60) + paused(other, 59), false},
		{"paused, and the pause is over", paused(both, 60) + paused(other, 60) + `UPDATE numbers SET paused_until = now() WHERE id = '1003'`, false},
		{"breakers open for the wait", broken(both, "open", 60) + broken(other, "open", 60), true},
		{"breakers open, not yet for so long", broken(both, "open", 60) + broken(other, "open", 59), false},
		{"a breaker that is tried once is not closed", broken(both, "half_open", 60) + broken(other, "open", 60), true},
		{"a breaker that has closed", broken(both, "open", 60) + broken(other, "open", 60) + `UPDATE breakers SET state = 'closed' WHERE scope = 'number:1003'`, false},
		{"each for a reason of its own", away(both, 60) + broken(other, "open", 60), true},
		{"stopped last, its breaker open before that", broken(both, "open", 60) + away(both, 1) + away(other, 60), true},
		{"the platform's breaker is open", `UPDATE breakers SET state = 'open', away_since = now() - interval '1 h' WHERE scope = 'host'`, false},
		{"the campaign waits longer", stopped + `UPDATE campaigns SET fallback_wait = '61 s'`, false},
		{"the campaign waits less", away(both, 10) + away(other, 10) + `; UPDATE campaigns SET fallback_wait = '10 s'`, true},
		{"another campaign's primary is no matter", stopped + `; INSERT INTO numbers (id, waba_id, mps_limit) VALUES ('1004', 'w', 80);
			INSERT INTO breakers (scope) VALUES ('number:1004'); WITH o AS (INSERT INTO campaigns (name, template, language, state) VALUES ('o', 't', 'l', 'draft') RETURNING id)
			INSERT INTO campaign_numbers SELECT '1004', id, 'primary' FROM o`, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tx, err := l.pool.Begin(t.Context())
			l.must(err)
			defer func() { l.must(tx.Rollback(t.Context())) }()
			_, err = tx.Exec(t.Context(), tc.sql, pgx.QueryExecModeSimpleProtocol)
			l.must(err)
			if got := f.may(t.Context(), tx, c); got != [4]bool{tc.want, tc.want, tc.want, tc.want} {
				t.Errorf("claims %v, is shown work %v, needs an owner %v, may probe %v: want all %v", got[0], got[1], got[2], got[3], tc.want)
			}
		})
	}
}

// may asks in a transaction whether the lab's number claims, has work, needs an
// owner, and may probe.
func (l *lab) may(ctx context.Context, tx db.DBTX, campaign int64) (may [4]bool) {
	l.t.Helper()
	work, err := l.q.WorkCampaigns(ctx, tx, l.lease.Number)
	l.must(err)
	census, err := l.q.Census(ctx, tx, labTTL.Seconds())
	l.must(err)
	rows, err := l.q.ClaimRecipients(ctx, tx, claimParams(l.ask(1, campaign)))
	l.must(err)
	_, err = tx.Exec(ctx, `UPDATE breakers SET state = 'open', open_until = now() WHERE scope = 'number:' || $1`, l.lease.Number)
	l.must(err)
	permits, err := l.q.TakePermit(ctx, tx, &db.TakePermitParams{Scope: "number:" + l.lease.Number, Number: l.lease.Number, Lease: l.lease.ID, PermitSeconds: 20})
	l.must(err)
	owner := slices.ContainsFunc(census, func(r db.CensusRow) bool { return r.NumberID == l.lease.Number })
	return [4]bool{len(rows) > 0, len(work) > 0, owner, len(permits) > 0}
}

// A primary number asks about itself alone, whatever became of the fallback, and
// one that is a fallback elsewhere is no fallback here.
func TestPrimariesAreNoFallbacks(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	f := l.standby()
	c, _ := l.campaign(4)
	l.relayed(c)
	own, _ := l.campaign(2)
	l.exec(`UPDATE campaign_numbers SET number_id = $1 WHERE campaign_id = $2`, labStandby, own)
	if n := len(l.claim(2, c)); n != 2 {
		t.Errorf("the primary claimed %d rows", n)
	}
	if rows := f.claim(9, c, own); len(rows) != 2 || rows[0].Campaign != own || rows[1].Campaign != own {
		t.Errorf("claimed %v, want the two of the campaign whose primary it is", rows)
	}
}

// With fallback_after, a fallback number takes whom so many attempts did not
// reach, though a primary is able; nobody else, and it looks no further than the
// thousand that became due last.
func TestFallbackAfter(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	f := l.standby()
	c, first := l.campaign(1006)
	l.relayed(c)
	tx, err := l.pool.Begin(t.Context())
	l.must(err)
	defer func() { l.must(tx.Rollback(t.Context())) }()
	set := func(sql string, args ...any) {
		t.Helper()
		_, err := tx.Exec(t.Context(), sql, args...)
		l.must(err)
	}
	claim := func() []int64 {
		t.Helper()
		rows, err := l.q.ClaimRecipients(t.Context(), tx, claimParams(f.ask(500, c)))
		l.must(err)
		var got []int64
		for _, r := range rows {
			got = append(got, r.ID-first)
		}
		return got
	}
	set(`UPDATE recipients SET due_at = now() - interval '1 h' - (id - $1) * interval '1 ms'`, first)
	set(`UPDATE recipients SET attempt = 2 WHERE id IN ($1::bigint, $1 + 2, $1 + 3, $1 + 1005)`, first)
	set(`UPDATE recipients SET attempt = 1 WHERE id = $1::bigint + 1`, first)
	set(`UPDATE recipients SET due_at = now() + interval '1 s' WHERE id = $1::bigint + 3`, first)
	if got := claim(); len(got) > 0 {
		t.Errorf("without fallback_after: claimed %v", got)
	}
	set(`UPDATE campaigns SET fallback_after = 2`)
	if got := f.may(t.Context(), tx, 0); got != [4]bool{false, true, true, true} {
		t.Errorf("has work %v, needs an owner %v, may probe %v", got[1], got[2], got[3])
	}
	set(`UPDATE breakers SET state = 'closed'`)
	if got := claim(); !slices.Equal(got, []int64{0, 2}) {
		t.Errorf("claimed %v, want those tried twice that are due, and not the one behind a thousand others", got)
	}
	if got := f.may(t.Context(), tx, 0); got[3] {
		t.Error("it may probe with nothing that it could send")
	}
	set(`UPDATE breakers SET state = 'closed'`)
	_, err = tx.Exec(t.Context(), away(labNumber, 60), pgx.QueryExecModeSimpleProtocol)
	l.must(err)
	if got := claim(); len(got) != 500 {
		t.Errorf("standing in: claimed %d, want 500 of all that are due", len(got))
	}
}

// What a primary has sent, or may have, is never a fallback's; what waits comes
// with its attempts, its waits and its own due time. A throttled pair is this
// number's trouble and not another's.
func TestFallbackTakesWhatWaitsAsItIs(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	f := l.standby()
	c, first := l.campaign(8)
	l.relayed(c)
	rows := l.claim(4, c)
	l.record(rows[0], accept("wamid.0"))
	l.record(rows[1], engine.Result{Status: engine.Unknown})
	l.record(rows[2], engine.Result{Status: engine.Failed, Code: 131026})
	// rows[3] is still sending
	l.exec(`UPDATE recipients SET attempt = 2, error_code = 131049 WHERE id = $1`, first+4)
	l.exec(`UPDATE recipients SET due_at = now() + interval '1 h' WHERE id = $1`, first+5)
	l.exec(`INSERT INTO suppressions (phone, scope, kind, until) SELECT phone, CASE id WHEN $1 THEN 'number:1001' ELSE 'utility' END, 'wait', now() + interval '1 h'
		FROM recipient_params WHERE id IN ($1, $2)`, first+6, first+7)
	_, err := l.pool.Exec(t.Context(), away(labNumber, 60), pgx.QueryExecModeSimpleProtocol)
	l.must(err)
	var got []string
	for _, r := range f.claim(8, c) {
		got = append(got, fmt.Sprintf("%d attempt %d code %d waiting %v", r.ID-first, r.Attempt, r.Code, r.Waiting))
	}
	want := []string{"4 attempt 3 code 131049 waiting false", "6 attempt 1 code 0 waiting false", "7 attempt 0 code 0 waiting true"}
	if !slices.Equal(got, want) {
		t.Errorf("claimed %q, want %q", got, want)
	}
	l.want(first, look{Status: "accepted", Claim: 1, Attempt: 1, Message: "wamid.0"})
	l.want(first+1, look{Status: "unknown", Claim: 1, Attempt: 1})
	l.want(first+3, look{Status: "sending", Claim: 1, Attempt: 1})
	l.recounted()
}

// Primaries and fallbacks that claim at the border, while the primary is stopped
// and enabled again and again: every row is taken once. Neither claim locks the
// number, so both may pass their gates; the row decides.
func TestFallbackRacersAreDisjoint(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	f := l.standby()
	const n = 1500
	c, _ := l.campaign(n)
	l.relayed(c)
	var mu sync.Mutex
	taken := map[int64]int{}
	over := make(chan struct{})
	var flips sync.WaitGroup
	flips.Go(func() {
		for i := range 200 { // the last one enables it
			select {
			case <-over:
				return
			default:
			}
			sql := `UPDATE numbers SET enabled = true WHERE id = '1001'`
			if i%2 == 0 {
				sql = away(labNumber, 60)
			}
			if _, err := l.pool.Exec(t.Context(), sql, pgx.QueryExecModeSimpleProtocol); err != nil {
				t.Error(err)
				return
			}
		}
	})
	race(8, func(i int) {
		side := []*lab{l, f}[i%2]
		for {
			mu.Lock()
			ask, done := side.ask(17, c), len(taken) == n || t.Failed()
			mu.Unlock()
			if done {
				return
			}
			rows, err := l.Claim(t.Context(), ask)
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			for _, r := range rows {
				taken[r.ID]++
			}
			mu.Unlock()
		}
	})
	close(over)
	flips.Wait()
	for id, times := range taken {
		if times != 1 {
			t.Errorf("row %d taken %d times", id, times)
		}
	}
	l.recounted()
}

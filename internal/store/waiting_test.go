package store

import (
	"testing"
	"time"

	"github.com/weirhq/weir/engine"
)

// Somebody waits behind a breaker that is not closed exactly while a claim would
// take a row if it were.
func TestWhoWaitsBehindABreaker(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	waits := func(what string, want ...bool) {
		t.Helper()
		moves, err := l.BreakerMoves(t.Context())
		l.must(err)
		for i, m := range moves { // the host, and the number
			if m.Waits != want[i] {
				t.Errorf("%s: somebody waits behind %s: %v", what, m.Scope, m.Waits)
			}
		}
	}
	id, _ := l.campaign(3)
	waits("both closed", false, false)
	l.exec(`UPDATE breakers SET state = 'open'`)
	waits("both open", true, true)
	l.exec(`UPDATE breakers SET state = 'half_open' WHERE scope = 'host'`)
	waits("half-open", true, true)
	for what, sql := range map[string][2]string{
		"a paused campaign":   {`UPDATE campaigns SET state = 'paused'`, `UPDATE campaigns SET state = 'running'`},
		"it waits as a whole": {`UPDATE campaigns SET paused_until = now() + interval '1 h'`, `UPDATE campaigns SET paused_until = NULL`},
		"an ended campaign":   {`UPDATE campaigns SET expire_at = now()`, `UPDATE campaigns SET expire_at = NULL`},
		"a later campaign":    {`UPDATE campaigns SET start_at = now() + interval '1 h'`, `UPDATE campaigns SET start_at = now()`},
		"a closed window":     {`UPDATE campaign_zones SET closes_at = now()`, `UPDATE campaign_zones SET closes_at = 'infinity'`},
		"rows that wait":      {`UPDATE recipients SET due_at = now() + interval '1 h'`, `UPDATE recipients SET due_at = now()`},
		"a number not on it":  {`UPDATE numbers SET enabled = false`, `UPDATE numbers SET enabled = true`},
	} {
		l.exec(sql[0])
		waits(what, false, false)
		l.exec(sql[1])
	}
	waits("as before", true, true)
	l.number("1002")
	l.exec(`UPDATE breakers SET state = 'open'`)
	waits("another number's campaign", true, true, false)
	l.exec(`UPDATE recipients SET status = 'accepted', due_at = NULL WHERE campaign_id = $1`, id)
	waits("all are sent to", false, false, false)
}

// A breaker that nobody waits behind is open for hours and nobody is told; nor
// of the moment in which somebody comes and the first probe is on its way.
func TestAnOpenBreakerWithoutWorkIsNoNotice(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	long := func(what string, want int) {
		t.Helper()
		_, err := l.GatherNotices(t.Context())
		l.must(err)
		if got := scalar[int](l, `SELECT count(*) FROM notices WHERE kind = 'breaker.stays_open'`); got != want {
			t.Errorf("%s: told %d times that it stays open, want %d", what, got, want)
		}
	}
	l.report("n1", host(5, 5, 5))
	l.later(5 * time.Minute)
	long("nobody waits", 0)
	l.campaign(3)
	long("somebody has come just now", 0)
	token := l.permit("host")
	long("the probe is on its way", 0)
	l.must(l.SettleProbe(t.Context(), engine.Probed{Scope: "host", Token: token, End: engine.ProbeFailed, Policy: labPolicy}))
	long("it has failed", 1)
	long("it has failed", 1)
}

package store

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/weirhq/weir/engine"
)

// permit asks for a probe with the lab's lease.
func (l *lab) permit(scope string) string {
	l.t.Helper()
	token, err := l.TakePermit(l.t.Context(), engine.PermitAsk{Scope: scope, Lease: l.lease, For: 20 * time.Second})
	l.must(err)
	return token
}

func (l *lab) probed(scope, token string, end engine.ProbeEnd) {
	l.t.Helper()
	l.must(l.SettleProbe(l.t.Context(), engine.Probed{Scope: scope, Token: token, End: end, Policy: labPolicy}))
}

// Each gate of the permit, closed alone, gives none and moves nothing; with
// all of them open there is one.
func TestPermitGates(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.number("1002")
	c, _ := l.campaign(1)
	set := func(scope, what string) string {
		return `UPDATE breakers SET ` + what + ` WHERE scope = '` + scope + `'`
	}
	for _, tc := range []struct {
		name, scope, close, mend string
		want                     bool
	}{
		{name: "all open, host", scope: "host", want: true},
		{name: "all open, number", scope: labScope, want: true},
		{name: "timeout runs", scope: "host", close: set("host", `open_until = now() + interval '1 h'`)},
		{name: "closed", scope: "host", close: set("host", `state = 'closed'`)},
		{name: "permit is out", scope: "host", close: set("host", `state = 'half_open', probe_until = now() + interval '1 h'`)},
		{name: "permit has run out", scope: "host", close: set("host", `state = 'half_open', probe_until = now()`), want: true},
		{name: "forced open", scope: "host", close: set("host", `forced_until = now() + interval '1 h'`)},
		{name: "force is over", scope: "host", close: set("host", `forced_until = now()`), want: true},
		{name: "number while the host is open", scope: labScope, close: set("host", `state = 'open'`)},
		{name: "number while the host probes", scope: labScope, close: set("host", `state = 'half_open'`)},
		{name: "host through a number that is open", scope: "host", close: set(labScope, `state = 'open'`), want: true},
		{name: "host through a number forced open", scope: "host", close: set(labScope, `state = 'open', forced_until = now() + interval '1 h'`)},
		{name: "another number's scope", scope: "number:1002"},
		{name: "nothing due", scope: "host", close: `UPDATE recipients SET due_at = now() + interval '1 h'`, mend: `UPDATE recipients SET due_at = now() - interval '1 s'`},
		{name: "campaign paused", scope: "host", close: `UPDATE campaigns SET state = 'paused'`, mend: `UPDATE campaigns SET state = 'running'`},
		{name: "zone closed", scope: "host", close: `UPDATE campaign_zones SET closes_at = now()`, mend: `UPDATE campaign_zones SET closes_at = 'infinity'`},
		{name: "number disabled", scope: "host", close: `UPDATE numbers SET enabled = false`, mend: `UPDATE numbers SET enabled = true`},
		{name: "number paused", scope: "host", close: `UPDATE numbers SET paused_until = now() + interval '1 h'`, mend: `UPDATE numbers SET paused_until = NULL`},
		{name: "lease not ready", scope: "host", close: `UPDATE number_leases SET ready_at = now() + interval '1 h'`, mend: `UPDATE number_leases SET ready_at = now()`},
		{name: "lease released", scope: "host", close: `UPDATE number_leases SET released = true`, mend: `UPDATE number_leases SET released = false`},
		{name: "lease expired", scope: "host", close: `UPDATE number_leases SET expires_at = now()`, mend: `UPDATE number_leases SET expires_at = now() + interval '1 h'`},
	} {
		l.fresh()
		l.exec(set(tc.scope, `state = 'open', open_until = now()`))
		if tc.close != "" {
			l.exec(tc.close)
		}
		before := l.moves(tc.scope)
		token := l.permit(tc.scope)
		if got := token != ""; got != tc.want || got != (l.moves(tc.scope) != before) {
			t.Errorf("%s: permit %q, want one: %v; moves %q, then %q", tc.name, token, tc.want, before, l.moves(tc.scope))
		}
		if tc.mend != "" {
			l.exec(tc.mend)
		}
	}
	if n := len(l.claim(1, c)); n != 0 {
		t.Errorf("%d rows claimed without a probe token", n)
	}
}

// Who is claimed as a probe waits longest; a fallback number's has been tried as
// often as it must have been, and so is of those that became due last.
func TestWhoIsProbedWith(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	f := l.standby()
	c, first := l.campaign(4)
	l.relayed(c)
	l.exec(`UPDATE campaigns SET fallback_after = 1`)
	l.exec(`UPDATE recipients SET due_at = now() - interval '1 h' WHERE id IN ($1, $2)`, first+1, first+2)
	l.exec(`UPDATE recipients SET attempt = 1 WHERE id = $1`, first+3)
	l.exec(`UPDATE breakers SET state = 'open', open_until = now() WHERE scope <> 'host'`)
	for _, tc := range []struct {
		lab  *lab
		want int64
	}{{l, first + 1}, {f, first + 3}} {
		ask := tc.lab.ask(5, c)
		ask.Probe = tc.lab.permit("number:" + ask.Lease.Number)
		rows, err := l.Claim(t.Context(), ask)
		l.must(err)
		if len(rows) != 1 || rows[0].ID != tc.want {
			t.Errorf("number %s probes with %v, want %d, the first being %d", ask.Lease.Number, rows, tc.want, first)
		}
	}
}

// 40 takers at once: one token, one move.
func TestOnePermitForTheFleet(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.campaign(1)
	for _, why := range []string{"open past its timeout", "half-open, its prober dead"} {
		l.fresh()
		l.exec(`UPDATE breakers SET state = 'open', open_until = now() WHERE scope = 'host'`)
		if why != "open past its timeout" {
			l.permit("host")
			l.later(21 * time.Second)
		}
		moves := scalar[int](l, `SELECT count(*) FROM breaker_events`)
		var mu sync.Mutex
		tokens := map[string]int{}
		l.racers(40, func(ctx context.Context, _ int) error {
			token, err := l.TakePermit(ctx, engine.PermitAsk{Scope: "host", Lease: l.lease, For: 20 * time.Second})
			mu.Lock()
			defer mu.Unlock()
			tokens[token]++
			return err
		})
		if len(tokens) != 2 || tokens[""] != 39 {
			t.Errorf("%s: 40 takers got %v", why, tokens)
		}
		if n := scalar[int](l, `SELECT count(*) FROM breaker_events`); n != moves+1 {
			t.Errorf("%s: %d moves, want one", why, n-moves)
		}
	}
}

// racers runs so many at once.
func (l *lab) racers(n int, run func(ctx context.Context, i int) error) {
	l.t.Helper()
	var all sync.WaitGroup
	errs := make([]error, n)
	for i := range n {
		all.Go(func() { errs[i] = run(l.t.Context(), i) })
	}
	all.Wait()
	for _, err := range errs {
		l.must(err)
	}
}

func TestProbeEnds(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.campaign(1)
	for _, tc := range []struct {
		cause string
		end   engine.ProbeEnd
		state string
		open  float64 // the timeout that follows
	}{
		{"consecutive", engine.ProbeAnswered, "closed", 0},
		{"consecutive", engine.ProbeThrottled, "closed", 0},
		{"throttled", engine.ProbeThrottled, "open", 6},
		{"consecutive", engine.ProbeFailed, "open", 6},
		{"consecutive", engine.ProbeUnused, "open", 3},
	} {
		l.fresh()
		l.exec(`UPDATE breakers SET state = 'open', cause = $1, open_until = now(), open_seconds = 3 WHERE scope = 'host'`, tc.cause)
		token := l.permit("host")
		l.probed("host", otherToken, engine.ProbeAnswered)
		l.probed(labScope, token, engine.ProbeAnswered)
		if state := scalar[string](l, `SELECT state FROM breakers WHERE scope = 'host'`); state != "half_open" {
			t.Errorf("a wrong token or scope made it %s", state)
		}
		l.probed("host", token, tc.end)
		l.probed("host", token, engine.ProbeFailed) // twice is once
		var state, reason string
		var open, wait float64
		l.must(l.pool.QueryRow(t.Context(), `SELECT state, reason, open_seconds, coalesce(extract(epoch FROM open_until - since), 0)::float
			FROM breakers WHERE scope = 'host'`).Scan(&state, &reason, &open, &wait))
		if state != tc.state || open != tc.open || reason != "probe_"+tc.end.String() {
			t.Errorf("%s, probe %s: %s for %v s, reason %s", tc.cause, tc.end, state, open, reason)
		}
		if wait < tc.open || wait > tc.open*1.25 {
			t.Errorf("%s, probe %s: a permit comes after %v s, want %v and at most a quarter more", tc.cause, tc.end, wait, tc.open)
		}
	}
}

// The timeout doubles to its cap, and a new opening starts anew.
func TestTimeoutsDoubleToTheCap(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.campaign(1)
	l.report("a", host(5, 5, 5))
	for _, want := range []float64{3, 6, 10, 10} {
		if got := scalar[float64](l, `SELECT open_seconds FROM breakers WHERE scope = 'host'`); got != want {
			t.Errorf("open for %v s, want %v", got, want)
		}
		l.later(time.Duration(want*1.25*float64(time.Second)) + time.Second)
		l.probed("host", l.permit("host"), engine.ProbeFailed)
	}
	l.later(time.Minute)
	l.probed("host", l.permit("host"), engine.ProbeAnswered)
	l.report("a", host(5, 5, 5))
	if got := scalar[float64](l, `SELECT open_seconds FROM breakers WHERE scope = 'host'`); got != 3 {
		t.Errorf("the next opening is for %v s", got)
	}
}

// The word of a permit that has run out decides nothing: its successor's does.
func TestLateProbesDecideNothing(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.campaign(1)
	l.report("a", host(5, 5, 5))
	l.later(5 * time.Second)
	dead := l.permit("host")
	l.later(21 * time.Second)
	l.probed("host", dead, engine.ProbeAnswered)
	next := l.permit("host")
	if dead == "" || next == "" || next == dead {
		t.Fatalf("permits %q and %q", dead, next)
	}
	l.probed("host", dead, engine.ProbeAnswered)
	l.probed("host", dead, engine.ProbeFailed)
	l.probed("host", next, engine.ProbeAnswered)
	const want = "open consecutive 5/5 of 1, half_open probe 0/0 of 0, half_open probe_expired 0/0 of 0, closed probe_answered 0/1 of 1"
	if got := l.moves("host"); got != want {
		t.Errorf("moves %s, want %s", got, want)
	}
}

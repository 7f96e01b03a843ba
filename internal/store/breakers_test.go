package store

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/weirhq/weir/engine"
)

const labScope = "number:" + labNumber

var labPolicy = engine.BreakerPolicy{
	Failures: 5, Throttles: 5, Samples: 50, Share: 0.2, Window: 50 * time.Second, Abstain: 25 * time.Second,
	Base: 3 * time.Second, Cap: 10 * time.Second,
}

// report has a node report, and returns what it is told, by scope.
func (l *lab) report(node string, tallies ...engine.Tally) map[string]engine.Breaker {
	l.t.Helper()
	l.seq++
	told, err := l.ReportBreakers(l.t.Context(), engine.Report{Node: node, Seq: l.seq, Policy: labPolicy, Tallies: tallies})
	l.must(err)
	return byScope(told)
}

func byScope(all []engine.Breaker) map[string]engine.Breaker {
	m := map[string]engine.Breaker{}
	for _, b := range all {
		m[b.Scope] = b
	}
	return m
}

// host and ours are what calls came to: failures in a row at the end of them.
func host(samples, failures, streak int) engine.Tally {
	return engine.Tally{Samples: samples, Failures: failures, Streak: streak}
}

func (l *lab) ours(samples, failures, streak int) engine.Tally {
	t := host(samples, failures, streak)
	t.Lease = l.lease
	return t
}

// later lets time pass for the breakers, without a move.
func (l *lab) later(d time.Duration) {
	l.t.Helper()
	l.must(pgx.BeginFunc(l.t.Context(), l.pool, func(tx pgx.Tx) error {
		for _, sql := range []string{
			`SET LOCAL session_replication_role = replica`, // no triggers
			`UPDATE breakers SET since = since - $1::interval, open_until = open_until - $1::interval,
				probe_until = probe_until - $1::interval, forced_until = forced_until - $1::interval`,
			`UPDATE breaker_reports SET at = at - $1::interval`,
			`UPDATE breaker_events SET at = at - $1::interval`,
		} {
			args := []any{}
			if sql[0] == 'U' {
				args = append(args, d)
			}
			if _, err := tx.Exec(l.t.Context(), sql, args...); err != nil {
				return err
			}
		}
		return nil
	}))
}

// fresh makes all breakers as if nothing had ever been.
func (l *lab) fresh() {
	l.t.Helper()
	l.exec(`DELETE FROM breaker_reports`)
	l.exec(`UPDATE breakers SET state = 'closed', reason = 'new', cause = '', forced_until = NULL, probe_token = NULL, open_seconds = 0,
		samples = 0, failures = 0, reporters = 0`)
	l.later(time.Second)
	l.exec(`DELETE FROM breaker_events`)
}

// moves is a scope's events, oldest first.
func (l *lab) moves(scope string) string {
	l.t.Helper()
	return scalar[string](l, `SELECT coalesce(string_agg(format('%s %s %s/%s of %s', state, reason, failures, samples, reporters), ', ' ORDER BY at), '')
		FROM breaker_events WHERE scope = $1`, scope)
}

func TestBreakersTrip(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.number("1002")
	for _, tc := range []struct {
		name         string
		play         func()
		host, number string // moves
	}{
		{"four in a row", func() { l.report("a", host(4, 4, 4), l.ours(4, 4, 4)) }, "", ""},
		{"five in a row, one node: the platform's", func() { l.report("a", host(5, 5, 5), l.ours(5, 5, 5)) }, "open consecutive 5/5 of 1", ""},
		{"five of the number's, others succeed", func() { l.report("a", host(9, 5, 0), l.ours(5, 5, 5)) }, "", "open consecutive 5/5 of 1"},
		{"one sick node of two", func() { l.report("b", host(1, 0, 0)); l.report("a", host(5, 5, 5)) }, "", ""},
		{"both of two", func() { l.report("b", host(5, 5, 5)); l.report("a", host(5, 5, 5)) }, "open consecutive 5/5 of 1", ""},
		{"two of three", func() { l.three(); l.report("a", host(5, 5, 5)); l.report("b", host(6, 5, 5)) }, "open consecutive 10/14 of 3", ""},
		{"one of three", func() { l.three(); l.report("a", host(5, 5, 5)) }, "", ""},
		{"missing reports abstain", func() { l.three(); l.later(26 * time.Second); l.report("a", host(5, 5, 5)) }, "open consecutive 5/6 of 1", ""},
		{"reports of 15 s ago do not", func() { l.three(); l.later(15 * time.Second); l.report("a", host(5, 5, 5)) }, "", ""},
		{"a success between", func() { l.report("a", host(5, 4, 4)); l.report("a", host(5, 5, 0), l.ours(1, 0, 0)) }, "", ""},
		{"49 calls", func() { l.report("a", host(49, 40, 0), l.ours(49, 40, 0)) }, "", ""},
		{"50 calls, 9 failed", func() { l.report("a", host(50, 9, 0), l.ours(50, 9, 0)) }, "", ""},
		{"50 calls, 10 failed", func() { l.report("a", host(50, 10, 0), l.ours(50, 10, 0)) }, "open ratio 10/50 of 1", ""},
		{"of the number alone", func() { l.report("a", host(500, 10, 0), l.ours(50, 10, 0)) }, "", "open ratio 10/50 of 1"},
		{"in two reports", func() { l.report("a", host(30, 9, 0)); l.later(40 * time.Second); l.report("a", host(20, 1, 0)) }, "open ratio 10/50 of 1", ""},
		{"out of the window", func() { l.report("a", host(30, 9, 0)); l.later(51 * time.Second); l.report("a", host(20, 1, 0)) }, "", ""},
		{"one sick node's share of two", func() { l.report("b", host(99, 0, 0)); l.report("a", host(99, 99, 0)) }, "", ""},
		{"two sick nodes of three, hidden among the well one's calls", func() {
			l.report("c", host(999, 0, 0))
			l.report("b", host(9, 9, 0))
			l.report("a", host(9, 9, 0))
		}, "", ""},
		{"twice the same report", func() { l.report("a", host(30, 9, 0)); l.seq--; l.report("a", host(30, 9, 0)) }, "", ""},
		{"four throttles", func() { l.report("a", storm(l.ours(0, 0, 0), 4)) }, "", ""},
		{"five throttles", func() { l.report("a", storm(l.ours(0, 0, 0), 5)) }, "", "open throttled 0/0 of 0"},
		{"the host's throttles", func() { l.report("a", storm(host(9, 0, 0), 50)) }, "", ""},
		{"a number while the host is open", func() {
			l.exec(`UPDATE breakers SET state = 'open' WHERE scope = 'host'`)
			l.report("a", l.ours(5, 5, 5))
		}, "open new 0/0 of 0", ""},
		{"a number of another lease", func() { t := l.ours(5, 5, 5); t.Lease.ID = otherToken; l.report("a", t) }, "", ""},
		{"a number released", func() {
			l.exec(`UPDATE number_leases SET released = true`)
			l.report("a", l.ours(5, 5, 5))
			l.exec(`UPDATE number_leases SET released = false`)
		}, "", ""},
		{"of before the breaker closed", func() { l.report("a", host(49, 40, 0)); l.reclosed("host"); l.report("a", host(30, 5, 0)) }, "open new 0/0 of 0, closed new 0/0 of 0", ""},
		{"of the number, before the host closed", func() {
			l.report("a", host(999, 40, 0), l.ours(49, 40, 0))
			l.reclosed("host")
			l.report("a", host(30, 5, 0), l.ours(30, 5, 0))
		}, "open new 0/0 of 0, closed new 0/0 of 0", ""},
		{"forced closed", func() { l.force("host", engine.BreakerClosed); l.report("a", host(500, 500, 500)) }, "closed forced 0/0 of 0", ""},
		{"open already", func() { l.report("a", host(5, 5, 5)); l.report("a", host(5, 5, 10)) }, "open consecutive 5/5 of 1", ""},
	} {
		l.fresh()
		tc.play()
		if h, n := l.moves("host"), l.moves(labScope); h != tc.host || n != tc.number {
			t.Errorf("%s: host moved %q, want %q; number moved %q, want %q", tc.name, h, tc.host, n, tc.number)
		}
		if other := l.moves("number:1002"); other != "" {
			t.Errorf("%s: a number nobody spoke of moved: %s", tc.name, other)
		}
	}
}

// three is a fleet whose calls have just succeeded.
func (l *lab) three() {
	l.t.Helper()
	l.report("a", host(1, 0, 0))
	l.report("b", host(1, 0, 0))
	l.report("c", host(1, 0, 0))
}

func storm(t engine.Tally, n int) engine.Tally {
	t.Storm = n
	return t
}

// reclosed opens and closes a breaker.
func (l *lab) reclosed(scope string) {
	l.t.Helper()
	l.exec(`UPDATE breakers SET state = 'open' WHERE scope = $1`, scope)
	l.exec(`UPDATE breakers SET state = 'closed' WHERE scope = $1`, scope)
}

func (l *lab) force(scope string, to engine.BreakerState) {
	l.t.Helper()
	l.must(l.ForceBreaker(l.t.Context(), Force{Scope: scope, State: to, For: time.Minute, Note: "a test"}))
}

// What a reporter is told is how things stand after its report.
func TestReportersAreTold(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	told := l.report("a", host(1, 0, 0), l.ours(1, 0, 0))
	if len(told) != 2 || told["host"].State != engine.BreakerClosed || told["host"].Wait != 0 || told[labScope].Mark == "" {
		t.Errorf("told %+v of closed breakers", told)
	}
	before := told[labScope].Mark
	told = l.report("a", host(99, 5, 0), l.ours(5, 5, 5))
	got := told[labScope]
	if got.State != engine.BreakerOpen || got.Wait <= 0 || got.Wait > 4*time.Second || got.Mark == before || got.Age > time.Minute {
		t.Errorf("told %+v of one that has just opened for 3 s", got)
	}
	read, err := l.Breakers(t.Context(), "node", []string{labScope})
	l.must(err)
	if again := byScope(read)[labScope]; again.Mark != got.Mark || again.State != got.State || again.Forced {
		t.Errorf("read %+v, told %+v", again, got)
	}
	l.force("host", engine.BreakerOpen)
	told = l.report("a", l.ours(0, 0, 0))
	if h := told["host"]; !h.Forced || h.State != engine.BreakerOpen || h.Wait < 50*time.Second {
		t.Errorf("told %+v of one forced open for a minute", h)
	}
}

// Reports that come at once are judged one after the other, each with what the
// others added: ten of five calls each are fifty.
func TestReportsSeeEachOther(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	for range 5 {
		l.fresh()
		l.racers(10, func(ctx context.Context, i int) error {
			_, err := l.ReportBreakers(ctx, engine.Report{
				Node: fmt.Sprint(i), Seq: 1, Policy: labPolicy, Tallies: []engine.Tally{host(5, 5, 0)},
			})
			return err
		})
		if got := l.moves("host"); got != "open ratio 50/50 of 10" {
			t.Fatalf("moves %q", got)
		}
	}
}

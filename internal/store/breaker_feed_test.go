package store

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/weirhq/weir/engine"
)

// edges are the moves that a breaker can make, by their reason.
var edges = map[string][]string{
	"consecutive": {"closed>open"}, "ratio": {"closed>open"}, "throttled": {"closed>open"},
	"probe": {"open>half_open"}, "probe_expired": {"half_open>half_open"},
	"probe_answered": {"half_open>closed"}, "probe_throttled": {"half_open>closed", "half_open>open"},
	"probe_failed": {"half_open>open"}, "probe_unused": {"half_open>open"},
	"forced": {
		"closed>open", "closed>closed", "open>open", "open>closed", "half_open>open", "half_open>closed",
	},
}

// TestBreakerFeed: whatever nodes, probers and operators do at once, the feed
// of a scope is 1, 2, 3, …, each event begins where the one before it ended,
// and every move has a reason that allows it.
func TestBreakerFeed(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.campaign(1)
	rapid.Check(t, func(rt *rapid.T) {
		l := l.under(rt)
		for range rapid.IntRange(2, 3).Draw(rt, "rounds") {
			meddleAll(l, rapid.Uint64().Draw(rt, "seed"))
			l.later(time.Duration(rapid.IntRange(0, 25).Draw(rt, "seconds")) * time.Second)
		}
		l.gapless("host")
		l.gapless(labScope)
	})
	for seed := uint64(0); scalar[int](l, `SELECT count(*) FROM breaker_events`) < 1000; seed++ { // how many a round makes is chance
		meddleAll(l, seed)
		l.later(25 * time.Second)
	}
	l.gapless("host")
	l.gapless(labScope)
}

// meddleAll sets four meddlers loose at once.
func meddleAll(l *lab, seed uint64) {
	quick := labPolicy
	quick.Base, quick.Cap = time.Millisecond, 10*time.Millisecond
	held := &sync.Map{}
	l.racers(4, func(ctx context.Context, i int) error {
		return meddler{l, quick, held, rand.New(rand.NewPCG(seed, uint64(i)))}.meddle(ctx, 16)
	})
}

// meddler is a node, a prober and an operator.
type meddler struct {
	*lab
	policy engine.BreakerPolicy
	held   *sync.Map // scope → the last token anyone took
	dice   *rand.Rand
}

// meddle does so many random things to the breakers, mostly such that could
// move them as they stand: then all racers try the same at once.
func (m meddler) meddle(ctx context.Context, times int) error {
	for range times {
		told, err := m.Breakers(ctx, "node", []string{labScope})
		if err != nil {
			return err
		}
		scope := "host" // it goes first
		if told[0].State == engine.BreakerClosed && m.dice.IntN(3) > 0 {
			scope = labScope
		}
		state := byScope(told)[scope].State
		if m.dice.IntN(6) == 0 {
			state = engine.BreakerState(m.dice.IntN(3))
		}
		switch {
		case m.dice.IntN(100) == 0:
			err = m.ForceBreaker(ctx, Force{Scope: scope, State: 2 * engine.BreakerState(m.dice.IntN(2)), For: time.Second, Note: "dice"})
		case state == engine.BreakerClosed:
			err = m.report(ctx)
		case state == engine.BreakerOpen:
			err = m.probe(ctx, scope)
		default:
			token, _ := m.held.Load(scope)
			err = m.SettleProbe(ctx, engine.Probed{Scope: scope, Token: fmt.Sprint(token), End: engine.ProbeEnd(m.dice.IntN(4)), Policy: m.policy})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (m meddler) probe(ctx context.Context, scope string) error {
	lasts := 20 * time.Second
	if m.dice.IntN(6) == 0 {
		lasts = time.Millisecond // its prober is dead
	}
	token, err := m.TakePermit(ctx, engine.PermitAsk{Scope: scope, Lease: m.lease, For: lasts})
	if token != "" {
		m.held.Store(scope, token)
	}
	return err
}

func (m meddler) report(ctx context.Context) error {
	tally := func() engine.Tally {
		n := 1 + m.dice.IntN(100)
		return engine.Tally{Samples: n, Failures: m.dice.IntN(n + 1), Streak: m.dice.IntN(8), Storm: m.dice.IntN(7)}
	}
	ours := tally()
	ours.Lease = m.lease
	_, err := m.ReportBreakers(ctx, engine.Report{
		Node: []string{"a", "b", "c"}[m.dice.IntN(3)], Seq: m.dice.Int64(), Policy: m.policy, Tallies: []engine.Tally{tally(), ours},
	})
	return err
}

// gapless holds a scope's feed to its row and to itself.
func (l *lab) gapless(scope string) {
	l.t.Helper()
	rows, err := l.pool.Query(l.t.Context(), `SELECT seq, prev, state, reason, at FROM breaker_events WHERE scope = $1 ORDER BY seq`, scope)
	l.must(err)
	defer rows.Close()
	state, last := "closed", time.Time{}
	n := int64(0)
	for ; rows.Next(); n++ {
		var seq int64
		var prev, next, reason string
		var at time.Time
		l.must(rows.Scan(&seq, &prev, &next, &reason, &at))
		if seq != n+1 || prev != state || at.Before(last) {
			l.t.Fatalf("%s: event %d from %s follows event %d to %s", scope, seq, prev, n, state)
		}
		if legal := strings.Join(edges[reason], " "); !strings.Contains(legal, prev+">"+next) {
			l.t.Fatalf("%s: event %d moves %s to %s for %s", scope, seq, prev, next, reason)
		}
		state, last = next, at
	}
	l.must(rows.Err())
	var row struct {
		State        string
		Seq, C, H, O int64
	}
	l.must(l.pool.QueryRow(l.t.Context(), `SELECT state, seq, to_closed, to_half_open, to_open FROM breakers WHERE scope = $1`, scope).
		Scan(&row.State, &row.Seq, &row.C, &row.H, &row.O))
	if diff := cmp.Diff([]any{state, n, n}, []any{row.State, row.Seq, row.C + row.H + row.O}); diff != "" {
		l.t.Fatalf("%s: row and feed (-feed +row):\n%s", scope, diff)
	}
}

// A promoted standby may have forgotten moves that a follower knows of: on
// another cluster the numbers start again under another epoch.
func TestAnotherClusterIsAnotherEpoch(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.force("host", engine.BreakerOpen)
	l.force("host", engine.BreakerClosed)
	l.exec(`UPDATE breakers SET cluster = 'the one before'`) // and seq as the standby knew it
	l.force("host", engine.BreakerOpen)
	l.force("host", engine.BreakerOpen)
	got := scalar[string](l, `SELECT string_agg(seq::text, ' ' ORDER BY at) || ' in ' || count(DISTINCT epoch) FROM breaker_events WHERE scope = 'host'`)
	if want := "1 2 1 2 in 2"; got != want {
		t.Errorf("events %s, want %s", got, want)
	}
	if same := scalar[bool](l, `SELECT epoch = (SELECT epoch FROM breaker_events WHERE scope = 'host' ORDER BY at DESC LIMIT 1) AND cluster = cluster_identity()
		FROM breakers WHERE scope = 'host'`); !same {
		t.Error("the breaker is of another epoch than its last event")
	}
}

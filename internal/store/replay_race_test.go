package store

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"
	"pgregory.net/rapid"

	"github.com/weirhq/weir/engine"
)

// deed is something done to some rows at the same time as other deeds: really,
// and by the rules. skips: it may pass a row by that another is at, or that is
// not any more what it saw.
type deed struct {
	name  string
	run   func(ctx context.Context) error
	rule  func(r *modelRow)
	skips bool
}

// Replays, claims and statuses race for the same rows. Whatever the order in
// which they reach a row, what it comes to must be what the rules make of one
// such order; and nothing is counted that was not done.
func TestReplayRaces(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	rapid.Check(t, func(rt *rapid.T) {
		m := newMachine(rt, l)
		m.exec(`UPDATE campaigns SET on_unknown = 'fail', max_attempts = 3`)
		m.policy, m.cap = engine.UnknownFails, 3
		m.wound()
		var deeds []deed
		for range rapid.IntRange(2, 4).Draw(rt, "deeds") {
			deeds = append(deeds, m.drawDeed())
		}
		var before []*modelRow
		for _, r := range m.rows {
			before = append(before, r.clone())
		}
		g, ctx := errgroup.WithContext(rt.Context())
		for _, d := range deeds {
			g.Go(func() error { return d.run(ctx) })
		}
		m.must(g.Wait())
		m.explained(before, deeds)
	})
}

// wound gives every row a fate that a replay may find, in one claim batch that
// may or may not be over.
func (m *machine) wound() {
	rows := m.claim(len(m.rows), m.c)
	var done []int64
	over := rapid.Bool().Draw(m.t, "batch is over")
	if over {
		done = []int64{m.seq}
	} else {
		m.booked[m.seq] = nil
	}
	for _, r := range rows {
		i := int(r.ID - m.first)
		m.rows[i].take()
		var result engine.Result
		switch rapid.SampledFrom([]string{"refused", "dead", "unknown", "failed later"}).Draw(m.t, "fate") {
		case "refused":
			result = engine.Result{Status: engine.Failed, Code: 131026}
		case "dead":
			result = engine.Result{Status: engine.Dead, Code: 503, Title: engine.ReasonAttempts}
		case "unknown":
			result = engine.Result{Status: engine.Unknown, Title: "reset"}
		case "failed later":
			result = accept(message(int64(i), 1))
		}
		result.Recipient, result.Claim = r.ID, 1
		m.must(m.Record(m.t.Context(), m.lease, []engine.Result{result}, done))
		m.rows[i].answer(1, result)
		switch result.Status {
		case engine.Accepted:
			m.hear(r.ID, 1, result.MessageID, engine.Failed)
			m.rows[i].hear(1, engine.Failed)
		case engine.Unknown:
			m.exec(`UPDATE unknowns SET since = now() - interval '1 h'`)
			_, err := m.ResolveUnknowns(m.t.Context(), 0)
			m.must(err)
			m.rows[i].decide(m.policy, m.cap)
		}
	}
}

func (m *machine) drawDeed() deed {
	switch kind := rapid.SampledFrom([]string{"replay", "replay", "claim", "delivered", "failed", "sent"}).Draw(m.t, "deed"); kind {
	case "replay":
		order := m.order(m.t)
		return deed{
			name: fmt.Sprintf("replay %s force %t", order.ID[35:], order.Force), skips: true,
			run:  func(ctx context.Context) error { return second(m.RunReplay(ctx, order)) },
			rule: func(r *modelRow) { r.replay(order, len(m.booked) > 0 && r.claim == 1) },
		}
	case "claim":
		ask := m.ask(len(m.rows), m.c)
		return deed{
			name: kind, skips: true,
			run: func(ctx context.Context) error { return second(m.Claim(ctx, ask)) },
			rule: func(r *modelRow) {
				if r.status == engine.Pending {
					r.take()
				}
			},
		}
	default:
		status, err := engine.ParseStatus(kind)
		m.must(err)
		var words []engine.StatusUpdate
		for i := range m.rows {
			words = append(words, engine.StatusUpdate{Recipient: m.first + int64(i), Claim: 1, MessageID: message(int64(i), 1), Status: status})
		}
		return deed{
			name: kind,
			run:  func(ctx context.Context) error { return second(m.ApplyStatuses(ctx, engine.Fold(words), nil)) },
			rule: func(r *modelRow) { r.hear(1, status) },
		}
	}
}

func (r *modelRow) clone() *modelRow {
	c := *r
	c.tries = maps.Clone(r.tries)
	return &c
}

// explained holds every row to the rules in some order of the deeds, and the
// counts to the rows.
func (m *machine) explained(before []*modelRow, deeds []deed) {
	byRow := map[string][]string{}
	replays := 0
	for _, line := range m.state() {
		words := strings.Fields(line)
		switch words[0] {
		case "booked":
		case "row", "try", "unknown":
			byRow[words[1]] = append(byRow[words[1]], line)
		default:
			m.t.Fatalf("counts: %s", line)
		}
	}
	for i, r := range before {
		found := strings.Join(byRow[fmt.Sprint(i)], "\n")
		var could []string
		if !orders(r, deeds, func(after *modelRow) bool {
			lines := after.lines(i)
			slices.Sort(lines)
			could = append(could, strings.Join(lines, "\n"))
			return could[len(could)-1] == found
		}) {
			slices.Sort(could)
			m.t.Fatalf("row %d is\n%s\nno order of %v makes it so, but one of\n%s", i, found, deeds, strings.Join(slices.Compact(could), "\n\n"))
		}
		replays += scalar[int](m.lab, `SELECT replays FROM recipients WHERE id = $1`, m.first+int64(i))
	}
	if counted := scalar[int](m.lab, `SELECT coalesce(sum(moved), 0) FROM replays`); counted != replays {
		m.t.Fatalf("%d moves on record, the rows tell of %d", counted, replays)
	}
}

// orders tries the deeds in every order until one is found to be right.
func orders(r *modelRow, left []deed, right func(*modelRow) bool) bool {
	if len(left) == 0 {
		return right(r)
	}
	for k, d := range left {
		rest := slices.Delete(slices.Clone(left), k, k+1)
		done := r.clone()
		d.rule(done)
		if orders(done, rest, right) || d.skips && orders(r, rest, right) {
			return true
		}
	}
	return false
}

// String keeps a failure readable.
func (d deed) String() string { return d.name }

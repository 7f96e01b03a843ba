package store

import (
	"slices"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/weirhq/weir/engine"
)

// The machine's operator.

// mostReplays is how often the machine lets one row be replayed.
const mostReplays = 2

// nowhere knows no country.
func nowhere(string) string { return "" }

// replay is an operator's, as it is done.
func (m *machine) replay(t *rapid.T) {
	order := m.order(t)
	got, err := m.RunReplay(t.Context(), order)
	m.must(err)
	want := Replayed{Skipped: map[Skip]int64{}}
	for i, r := range m.rows {
		if r.status == engine.Unknown && m.policy != engine.UnknownHolds {
			continue // nobody's letter: the policy decides
		}
		switch why := m.move(i, order); why {
		case Taken:
			want.Moved++
		case notDead:
		default:
			want.Skipped[why]++
		}
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Fatalf("replay (-rules +database):\n%s", diff)
	}
}

func (m *machine) order(t *rapid.T) ReplayOrder {
	id := rapid.SampledFrom([]string{probeToken, otherToken}).Draw(t, "id")
	order, _, err := m.OpenReplay(t.Context(), ReplayOrder{
		ID: id, Campaign: m.c, Countries: nowhere, Force: rapid.Bool().Draw(t, "force"), MaxReplays: mostReplays, Who: "ana",
	})
	m.must(err)
	return order
}

// move is what the rules make of a replay of one row.
func (m *machine) move(i int, o ReplayOrder) Skip {
	why := m.rows[i].replay(o, m.inFlight(i))
	if why == Taken {
		for _, c := range m.calls {
			c.forced = c.forced || c.row == i && o.Force
		}
	}
	return why
}

// look is a replay that will be slow to act.
func (m *machine) look(*rapid.T) {
	m.seen = nil
	for i, r := range m.rows {
		m.seen = append(m.seen, seenRow{i, r.claim, r.status})
	}
}

// seenRow is a row as a replay saw it.
type seenRow struct {
	row, claim int
	status     engine.Status
}

// act is a replay that asks for every row it once saw, whatever it was: the
// statement alone must keep the rules.
func (m *machine) act(t *rapid.T) {
	order := m.order(t)
	p := order.choose(nil, nil)
	want := int64(0)
	for _, s := range m.seen {
		p.Ids, p.Claims, p.Statuses = append(p.Ids, m.first+int64(s.row)), append(p.Claims, int32(s.claim)), append(p.Statuses, s.status.String())
		if r := m.rows[s.row]; r.claim == s.claim && r.status == s.status && m.move(s.row, order) == Taken {
			want++
		}
	}
	if got, err := m.replayPage(t.Context(), order.found, p); got != want || err != nil {
		t.Fatalf("moved %d of %v (%v), want %d", got, m.seen, err, want)
	}
}

// inFlight reports whether the present claim of a row is in a batch on record.
func (m *machine) inFlight(i int) bool {
	for _, calls := range m.booked {
		if slices.ContainsFunc(calls, func(c *call) bool { return c.row == i && c.claim == m.rows[i].claim }) {
			return true
		}
	}
	return false
}

// closeUnknowns gives up what a campaign holds.
func (m *machine) closeUnknowns(t *rapid.T) {
	if m.policy != engine.UnknownHolds {
		t.Skip("decides itself")
	}
	closed, err := m.CloseUnknowns(t.Context(), CloseOrder{Campaign: m.c, Who: "ana"})
	m.must(err)
	want := 0
	for _, r := range m.rows {
		if r.status == engine.Unknown && r.doubt == r.claim {
			r.note(r.claim, func(t *modelTry) { t.gaveUp = true })
			r.become(engine.Dead)
			want++
		}
	}
	if closed != want {
		t.Fatalf("closed %d unknowns, want %d", closed, want)
	}
}

package store

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/weirhq/weir/engine"
)

// machine drives the real statements and the reference model through the same
// random life of a small campaign, and holds them to each other after every
// step. It also plays the nodes (what they hold in memory, and lose) and the
// platform (what it really accepted), and so can tell a double send.
type machine struct {
	*lab
	t      *rapid.T
	policy engine.OnUnknown
	cap    int
	c      int64 // campaign
	first  int64 // id of row 0
	rows   []*modelRow
	calls  []*call
	booked map[int64][]*call // claim batches on record, by seq
	burned []int64
	strays []engine.StatusUpdate // kept statuses that found no row
	seen   []seenRow             // by a replay that has not acted yet
}

// call is one claim of one row in some node's hands.
type call struct {
	row, claim, attempt int
	lease               engine.LeaseID
	seq                 int64
	due                 time.Time
	stage               stage
	result              engine.Result

	// The platform's side, and what an operator or the window made of it.
	counted, accepted, failed, delivered bool
	forced, windowed                     bool
	replays                              int     // the row's, when it was claimed
	over                                 []*call // of the row: failed, by the platform's word, when it was claimed
}

type stage int

const (
	held     stage = iota // claimed, not begun
	lost                  // claimed, but the claim's reply was lost
	answered              // its result is in memory, or in a statement under way
	done                  // recorded and acknowledged
	gone                  // died with its node
)

func TestRowsAreWhatTheRulesSay(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	rapid.Check(t, func(rt *rapid.T) {
		m := newMachine(rt, l)
		rt.Repeat(map[string]func(*rapid.T){
			"":                m.check,
			"claim":           m.claimRows,
			"lose a claim":    m.loseClaim,
			"give back":       m.giveBackBurned,
			"call":            m.callPlatform,
			"return":          m.returnUnsent,
			"record":          m.recordSome,
			"take over":       m.takeOver,
			"reclaim":         m.reclaim,
			"hear":            m.hearSome,
			"retry unmatched": m.retryStrays,
			"window passes":   m.windowPasses,
			"replay":          m.replay,
			"look to replay":  m.look,
			"replay so late":  m.act,
			"close":           m.closeUnknowns,
		})
	})
}

func newMachine(t *rapid.T, on *lab) *machine {
	l := on.under(t)
	m := &machine{
		lab: l, t: t, cap: rapid.IntRange(1, 3).Draw(t, "cap"), booked: map[int64][]*call{},
		policy: rapid.SampledFrom([]engine.OnUnknown{engine.UnknownFails, engine.UnknownResends, engine.UnknownHolds}).Draw(t, "policy"),
	}
	for _, table := range []string{"claims", "unknowns", "attempts", "webhook_events", "recipients", "recipient_params", "campaign_counts", "campaign_numbers", "replays", "campaigns"} {
		l.exec(`DELETE FROM ` + table) // a few rows: much faster than TRUNCATE
	}
	l.exec(`UPDATE number_leases SET released = true, ready_at = now()`)
	l.exec(`UPDATE number_traffic SET heard_at = 'infinity'`) // webhooks are healthy
	l.lease = l.acquire(labNumber)
	n := rapid.IntRange(1, 3).Draw(t, "rows")
	m.c, m.first = l.campaign(n)
	l.exec(`UPDATE campaigns SET on_unknown = $1, max_attempts = $2`, string(m.policy), m.cap)
	for range n {
		m.rows = append(m.rows, &modelRow{tries: map[int]modelTry{}})
	}
	return m
}

// check holds every table to the model.
func (m *machine) check(*rapid.T) {
	want := []string{}
	for i, r := range m.rows {
		want = append(want, r.lines(i)...)
		if r.attempt < 0 || r.attempt > m.cap {
			m.t.Fatalf("row %d: attempt %d of at most %d", i, r.attempt, m.cap)
		}
	}
	for seq := range m.booked {
		want = append(want, fmt.Sprintf("booked %d", seq))
	}
	slices.Sort(want)
	if diff := gocmp.Diff(want, m.state()); diff != "" {
		m.t.Fatalf("the database is not what the rules say (-rules +database):\n%s", diff)
	}
}

func (m *machine) state() []string {
	text := scalar[string](m.lab, `SELECT string_agg(line, E'\n') FROM (
		SELECT format('row %s %s claim %s attempt %s replays %s due %s shows %s', id - $1, status, claim, attempt, replays, (due_at IS NOT NULL)::text, message_id) AS line FROM recipients
		UNION ALL SELECT format('try %s claim %s failed %s message %s', recipient_id - $1, claim, failed::text, message_id) FROM attempts
		UNION ALL SELECT format('unknown %s claim %s', recipient_id - $1, claim) FROM unknowns
		UNION ALL SELECT format('booked %s', seq) FROM claims
		UNION ALL SELECT format('%s %s counted, %s rows', n, status, rows) FROM
			(SELECT status, sum(n) AS n FROM campaign_counts WHERE campaign_id = $2 GROUP BY 1) c
			FULL JOIN (SELECT status, count(*) AS rows FROM recipients GROUP BY 1) r USING (status) WHERE coalesce(n, 0) <> coalesce(rows, 0)) all_lines`, m.first, m.c)
	lines := strings.Split(text, "\n")
	slices.Sort(lines)
	return lines
}

func (m *machine) claimRows(t *rapid.T) { m.take(t, held) }

func (m *machine) loseClaim(t *rapid.T) { m.burned = append(m.burned, m.take(t, lost)) }

// take claims up to two rows, or none with a lease of the past.
func (m *machine) take(t *rapid.T, as stage) (seq int64) {
	ask := m.ask(rapid.IntRange(1, 2).Draw(t, "free"), m.c)
	taken := m.claimed(ask)
	waiting := 0
	for _, r := range m.rows {
		if r.status == engine.Pending {
			waiting++
		}
	}
	if len(taken) != min(ask.Free, waiting) {
		t.Fatalf("claimed %d rows of %d that wait, asked for %d", len(taken), waiting, ask.Free)
	}
	for _, r := range taken {
		i := int(r.ID - m.first)
		if m.rows[i].status != engine.Pending {
			t.Fatalf("claimed row %d, which is %v", i, m.rows[i].status)
		}
		m.rows[i].take()
		c := &call{row: i, claim: int(r.Claim), attempt: r.Attempt, lease: ask.Lease, seq: ask.Seq, due: r.Due, stage: as, replays: m.rows[i].replays}
		for _, o := range m.calls {
			if o.row == i && o.failed && !o.delivered {
				c.over = append(c.over, o)
			}
		}
		m.calls = append(m.calls, c)
		m.booked[ask.Seq] = append(m.booked[ask.Seq], c)
	}
	return ask.Seq
}

func (m *machine) giveBackBurned(t *rapid.T) {
	if _, err := m.GiveBack(t.Context(), m.lease, m.burned); err != nil {
		t.Fatal(err)
	}
	for _, seq := range m.burned {
		for _, c := range m.booked[seq] {
			m.rows[c.row].giveBack(c.claim)
			c.stage = gone
		}
		delete(m.booked, seq)
	}
	m.burned = nil
}

// recordSome writes up to three results of one node, and perhaps loses the
// acknowledgement, so that the same write comes again.
func (m *machine) recordSome(t *rapid.T) {
	some := m.pick(t, 3, func(c *call) bool { return c.stage == answered })
	some = slices.DeleteFunc(some, func(c *call) bool { return c.lease != some[0].lease })
	var results []engine.Result
	for _, c := range some {
		c.stage = done
		results = append(results, c.result)
	}
	var finished []int64
	for _, c := range some {
		if !slices.ContainsFunc(m.booked[c.seq], func(o *call) bool { return o.stage != done }) {
			finished = append(finished, c.seq)
		}
	}
	if err := m.Record(t.Context(), some[0].lease, results, finished); err != nil {
		t.Fatal(err)
	}
	slices.SortStableFunc(some, func(a, b *call) int { return cmp.Or(a.row-b.row, a.claim-b.claim) })
	for _, c := range some {
		m.rows[c.row].answer(c.claim, c.result)
	}
	for _, seq := range finished {
		if some[0].lease == m.lease {
			delete(m.booked, seq)
		}
	}
	if rapid.IntRange(0, 3).Draw(t, "acknowledgement lost") == 0 {
		for _, c := range some {
			c.stage = answered
		}
	}
}

// pick draws between one and n of the calls that match; without any, the step
// is skipped.
func (m *machine) pick(t *rapid.T, n int, match func(*call) bool) []*call {
	var all []*call
	for _, c := range m.calls {
		if match(c) {
			all = append(all, c)
		}
	}
	if len(all) == 0 {
		t.Skip("none")
	}
	some := rapid.Permutation(all).Draw(t, "calls")
	return some[:rapid.IntRange(1, min(n, len(some))).Draw(t, "n")]
}

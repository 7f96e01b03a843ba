package store

import (
	"errors"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/weirhq/weir/engine"
)

// The machine's platform, nodes that die, and operators.

// callPlatform makes the call of a held row: only the lease's owner may. This
// is where a double send would happen.
func (m *machine) callPlatform(t *rapid.T) {
	c := m.pick(t, 1, func(c *call) bool { return c.stage == held && c.lease == m.lease })[0]
	counted := 0
	for _, o := range m.calls {
		if o.row != c.row || o == c {
			continue
		}
		if o.counted && o.replays == c.replays {
			counted++
		}
		// A message that had failed when the row was claimed again, and is
		// delivered while a lane holds it, comes twice: nobody can prevent it.
		lives := o.accepted && (!o.failed || o.delivered) && !o.forced && !slices.Contains(c.over, o)
		if lives && (m.policy != engine.UnknownResends || !o.windowed) {
			t.Fatalf("row %d: sent under claim %d, although the message of claim %d was accepted", c.row, c.claim, o.claim)
		}
	}
	if counted >= m.cap {
		t.Fatalf("row %d: call %d of at most %d", c.row, counted+1, m.cap)
	}
	c.counted = true
	c.stage = answered
	c.result = m.outcome(t, c)
	c.result.Recipient, c.result.Campaign, c.result.Claim, c.result.Seq = m.first+int64(c.row), m.c, int32(c.claim), c.seq
}

func (m *machine) outcome(t *rapid.T, c *call) engine.Result {
	id := message(int64(c.row), int32(c.claim))
	switch rapid.SampledFrom([]string{"accepted", "accepted", "held", "accepted unheard", "rejected", "throttled", "retry", "no answer"}).Draw(t, "outcome") {
	case "accepted":
		c.accepted = true
		return engine.Result{Status: engine.Accepted, MessageID: id}
	case "held":
		c.accepted = true
		return engine.Result{Status: engine.Held, MessageID: id}
	case "accepted unheard":
		c.accepted = true
		return engine.Result{Status: engine.Unknown, Title: "timeout"}
	case "rejected":
		return engine.Result{Status: engine.Failed, Code: 131026, Title: "undeliverable"}
	case "throttled":
		c.counted = false
		return engine.Result{Status: engine.Pending, Code: 130429, Refund: true}
	case "retry":
		if c.attempt >= m.cap {
			return engine.Result{Status: engine.Dead, Code: 503, Title: "attempts"}
		}
		return engine.Result{Status: engine.Pending, Code: 503}
	default:
		return engine.Result{Status: engine.Unknown, Title: "reset"}
	}
}

// returnUnsent is proof that no call was made: by its owner for want of time,
// or by a node that found its lease gone.
func (m *machine) returnUnsent(t *rapid.T) {
	c := m.pick(t, 1, func(c *call) bool { return c.stage == held })[0]
	c.stage = answered
	c.result = engine.Result{
		Recipient: m.first + int64(c.row), Campaign: m.c, Claim: int32(c.claim), Seq: c.seq,
		Status: engine.Pending, Refund: true, KeepDue: true, Due: c.due,
	}
}

// takeOver ends the lease of the present owner, which has died (what it held
// is gone, what it was writing may still commit), or is frozen (it holds on,
// and will find out), or released it in order.
func (m *machine) takeOver(t *rapid.T) {
	how := rapid.SampledFrom([]string{"died", "frozen"}).Draw(t, "how")
	old := m.lease
	mine := func(c *call) bool { return c.lease == old && c.stage != done && c.stage != gone }
	if !slices.ContainsFunc(m.calls, mine) && rapid.Bool().Draw(t, "in order") {
		m.must(m.Release(t.Context(), old))
		m.lease = m.acquire(labNumber)
		return
	}
	m.lease = m.bid(m.expired(labNumber)).Lease
	m.exec(`UPDATE number_leases SET ready_at = now()`)
	m.burned = nil
	for _, c := range m.calls {
		if mine(c) && (c.stage == lost || how == "died" && (c.stage == held || rapid.Bool().Draw(t, "lost with its node"))) {
			c.stage = gone
		}
	}
	m.stale(t, old)
}

// stale tries what the lease of the past may not do any more.
func (m *machine) stale(t *rapid.T, old engine.LeaseID) {
	ask := m.ask(2, m.c)
	ask.Lease = old
	if rows := m.claimed(ask); len(rows) != 0 {
		t.Fatalf("a stale lease claimed %d rows", len(rows))
	}
	if n, err := m.Reclaim(t.Context(), old); n != 0 || !errors.Is(err, engine.ErrNotReady) {
		t.Fatalf("a stale lease reclaimed %d rows, %v", n, err)
	}
	var seqs []int64
	for seq := range m.booked {
		seqs = append(seqs, seq)
	}
	if n, err := m.GiveBack(t.Context(), old, seqs); n != 0 || err != nil {
		t.Fatalf("a stale lease gave back %d rows, %v", n, err)
	}
}

func (m *machine) reclaim(t *rapid.T) {
	if _, err := m.Reclaim(t.Context(), m.lease); err != nil {
		t.Fatal(err)
	}
	for seq, calls := range m.booked {
		if calls[0].lease == m.lease {
			continue
		}
		for _, c := range calls {
			m.rows[c.row].reclaim(c.claim)
		}
		delete(m.booked, seq)
	}
}

// hearSome applies up to three words about accepted messages: late, repeated,
// out of order, some without our callback id.
func (m *machine) hearSome(t *rapid.T) {
	var said []engine.StatusUpdate
	for _, c := range m.pick(t, 3, func(c *call) bool { return c.accepted }) {
		u := engine.StatusUpdate{
			Recipient: m.first + int64(c.row), Claim: int32(c.claim), MessageID: message(int64(c.row), int32(c.claim)), At: time.Now(),
			Status: rapid.SampledFrom([]engine.Status{engine.Held, engine.Sent, engine.Failed, engine.Delivered, engine.Read}).Draw(t, "status"),
		}
		if rapid.IntRange(0, 3).Draw(t, "without our id") == 0 {
			u.Recipient, u.Claim = 0, 0
			u.Phone = scalar[string](m.lab, `SELECT phone FROM recipient_params WHERE id = $1`, m.first+int64(c.row))
		}
		said = append(said, u)
		if rapid.Bool().Draw(t, "and sent before") {
			u.Status = engine.Sent
			said = append(said, u)
		}
	}
	said = engine.Fold(said)
	applied, err := m.ApplyStatuses(t.Context(), said, nil)
	m.must(err)
	if want := m.apply(said); applied.Matched != want {
		t.Fatalf("%d of %d statuses found their row, want %d", applied.Matched, len(said), want)
	}
}

// apply is what the model makes of folded words; it returns how many matched.
func (m *machine) apply(said []engine.StatusUpdate) (matched int) {
	type at struct {
		call *call
		u    engine.StatusUpdate
	}
	var words []at
	for _, u := range said {
		i := slices.IndexFunc(m.calls, func(c *call) bool { return message(int64(c.row), int32(c.claim)) == u.MessageID })
		c := m.calls[i]
		row := m.rows[c.row]
		if u.Recipient == 0 && row.shown != c.claim && !row.tries[c.claim].message {
			m.strays = append(m.strays, u)
			continue
		}
		words = append(words, at{c, u})
	}
	slices.SortStableFunc(words, func(a, b at) int {
		if a.call.row != b.call.row {
			return a.call.row - b.call.row
		}
		return a.call.claim - b.call.claim
	})
	for _, w := range words {
		row, c := m.rows[w.call.row], w.call
		c.failed = c.failed || w.u.Status == engine.Failed
		c.delivered = c.delivered || w.u.Status >= engine.Delivered
		row.hear(c.claim, w.u.Status)
		if w.u.Status > engine.Failed && !w.u.FailedAt.IsZero() {
			row.note(c.claim, func(t *modelTry) { t.message = true })
		}
	}
	return len(words)
}

func (m *machine) retryStrays(t *rapid.T) {
	strays := m.strays
	m.strays = nil
	want := m.apply(strays)
	m.exec(`UPDATE webhook_events SET retry_at = now() WHERE retry_at IS NOT NULL`)
	if n, err := m.RetryUnmatched(t.Context(), 0); n != want || err != nil {
		t.Fatalf("placed %d of %d kept statuses (%v), want %d", n, len(strays), err, want)
	}
}

func (m *machine) windowPasses(t *rapid.T) {
	for _, c := range m.calls {
		row := m.rows[c.row]
		c.windowed = c.windowed || row.status == engine.Unknown && row.doubt == c.claim && row.claim == c.claim
	}
	if _, err := m.ResolveUnknowns(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	for _, r := range m.rows {
		r.decide(m.policy, m.cap)
	}
}

package engine

import (
	"context"
	"errors"
	"slices"
	"time"
)

// Claim commits also when its caller has canceled it: the worst that a real
// one can do.
func (m *memory) Claim(ctx context.Context, ask Ask) ([]Recipient, error) {
	if err := m.begin(context.WithoutCancel(ctx), "claim", ask); err != nil {
		return nil, err
	}
	m.asks = append(m.asks, ask)
	n := m.numbers[ask.Lease.Number]
	var got []Recipient
	if !m.fenced(ask.Lease) && m.cluster == m.confirmed && n.Enabled && !time.Now().Before(n.paused) && m.passes(ask) {
		if ask.Probe != "" {
			ask.Free = min(ask.Free, 1)
		}
		got = m.takeDue(ask)
	}
	return got, errors.Join(m.end("claim", ask), ctx.Err())
}

func (m *memory) takeDue(ask Ask) []Recipient {
	var got []Recipient
	batch := &memBatch{}
	for _, s := range ask.Slices {
		c := m.campaigns[s.Campaign]
		if c == nil || c.halted || (c.Capped && !ask.Capped) || c.pausing || time.Now().Before(c.until) || !slices.Contains(c.Zones, s.Zone) || c.closed(ask.Fresh) {
			continue
		}
		c.delayed = slices.DeleteFunc(c.delayed, func(id int64) bool {
			due := !time.Now().Before(m.row(id).due)
			if due {
				c.due = append(c.due, id)
			}
			return due
		})
		for n := 0; n < s.Share && len(got) < ask.Free && len(c.due) > 0; n++ {
			id := c.next(ask.Probe != "")
			r := m.row(id)
			if time.Now().Before(r.peace) {
				r.due = r.peace
				c.delayed = append(c.delayed, id)
				got = append(got, Recipient{ID: id, Campaign: c.ID, Claim: r.claim, Waiting: true})
				continue
			}
			r.claim++
			out := Recipient{ID: id, Campaign: c.ID, Claim: r.claim, Attempt: r.attempt + 1, Due: r.due, Phone: "+1", Suppressed: r.suppressed}
			got = append(got, out)
			if r.suppressed {
				r.status = Suppressed
				continue
			}
			r.status, r.attempt = Sending, r.attempt+1
			batch.ids, batch.fences, batch.dues = append(batch.ids, id), append(batch.fences, r.claim), append(batch.dues, r.due)
		}
	}
	if len(batch.ids) > 0 {
		m.claims[memClaim{ask.Lease, ask.Seq}] = batch
	}
	return got
}

// next takes who became due last, or for a probe who waits longest.
func (c *memCampaign) next(probe bool) (id int64) {
	if probe {
		id, c.due = c.due[0], c.due[1:]
		return id
	}
	id, c.due = c.due[len(c.due)-1], c.due[:len(c.due)-1]
	return id
}

func (m *memory) GiveBack(ctx context.Context, id LeaseID, seqs []int64) (int, error) {
	if err := m.begin(ctx, "giveback", seqs); err != nil {
		return 0, err
	}
	n := 0
	for _, seq := range seqs {
		k := memClaim{id, seq}
		b := m.claims[k]
		if b == nil || m.numbers[id.Number].lease != id {
			continue
		}
		for i, rid := range b.ids {
			n += m.write(Result{Recipient: rid, Claim: b.fences[i], Status: Pending, Refund: true, KeepDue: true, Due: b.dues[i]})
		}
		delete(m.claims, k)
	}
	return n, m.end("giveback", seqs)
}

func (m *memory) Record(ctx context.Context, id LeaseID, results []Result, done []int64) error {
	if err := m.begin(ctx, "record", results); err != nil {
		return err
	}
	m.records++
	m.biggest = max(m.biggest, len(results))
	m.unsorted = m.unsorted || !slices.IsSortedFunc(results, func(a, b Result) int { return int(a.Recipient - b.Recipient) })
	for _, r := range results {
		m.write(r)
	}
	for _, seq := range done {
		k := memClaim{id, seq}
		b := m.claims[k]
		if b == nil || m.numbers[id.Number].lease != id {
			continue
		}
		for i, rid := range b.ids {
			if r := m.row(rid); r.status == Sending && r.claim == b.fences[i] {
				m.doneEarly = append(m.doneEarly, seq)
			}
		}
		delete(m.claims, k)
	}
	return m.end("record", results)
}

// write is one result, fenced by the row's claim unless it is a fact.
func (m *memory) write(r Result) int {
	row := m.row(r.Recipient)
	if r.Status == Accepted || r.Status == Held {
		row.messages = append(row.messages, r.MessageID)
		slices.Sort(row.messages)
		row.messages = slices.Compact(row.messages)
	}
	if row.claim != r.Claim || (row.status != Sending && row.status != Unknown) {
		return 0
	}
	row.status, row.code = r.Status, r.Code
	if r.Status != Pending {
		return 1
	}
	if r.Refund {
		row.attempt--
	}
	c := m.campaigns[r.Recipient/10_000_000]
	row.due = r.Due
	if !r.KeepDue {
		row.due = time.Now().Add(r.Delay)
	}
	c.delayed = append(c.delayed, r.Recipient)
	return 1
}

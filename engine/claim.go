package engine

import (
	"context"
	"slices"
	"time"
)

// claim asks for rows, as a probe when it has a permit, and hands them out. It
// reports how many it took, the suppressed too, and how many it handed out. The
// call outlives a shutdown, or it might take rows that nobody then knows of; its
// rows are given back.
func (c *claimer) claim(ctx context.Context, ask Ask, p *permit) (took, handed int) {
	seq, ok := c.guard.claim()
	if !ok {
		return 0, 0
	}
	ask.Lease, ask.Seq, ask.Slices = c.lease, seq, c.turns.slices(c.current.Campaigns, seq, ask.Free)
	ask.Fresh = claimFresh
	ask.Capped = slices.ContainsFunc(c.current.Campaigns, func(k Campaign) bool { return k.Capped })
	sent := clocks()
	c.askedAt = sent.wall
	call, cancel := context.WithTimeout(context.WithoutCancel(ctx), claimCall)
	defer cancel()
	claimed, err := c.opts.Store.Claim(call, ask)
	observe(c.metrics.claim, sent.wall)
	c.strain.took(time.Since(sent.wall), err)
	if err != nil {
		// It may have committed all the same. Its rows are never used, only
		// given back by their seq; a late reply is not looked at.
		c.log.Warn("claim failed; its rows, if any, are given back", "seq", seq, "err", err)
		c.burned[seq] = time.Now()
		c.empty = true
		return 0, 0
	}
	c.claims.add(time.Since(sent.wall))
	c.turns.took(ask.Slices, seq, ask.Free, claimed)
	c.metrics.claimed.Add(float64(len(claimed)))
	if len(claimed) == 0 && !c.empty {
		c.readAt = time.Time{} // what there was to claim may have been paused
	}
	c.empty = len(claimed) == 0 // a claim that took rows, suppressed ones too, is repeated at once
	by := sent.add(claimFresh)
	if p != nil && p.by.before(by) {
		by = p.by
	}
	rows := c.take(claimed, seq, by, p)
	c.handOut(rows)
	return len(claimed), len(rows)
}

// take makes rows of what a claim returned; the suppressed are settled already,
// and those that must wait are pending again.
func (c *claimer) take(claimed []Recipient, seq int64, by instant, p *permit) []*row {
	rows := make([]*row, 0, len(claimed))
	for _, r := range claimed {
		if r.Suppressed || r.Waiting {
			continue
		}
		taken := &row{Recipient: r, seq: seq, by: by, permit: p}
		i := slices.IndexFunc(c.current.Campaigns, func(k Campaign) bool { return k.ID == r.Campaign })
		if i >= 0 {
			taken.template, taken.retry = c.current.Campaigns[i].Template, c.current.Campaigns[i].Retry
		}
		rows = append(rows, taken)
	}
	c.writer.expect(seq, len(rows))
	c.hand.add(rows)
	return rows
}

// handOut gives each row to a free sender.
func (c *claimer) handOut(rows []*row) {
	for _, r := range rows {
		if c.free == 0 || r.template == nil {
			c.returnRow(r) // more than was asked for, or of another campaign
			continue
		}
		c.free--
		c.work <- r
	}
}

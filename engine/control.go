package engine

import (
	"context"
	"slices"
)

// obey gives back what has not begun of campaigns that pause or are canceled.
// Nothing of them is claimed from here on, unless they are resumed: every claim
// reads their state, and none is under way while the claimer is here.
func (c *claimer) obey() {
	if len(c.current.Controls) == 0 {
		return
	}
	c.drop(func(r *row) bool {
		return slices.ContainsFunc(c.current.Controls, func(k Control) bool { return k.Campaign == r.Campaign })
	})
}

// acknowledge says of which of these campaigns nothing can go out any more.
// What it promises is silence, so it waits for what could still reach the
// platform and for nothing else:
//
//   - not for a claim: the claimer is here, and not in one. A claim that failed
//     and committed all the same is burned, its rows are never sent;
//   - not for results to be written: their calls are answered;
//   - not for a call that hangs beyond its last moment to be delivered.
//
// It holds for as long as the version stands, because only a resume lets
// anything be claimed again, and a resume has another. So an ack that comes late
// is void, and one that failed is sent again when the next look names it again.
func (c *claimer) acknowledge(ctx context.Context) {
	c.current.Controls = slices.DeleteFunc(c.current.Controls, func(k Control) bool {
		now := clocks()
		if !c.trust.holds(now) || !c.hand.quiet(k.Campaign, now, c.opts.Quarantine) {
			return false
		}
		call, cancel := context.WithTimeout(ctx, controlCall)
		defer cancel()
		err := c.opts.Store.Acknowledge(call, Ack{Control: k, Lease: c.lease, Quarantine: c.opts.Quarantine})
		switch {
		case err == nil:
			c.log.Info("campaign stands still here: nothing of it can go out any more", "campaign", k.Campaign)
		case ctx.Err() == nil:
			c.log.Warn("pause or cancel not acknowledged yet; trying again", "campaign", k.Campaign, "err", err)
		}
		return true
	})
}

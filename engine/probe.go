package engine

import (
	"context"
	"time"
)

// probe goes for the one probe of the fleet, once its time has come: one row,
// claimed with the permit's token, that takes the way of any other.
func (c *claimer) probe(ctx context.Context) {
	c.empty = false // once it closes, look at once
	if c.apart(ctx) {
		return
	}
	scope, wait := c.fuse.probeable(time.Now())
	if wait == 0 {
		wait = c.unready()
	}
	if wait > 0 {
		most := workEvery
		if len(c.current.Controls) > 0 {
			most = linger // a pause waits for calls to end
		}
		c.sleep(ctx, min(wait, most))
		return
	}
	p := c.permit(ctx, scope)
	if p == nil {
		c.sleep(ctx, jittered(idlePoll))
		return
	}
	c.sendProbe(ctx, p)
}

// apart waits while this node's own breaker lets nothing through, and makes its
// trial: the fleet gives no permit for it, since nobody else's calls depend on
// it. false: the breaker is the fleet's.
func (c *claimer) apart(ctx context.Context) bool {
	out := c.fuse.out
	if out.passes(time.Now()) {
		return false
	}
	if out.state() == BreakerHalfOpen {
		if closed, _ := c.fuse.fleet(); !closed {
			return false // the fleet's probe is a trial as well
		}
		if c.unready() == 0 && out.trial() {
			c.sendProbe(ctx, &permit{scope: LocalScope, by: clocks().add(claimFresh)})
		}
	}
	c.sleep(ctx, linger)
	return true
}

// sendProbe claims one row for a permit and hands it out.
func (c *claimer) sendProbe(ctx context.Context, p *permit) {
	took, handed := 1, 0
	for took > 0 && handed == 0 && clocks().before(p.by) && ctx.Err() == nil { // opt-outs are no probe
		took, handed = c.claim(ctx, Ask{Free: 1, Probe: p.token}, p)
	}
	if handed == 0 {
		c.fuse.probed(p, ProbeUnused)
	}
}

// unready is how long until a row could be sent at once.
func (c *claimer) unready() time.Duration {
	c.collect()
	if c.free == 0 {
		return linger
	}
	_, wait := c.bucket.room(time.Now(), 0)
	return wait
}

// permit asks for the probe of a scope; nil is no. Its call is begun early
// enough to have left the wire for good before the permit runs out, so that two
// probes are never under way at once.
func (c *claimer) permit(ctx context.Context, scope string) *permit {
	const begun = claimFresh + 2*controlCall // from asking for the permit to writing the call
	sent := clocks()
	call, cancel := context.WithTimeout(context.WithoutCancel(ctx), controlCall)
	defer cancel()
	token, err := c.opts.Store.TakePermit(call, PermitAsk{Scope: scope, Lease: c.lease, For: begun + c.opts.Reach})
	if err != nil {
		c.log.Warn("no answer whether this lane may probe; if it may, its permit runs out", "scope", scope, "err", err)
		return nil
	}
	if token == "" {
		return nil
	}
	c.log.Info("probing", "scope", scope)
	return &permit{scope: scope, token: token, asked: sent.wall, by: sent.add(begun)}
}

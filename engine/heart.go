package engine

import (
	"context"
	"time"
)

// beat renews all leases in one call, at every heartbeat: at once when the node
// starts, and once more when it is asked to leave, so that the others know
// what their shares are before its numbers are free.
func (n *Node) beat(ctx context.Context, leave <-chan struct{}) {
	leaving := false
	n.renew(ctx, leaving)
	tick := time.NewTicker(n.opts.Heartbeat)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			n.renew(ctx, leaving)
		case <-leave:
			leave, leaving = nil, true
			n.renew(ctx, leaving)
			close(n.left)
		case <-ctx.Done():
			return
		}
	}
}

// renew moves trust forward from the instant the heartbeat was sent, and ends
// the lanes whose leases the answer leaves out. While there is no answer, trust
// runs out by itself and nothing else changes: lanes keep what they know and go
// on if the lease turns out to be theirs still.
func (n *Node) renew(ctx context.Context, leaving bool) {
	leases := n.leases()
	sent := time.Now()
	call, cancel := context.WithTimeout(ctx, n.opts.CallTimeout)
	defer cancel()
	pulse, err := n.opts.Store.Heartbeat(call, Beat{Node: n.opts.ID, TTL: n.opts.TTL, Leases: leases, Leaving: leaving})
	if err != nil {
		if ctx.Err() == nil {
			n.log.Warn("heartbeat failed; sending goes on while the leases are trusted", "leases", len(leases), "err", err)
		}
		return
	}
	alive := make(map[LeaseID]bool, len(pulse.Held))
	for _, id := range pulse.Held {
		alive[id] = true
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, id := range leases {
		h := n.held[id.Number]
		switch {
		case h == nil || h.lease != id: // released meanwhile
		case alive[id]:
			h.trust.extend(sent.Add(n.opts.TTL - n.opts.Margin))
		default:
			h.end(errLeaseLost)
		}
	}
}

func (n *Node) leases() []LeaseID {
	n.mu.Lock()
	defer n.mu.Unlock()
	ids := make([]LeaseID, 0, len(n.held))
	for _, h := range n.held {
		ids = append(ids, h.lease)
	}
	return ids
}

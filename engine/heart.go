package engine

import (
	"context"
	"slices"
	"time"
)

// clocksEvery is how often a node looks whether its clocks have parted.
const clocksEvery = jumpMost

// beat renews all leases in one call, at every heartbeat: at once when the node
// starts, when its clocks have parted (it may send nothing until it has), when it
// can reach the platform no more or again, and when it is asked to leave, so that
// the others know what their shares are before its numbers are free.
func (n *Node) beat(ctx context.Context, leave <-chan struct{}) {
	leaving := false
	n.renew(ctx, leaving)
	tick := time.NewTicker(n.opts.Heartbeat)
	defer tick.Stop()
	look := time.NewTicker(clocksEvery)
	defer look.Stop()
	for {
		select {
		case <-tick.C:
			n.renew(ctx, leaving)
		case <-look.C:
			if gap := n.parted(clocks()); gap > jumpMost {
				n.log.Warn("this machine's clocks have parted: it slept, was restored, or a clock was set; nothing is sent until the next heartbeat", "by", gap)
				n.renew(ctx, leaving)
			}
		case <-n.board.out.news:
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
	sent := clocks()
	leases := n.begin(sent)
	call, cancel := context.WithTimeout(ctx, n.opts.CallTimeout)
	defer cancel()
	pulse, err := n.opts.Store.Heartbeat(call, Beat{
		Node: n.opts.ID, TTL: n.opts.TTL, Leases: leases, Leaving: leaving, Apart: n.board.out.state() == BreakerOpen,
	})
	observe(n.stats.beat, sent.wall)
	if err != nil {
		if ctx.Err() == nil {
			n.log.Warn("heartbeat failed; sending goes on while the leases are trusted", "leases", len(leases), "err", err)
		}
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.moved(pulse.Cluster) {
		return
	}
	for _, id := range leases {
		h := n.held[id.Number]
		switch {
		case h == nil || h.lease != id: // released meanwhile
		case slices.Contains(pulse.Held, id):
			h.trust.extend(sent, n.opts.TTL-n.opts.Margin)
		default:
			h.lose()
		}
	}
}

// moved reports whether another database answers than the one before: a standby
// that was promoted, or a backup that was restored. It may have forgotten claims
// whose messages are out and grants that others rely on, so what it says of our
// leases proves nothing, and each counts as lost. Nothing is claimed from it
// until an operator has vouched for it: the claim statement sees to that, for
// nodes that have never seen the old one too. n.mu is held.
func (n *Node) moved(cluster string) bool {
	old := n.cluster
	n.cluster = cluster
	if old == "" || old == cluster {
		return false
	}
	n.log.Error("the database is another than before: a fail-over or a restore, which may have forgotten what was sent; "+
		"nothing more is sent until an operator has looked at it and runs: weir database confirm",
		"before", old, "now", cluster, "leases_lost", len(n.held))
	for _, h := range n.held {
		h.lose()
	}
	return true
}

// begin notes that a heartbeat is being sent and lists the leases to renew.
func (n *Node) begin(sent instant) []LeaseID {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.sent = sent
	ids := make([]LeaseID, 0, len(n.held))
	for _, h := range n.held {
		if !h.lost {
			ids = append(ids, h.lease)
		}
	}
	return ids
}

// parted is by how much the clocks disagree about the last heartbeat's age.
func (n *Node) parted(now instant) time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	return now.parted(n.sent)
}

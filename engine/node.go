package engine

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"
)

// Node takes numbers that need an owner and runs a lane for each. Any number
// of nodes on one database are a fleet. Run it once.
type Node struct {
	opts    Options
	metrics *metrics // by number
	stats   *nodeMetrics
	log     *slog.Logger
	board   *board
	watches map[string]watch // by number; touched only by Run's goroutine, as shy
	shy     shy
	lanes   sync.WaitGroup
	left    chan struct{} // closed once the fleet has been told that this node leaves

	mu      sync.Mutex
	held    map[string]*holding // by number
	sent    instant             // when the last heartbeat was sent
	cluster string              // which database answered it
}

// holding is a lease of this node's.
type holding struct {
	lease  LeaseID
	trust  trust
	end    context.CancelCauseFunc // ends the lane
	lane   *lane                   // nil until it runs; guarded by Node.mu
	ending bool                    // it only drains; guarded by Node.mu, as lost
	lost   bool                    // it drains because it is another's
}

// stop ends the lane, which releases the lease once it has drained. Node.mu is
// held.
func (h *holding) stop(why error) {
	h.ending = true
	h.end(why)
}

// lose ends the lane of a lease that is another's, at once: not even a call
// that is being dialed may be written. What was written is still waited for,
// and its answer recorded. Node.mu is held.
func (h *holding) lose() {
	h.lost = true
	h.trust.revoke()
	h.stop(errLeaseLost)
}

// NewNode checks the options; its error says which ones do not fit together.
func NewNode(o Options) (*Node, error) {
	o = o.withDefaults()
	if err := o.validate(); err != nil {
		return nil, err
	}
	m, err := newMetrics(o.Registry)
	if err != nil {
		return nil, err
	}
	stats, err := newNodeMetrics(o.Registry)
	if err != nil {
		return nil, err
	}
	board := newBoard(o)
	board.out.stats = stats.local
	return &Node{
		opts: o, metrics: m, stats: stats, log: o.Logger, board: board,
		watches: make(map[string]watch), shy: make(shy), held: make(map[string]*holding), left: make(chan struct{}),
	}, nil
}

// Run owns numbers and sends until ctx ends. Then it tells the fleet that it
// leaves, drains every lane (calls are answered and recorded, which takes at
// most the sender's timeouts and FlushTimeout), releases the leases and returns
// nil.
func (n *Node) Run(ctx context.Context) error {
	// Heartbeats go on while lanes drain: their last results need the lease.
	beating, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var beats sync.WaitGroup
	beats.Go(func() { n.beat(beating, ctx.Done()) })
	beats.Go(func() { n.board.run(beating) })

	for ctx.Err() == nil {
		pause(ctx, n.look(ctx))
	}
	<-n.left
	n.lanes.Wait()
	stop()
	beats.Wait()
	return nil
}

// acquire bids for a number and, if it is granted, starts its lane.
func (n *Node) acquire(ctx context.Context, seen Candidate) {
	sent := clocks()
	call, cancel := context.WithTimeout(context.WithoutCancel(ctx), n.opts.CallTimeout)
	defer cancel()
	grant, err := n.opts.Store.Acquire(call, Bid{
		Node: n.opts.ID, Seen: seen, TTL: n.opts.TTL, Quarantine: n.opts.Quarantine,
	})
	if errors.Is(err, ErrLeaseTaken) {
		return
	}
	w := n.watches[seen.Number]
	w.asked = err != nil
	n.watches[seen.Number] = w
	if err != nil {
		n.log.Warn("lease not acquired; trying again", "number", seen.Number, "err", err)
		return
	}
	own, end := context.WithCancelCause(ctx)
	h := &holding{lease: grant.Lease, end: end}
	h.trust.extend(sent, n.opts.TTL-n.opts.Margin)
	n.mu.Lock()
	n.held[seen.Number] = h
	n.mu.Unlock()
	n.lanes.Go(func() { n.own(own, h, grant.Ready) })
}

// decline gives back a lease that was granted to a bid whose answer got lost.
// Nothing has ever been done under it, and until it ran out and its quarantine
// were over the number would have no owner.
func (n *Node) decline(c Candidate) {
	w := n.watches[c.Number]
	if w.asked && c.Holder == n.opts.ID && c.LeaseID != w.seen.LeaseID && !n.holds(c.Number) {
		n.release(LeaseID{Number: c.Number, ID: c.LeaseID}, n.log.With("number", c.Number, "lease", c.LeaseID))
	}
}

// own is a lease's life: quarantine, reclaim, lane, release.
func (n *Node) own(ctx context.Context, h *holding, ready time.Duration) {
	defer h.end(nil)
	number, log := h.lease.Number, n.log.With("number", h.lease.Number, "lease", h.lease.ID)
	m := n.metrics.lane(number)
	m.owned.Set(1)
	if ready > 0 {
		log.Info("number leased; waiting out the last owner's quarantine", "wait", ready)
		pause(ctx, ready)
	}
	if n.reclaim(ctx, h.lease, log) {
		log.Info("lane starts")
		n.runLane(ctx, h, m)
	}
	why := context.Cause(ctx)
	log.Info("lane ended", "err", why)
	if !n.hasLost(h) {
		if !errors.Is(why, errIdle) && !errors.Is(why, errShare) {
			<-n.left // or others would count this node when they share its numbers out
		}
		n.release(h.lease, log)
	}
	n.mu.Lock()
	delete(n.held, number)
	n.metrics.forget(number)
	n.mu.Unlock()
}

// hasLost reports whether a lease is another's: its lane may have been ended
// for another reason before.
func (n *Node) hasLost(h *holding) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return h.lost
}

func (n *Node) runLane(ctx context.Context, h *holding, m *laneMetrics) {
	l := newLane(n.opts, h.lease, &h.trust, m)
	n.board.join(l.fuse)
	defer n.board.leave(l.fuse)
	n.mu.Lock()
	h.lane = l
	n.mu.Unlock()
	l.run(ctx)
}

// reclaim turns what dead owners left into unknown, before anything is
// claimed; false when ctx ended first. A fence that is shut is no success: a
// lease that ran out while Postgres was away comes back to life with the next
// heartbeat, and a lane that had started by then would never look again.
func (n *Node) reclaim(ctx context.Context, lease LeaseID, log *slog.Logger) bool {
	for failures := 1; ctx.Err() == nil; failures++ {
		call, cancel := context.WithTimeout(ctx, recordCall)
		rows, err := n.opts.Store.Reclaim(call, lease)
		cancel()
		if err == nil {
			n.stats.reclaimed.Add(float64(rows))
			if rows > 0 {
				log.Warn("rows of a dead owner are unknown now", "rows", rows)
			}
			return ctx.Err() == nil
		}
		if ctx.Err() == nil {
			log.Warn("rows of dead owners not reclaimed yet; trying again", "err", err)
		}
		pause(ctx, time.Duration(rand.Float64()*window(retryLeast, retryMost, failures)))
	}
	return false
}

// release gives the lease back, so that the next owner need not wait for it
// to run out. When that fails it runs out. It has more time than other calls:
// all lanes of a node that ends release at once, over few connections.
func (n *Node) release(lease LeaseID, log *slog.Logger) {
	call, cancel := context.WithTimeout(context.Background(), 3*n.opts.CallTimeout)
	defer cancel()
	if err := n.opts.Store.Release(call, lease); err != nil {
		log.Warn("lease not released; it runs out by itself", "err", err)
	}
}

// jittered is d ± 20 %, so that a fleet does not beat in step.
func jittered(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (0.8 + 0.4*rand.Float64()))
}

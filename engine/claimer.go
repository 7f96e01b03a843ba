package engine

import (
	"context"
	"maps"
	"slices"
	"time"
)

const (
	claimFresh   = 2 * time.Second        // T_claim: a row whose call has not begun by then is given back
	claimCall    = claimFresh             // timeout of a claim; a later reply would be of no use
	claimMost    = 500                    // rows of one claim; the statement's own literal limit
	controlCall  = time.Second            // timeout of the small calls: work, give back, restrain
	workEvery    = time.Second            // how often settings and campaigns are read
	linger       = 100 * time.Millisecond // how long a claim waits for more free senders
	horizon      = 250 * time.Millisecond // how much work is claimed ahead of the bucket
	idlePoll     = 500 * time.Millisecond // after a claim that found nothing; ± 20 %
	burnedEvery  = time.Second            // how often burned claims are given back
	restrainPoll = time.Second            // between tries to write a restraint

	// burnedFor is how long a failed claim may still commit. A kernel goes on
	// for two minutes to deliver what a connection that was given up had been
	// told to send, and the statement itself has its timeout.
	burnedFor = 5 * time.Minute
)

// claimer takes rows for a lane's free senders. All its fields are touched by
// its own goroutine only.
type claimer struct {
	*lane
	turns   turns
	claims  sample // durations of claim calls
	current Work
	readAt  time.Time // when current was read; zero = never
	askedAt time.Time // when the last claim was sent
	free    int       // senders that said they are free and have no row
	running int       // senders
	empty   bool      // the last claim found nothing
	stage   int       // of the way back from an opening that the bucket is fit for

	burned   map[int64]time.Time // failed claim → when
	burnedAt time.Time           // last give-back of burned claims
}

func newClaimer(l *lane) *claimer {
	return &claimer{lane: l, burned: make(map[int64]time.Time)}
}

// run claims until ctx ends.
func (c *claimer) run(ctx context.Context) {
	for ctx.Err() == nil {
		now := clocks()
		c.drop(func(r *row) bool { return !now.before(r.by) })
		if !c.restrain(ctx) {
			pause(ctx, restrainPoll) // unwritten, it would not hold for the rows that come
			continue
		}
		c.refresh(ctx)
		c.acknowledge(ctx)
		if time.Since(c.burnedAt) >= burnedEvery {
			c.giveBackBurned(ctx)
		}
		if !c.gather(ctx) {
			continue
		}
		if n := c.size(ctx); n > 0 {
			c.claim(ctx, Ask{Free: n}, nil)
		}
	}
}

// refresh reads settings and campaigns when they are old, and fits the bucket
// and the senders to them. When it cannot, the old ones go on: the claim
// statement reads the truth anyway.
func (c *claimer) refresh(ctx context.Context) {
	if time.Since(c.readAt) < workEvery {
		if _, stage := c.fuse.standing(); stage != c.stage {
			c.suit(ctx)
		}
		return
	}
	call, cancel := context.WithTimeout(ctx, controlCall)
	defer cancel()
	work, err := c.opts.Store.Work(call, c.lease)
	if err != nil {
		if ctx.Err() == nil {
			c.log.Warn("settings not read; the old ones stand", "err", err)
		}
		c.readAt = time.Now().Add(-workEvery / 2) // again in half the time
		return
	}
	now := time.Now()
	work.Number = c.guard.read(work.Number, now)
	c.current, c.readAt = work, now
	if work.Number.Paused > 0 {
		c.bucket.pause(now, work.Number.Paused)
	}
	c.metrics.configured.Set(work.Number.Rate())
	c.suit(ctx)
	c.idle.Store(len(work.Campaigns) == 0 && c.writer.outstanding() == 0)
	c.obey()
}

// suit fits the bucket and the senders to the pace that holds now.
func (c *claimer) suit(ctx context.Context) {
	_, c.stage = c.fuse.standing()
	rate := c.fit(time.Now())
	c.metrics.effective.Set(rate)
	c.resize(ctx, rate)
}

// resize starts senders, or sends free ones home.
func (c *claimer) resize(ctx context.Context, rate float64) {
	feed := linger + 2*c.claims.p95(0) // a row waits for its claim while the rows of the one before are sent
	want := sendersFor(rate, c.calls.p95(firstLatency), feed, c.opts.MaxSenders)
	for ; c.running < want; c.running++ {
		c.senders.Go(func() { c.send(ctx) })
	}
	c.collect()
	for ; c.running > want && c.free > 0; c.running-- {
		c.work <- nil
		c.free--
	}
	c.metrics.senders.Set(float64(c.running))
}

// collect counts the senders that have become free.
func (c *claimer) collect() {
	for {
		select {
		case <-c.demand:
			c.free++
		default:
			return
		}
	}
}

// gather waits until there are senders to claim for: until half of those that
// are not in a call have no row, or the linger is over. Claims stay batches that
// way, no row is claimed that nobody could send, and the other half's rows last
// until the claim is back. false: look around first.
func (c *claimer) gather(ctx context.Context) bool {
	if !c.trust.holds(clocks()) || !c.sendable() {
		c.sleep(ctx, linger)
		return false
	}
	if closed, stage := c.fuse.standing(); !closed || stage != c.stage {
		if !closed {
			c.probe(ctx)
		}
		return false // a new stage: the bucket is not fit for it yet
	}
	wait := linger
	if c.empty && len(c.current.Controls) == 0 {
		wait = jittered(idlePoll)
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for c.empty || c.free < max(c.running/8, c.hand.len()) || c.free == 0 {
		select {
		case <-c.demand:
			c.free++
		case <-timer.C:
			return c.free > 0
		case <-c.wake:
			return false
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// sendable reports whether there is anything to ask for.
func (c *claimer) sendable() bool {
	n := c.current.Number
	return n.Enabled && n.Rate() > 0 && len(c.current.Campaigns) > 0
}

// sleep waits for d, a restraint, or the end.
func (c *claimer) sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-c.wake:
	case <-ctx.Done():
	}
}

// size is how many rows to ask for: no more than senders are free, than tokens
// come due within the horizon, than results may be outstanding. When it is
// none, size sleeps until that may have changed.
func (c *claimer) size(ctx context.Context) int {
	ahead := min(max(horizon, 2*(linger+c.claims.p95(0))), claimFresh/2)
	room, wait := c.bucket.room(time.Now(), ahead)
	// What may be outstanding is T_claim's worth of work, or what the senders
	// and two batches hold when calls are slower than that.
	// Both are cut while Postgres is slow, down to one batch.
	rate, _ := c.guard.pace(time.Now())
	batch := max(16, int(rate*horizon.Seconds()))
	most := c.strain.part(max(16, int(rate*claimFresh.Seconds()), c.running+int(rate/2)), batch)
	open := room - c.hand.len()
	n := min(c.free, open, most-c.writer.outstanding(), c.strain.part(int(rate*ahead.Seconds())+batch, batch), c.fresh(rate), claimMost)
	if n <= 0 {
		c.sleep(ctx, min(max(wait, linger/4), workEvery))
		return 0
	}
	// More senders than work: the bucket is what holds claims back, and it
	// opens a row at a time. Let a batch of them come due.
	if rest := linger - time.Since(c.askedAt); rest > 0 && open < c.free && open < int(rate*linger.Seconds()) {
		c.sleep(ctx, rest)
		return 0
	}
	return n
}

// fresh is how many rows can have a token before they are too old to be sent: a
// slow claim brings them old already, and the others would only be given back.
func (c *claimer) fresh(rate float64) int {
	return max(1, int(rate*(claimFresh-c.claims.p95(0)).Seconds()))
}

// giveBackBurned returns the rows of claims that failed and committed all the
// same; false when that was not possible. A seq stays on the list for as long as
// its statement might still run.
func (c *claimer) giveBackBurned(ctx context.Context) bool {
	if len(c.burned) == 0 {
		return true
	}
	c.burnedAt = time.Now()
	seqs := slices.Sorted(maps.Keys(c.burned))
	call, cancel := context.WithTimeout(context.WithoutCancel(ctx), controlCall)
	defer cancel()
	n, err := c.opts.Store.GiveBack(call, c.lease, seqs)
	if err != nil {
		c.log.Warn("rows of failed claims not given back yet; trying again", "err", err)
		return false
	}
	if n > 0 {
		c.log.Info("rows of failed claims given back", "rows", n)
	}
	for seq, at := range c.burned {
		if c.burnedAt.Sub(at) > burnedFor {
			delete(c.burned, seq)
		}
	}
	return true
}

// restrain writes what answers have ordered; false when that was not possible.
func (c *claimer) restrain(ctx context.Context) bool {
	for {
		r, ok := c.guard.next()
		if !ok {
			return true
		}
		call, cancel := context.WithTimeout(context.WithoutCancel(ctx), controlCall)
		err := c.opts.Store.Restrain(call, r)
		cancel()
		if err != nil {
			c.log.Warn("restraint not written yet; nothing is claimed until it is", "code", r.Code, "err", err)
			return false
		}
		c.guard.written()
		c.readAt = time.Time{} // read what it changed before asking again
	}
}

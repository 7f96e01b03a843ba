package engine

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// lane is the pipeline of one leased number: one claimer, senders, one writer.
// Rows flow one way through it. A row leaves the claimer only into the hands of
// a free sender, and every row that comes in goes out as one result.
type lane struct {
	opts    Options
	lease   LeaseID
	trust   *trust
	log     *slog.Logger
	metrics *laneMetrics

	bucket *bucket
	guard  *guard
	fuse   *fuse
	hand   *hand
	writer *writer
	calls  sample // durations of calls
	strain strain // of Postgres, by the durations of claims and writes

	demand  chan struct{} // a sender is free; capacity: the most senders there can be
	work    chan *row     // unbuffered, to a free sender; nil sends it home
	wake    chan struct{} // capacity 1: the claimer has a restraint to write, or a breaker has moved
	senders sync.WaitGroup

	idle atomic.Bool // no running campaign, nothing outstanding
}

func newLane(o Options, lease LeaseID, t *trust, m *laneMetrics) *lane {
	l := &lane{
		opts: o, lease: lease, trust: t, metrics: m,
		log:    o.Logger.With("number", lease.Number),
		bucket: newBucket(0, 1, time.Now()),
		guard:  newGuard(o.Policy, lease.Number),
		fuse:   newFuse(o.Breaker, lease),
		hand:   newHand(),
		demand: make(chan struct{}, o.MaxSenders),
		work:   make(chan *row),
		wake:   make(chan struct{}, 1),
	}
	l.writer = newWriter(l)
	l.fuse.changed = l.refuse
	return l
}

// run sends until ctx ends and then drains in the data's order: it stops
// claiming, rows still waiting are given back, senders finish their calls, the
// last results are written, then restraints, then burned claims are given back.
func (l *lane) run(ctx context.Context) {
	flush, giveUp := context.WithCancel(context.WithoutCancel(ctx))
	defer giveUp()
	var writing sync.WaitGroup
	writing.Go(func() { l.writer.run(flush) })

	c := newClaimer(l)
	c.run(ctx)
	close(l.work)
	l.senders.Wait()

	bound := time.AfterFunc(l.opts.FlushTimeout, giveUp)
	defer bound.Stop()
	l.writer.close()
	writing.Wait()
	persist(flush, func() bool { return c.restrain(flush) })
	persist(flush, func() bool { return c.giveBackBurned(flush) })
}

// persist tries until it is done or ctx ends, once at least.
func persist(ctx context.Context, done func() bool) {
	for !done() && ctx.Err() == nil {
		pause(ctx, retryMost)
	}
}

// send is one sender: it says that it is free, takes a row, brings it to its
// result, and goes on until it is sent home.
func (l *lane) send(ctx context.Context) {
	for {
		l.demand <- struct{}{}
		r := <-l.work
		if r == nil {
			return
		}
		l.bring(ctx, r)
	}
}

// bring takes a row from claimed to its result.
func (l *lane) bring(ctx context.Context, r *row) {
	start := time.Now()
	err := l.bucket.wait(ctx, r.by.wall)
	if err != nil || !l.begin(r) {
		l.returnRow(r)
		return
	}
	begun := time.Now()
	l.metrics.wait.Observe(begun.Sub(start).Seconds())
	l.metrics.inFlight.Inc()
	out := l.fuse.out.begin(begun)
	// The call outlives a shutdown: its answer is a fact that must be kept.
	a := l.opts.Sender.Send(context.WithoutCancel(ctx), l.message(r))
	l.fuse.out.end(out, a, time.Now())
	l.hand.answered(r)
	l.metrics.inFlight.Dec()
	l.calls.add(time.Since(begun))
	l.settle(r, l.react(r, begun, a))
}

func (l *lane) message(r *row) Message {
	return Message{
		Number: l.lease.Number, Recipient: r.ID, Claim: r.Claim,
		To: r.Phone, Template: r.template, Values: r.Values,
		Fence: func() error { return l.gate(r) },
	}
}

// gate is the one check of whether this lane may still send a row: its lease
// is trusted, its claim is fresh, and its breakers let it through.
func (l *lane) gate(r *row) error {
	if now := clocks(); !l.trust.holds(now) || !now.before(r.by) || !l.fuse.allows(r.permit) {
		return errFenced
	}
	return nil
}

// begin makes the row its sender's own, unless it may no longer be sent.
func (l *lane) begin(r *row) bool {
	return l.gate(r) == nil && l.guard.allows(r) && l.hand.begin(r)
}

// returnRow gives a row back unsent, unless someone else has.
func (l *lane) returnRow(r *row) {
	if !r.giveBack() {
		return
	}
	l.hand.remove(r)
	l.settle(r, Answer{Action: Release})
}

// drop gives back the matching rows that have not begun.
func (l *lane) drop(match func(*row) bool) {
	for _, r := range l.hand.drop(match) {
		l.settle(r, Answer{Action: Release})
	}
}

// refuse gives back what the breakers do not let through any more, and has the
// claimer look at them.
func (l *lane) refuse() {
	l.drop(func(r *row) bool { return !l.fuse.allows(r.permit) })
	signal(l.wake)
}

func (l *lane) settle(r *row, a Answer) {
	if r.permit != nil {
		l.fuse.probed(r.permit, a.probeEnd())
	}
	res := l.opts.Policy.Settle(r.Recipient, r.retry, a, rand.Float64())
	res.Seq = r.seq
	l.writer.add(res)
}

// react does what an answer means for the other rows, and returns it as it is
// to be settled: the only feedback in memory is a pause of this lane's own
// bucket and what its guard remembers.
func (l *lane) react(r *row, begun time.Time, a Answer) Answer {
	alone := l.fuse.count(a, begun, time.Now())
	if a.Suspect {
		return l.suspect(r, a)
	}
	switch a.Action {
	case Reschedule:
		if a.verdict() == saysDown && !alone {
			a.Throttled = true // an outage says nothing about a message: it spends no attempt
		}
	case Accept:
		l.guard.accepted(r.Campaign, begun, time.Now())
	case Pause, Release, Reconcile:
		// A call that never left this machine, or was met on the way, is no
		// throttle, but to claim the next row at once, for ever, would be a loop
		// at full rate.
		if a.Action == Pause || a.Local {
			l.rest(r, begun, a)
		}
	case StopCampaign, StopNumber:
		if order, news := l.guard.halt(r, a); news {
			l.stop(r, order)
		}
	}
	return a
}

// suspect stops a campaign that fails again and again. Whoever was told the same
// by calls under way then is not lost for it: they wait for what is mended.
func (l *lane) suspect(r *row, a Answer) Answer {
	order, news, over := l.guard.suspect(r, a)
	if news {
		l.stop(r, order)
	}
	if over {
		a.Action = StopCampaign
	}
	return a
}

// rest pauses the bucket, and slows it to what the pause has taught.
func (l *lane) rest(r *row, begun time.Time, a Answer) {
	now := time.Now()
	d, news := l.guard.throttled(a, begun, now, rand.Float64())
	if !news {
		return
	}
	l.bucket.pause(now, d)
	rate := l.fit(now)
	l.log.Warn("number pauses", "for", d, "then", rate, "action", a.Action.String(), "code", a.Code, "title", a.Title, "advice", a.Advice, "campaign", r.Campaign)
	signal(l.wake)
}

// fit brings the bucket to the pace that holds now: what is configured, what
// throttles have taught, and the way back from an opening.
func (l *lane) fit(now time.Time) (rate float64) {
	rate, burst := l.guard.pace(now)
	rate = l.fuse.pace(rate)
	l.bucket.set(rate, max(1, min(burst, int(rate/20))), now)
	return rate
}

// stop gives back what the stop covers and has the claimer write it.
func (l *lane) stop(r *row, order Restraint) {
	what := "campaign stops until an operator acts"
	switch order.Kind {
	case HaltNumber:
		what = "number stops until an operator acts"
	case PauseCampaign:
		what = "campaign pauses"
	}
	l.log.Error(what, "campaign", r.Campaign, "recipient", r.ID, "for", order.For, "code", order.Code, "title", order.Reason, "advice", order.Advice)
	l.drop(func(other *row) bool { return !l.guard.allows(other) })
	signal(l.wake)
}

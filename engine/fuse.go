package engine

import (
	"log/slog"
	"sync"
	"time"
)

// rampFresh is how lately a breaker must have closed for a lane that starts to
// come back by steps.
const rampFresh = 10 * time.Second

// breaker is this node's side of one scope: how it stands in Postgres, as last
// told, and what its calls came to since that was last reported.
type breaker struct {
	policy BreakerPolicy
	lease  LeaseID // of the number; zero for the host

	mu       sync.Mutex
	told     Breaker
	asked    time.Time // when told was asked for
	fresh    time.Time // only calls begun after this are news: the scope has moved
	closings int       // times it was seen to close
	tally    Tally     // since the last report; Streak and Storm run on
	struck   time.Time // when the last throttle came: calls begun before are of the same storm
	tripped  bool      // a number has failed enough: it waits for Postgres's word
	reported bool      // … which has been asked for
}

// view is whether calls may be made, and how often it has closed.
func (b *breaker) view() (closed bool, closings int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.told.State == BreakerClosed && !b.tripped, b.closings
}

// counted is what one call has come to.
type counted struct {
	news   bool // else it was begun before the scope moved, or the scope is not closed
	streak int  // failures in a row
	trip   bool // worth a report at once
}

// count takes up one call.
func (b *breaker) count(v verdict, begun, now time.Time) (c counted) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.told.State != BreakerClosed || begun.Before(b.fresh) {
		return c
	}
	number := b.lease.Number != ""
	switch v {
	case saysUp:
		b.tally.Samples++
		b.tally.Streak = 0
		if !begun.Before(b.struck) {
			b.tally.Storm = 0
		}
	case saysDown:
		b.tally.Samples++
		b.tally.Failures++
		b.tally.Streak++
		c.trip = b.tally.Streak == b.policy.Failures
	case saysThrottle:
		if !begun.Before(b.struck) {
			b.tally.Storm++
			b.struck = now
			c.trip = number && b.tally.Storm == b.policy.Throttles
		}
	default:
		return counted{news: true, streak: b.tally.Streak}
	}
	b.tally.Times.add(now.Sub(begun))
	b.tripped = b.tripped || c.trip && number && !b.told.Forced
	c.news, c.streak = true, b.tally.Streak
	return c
}

// take is what there is to report, and whether that is anything new.
func (b *breaker) take() (t Tally, news bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	t = b.tally
	t.Lease = b.lease
	b.tally = Tally{Streak: t.Streak, Storm: t.Storm}
	b.reported = b.reported || b.tripped
	return t, t.Times != Times{} || b.tripped
}

// tell takes up how the scope stands, by the answer to what was asked then, and
// reports whether that changes what may be sent. A scope that has moved starts
// to count anew, and what was begun before is old news: calls of an outage may
// fail long after it.
func (b *breaker) tell(t Breaker, asked, now time.Time) (changed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if asked.Before(b.asked) {
		return false
	}
	was := b.told
	b.told, b.asked = t, asked
	moved := was.Mark != t.Mark
	if moved || b.reported { // reported: and Postgres has left it closed
		changed = true
		b.tripped, b.reported = false, false
		b.tally.Streak, b.tally.Storm = 0, 0
	}
	first := was.Mark == ""
	if moved && !first {
		b.fresh, b.struck, b.tally = now, time.Time{}, Tally{}
	}
	if moved && t.State == BreakerClosed && (!first || t.Age > 0 && t.Age < rampFresh) {
		b.closings++
	}
	return changed
}

// fuse is a lane's breakers, the platform's and its number's, and its node's own.
// All must be closed, or the lane must hold the one probe.
type fuse struct {
	number, host *breaker
	out          *egress
	changed      func()                  // what may be sent has changed; not nil
	hurry        func()                  // report at once; not nil
	probed       func(*permit, ProbeEnd) // what a probe came to; not nil

	mu       sync.Mutex
	ramp     ramp
	closings int // of both, that ramp has started for
	stage    int // grows with every change of the ramp
	full     float64
}

func newFuse(p BreakerPolicy, lease LeaseID) *fuse {
	return &fuse{
		number: &breaker{policy: p, lease: lease}, host: &breaker{policy: p},
		out:     newEgress(p.Failures, nil, slog.New(slog.DiscardHandler)),
		changed: func() {}, hurry: func() {}, probed: func(*permit, ProbeEnd) {},
	}
}

// standing is whether rows may be claimed, and at which stage of the way back.
// The first look after a closing starts the ramp, so that nothing is claimed
// between the two.
func (f *fuse) standing() (closed bool, stage int) {
	fleet, stage := f.fleet()
	return fleet && f.out.passes(time.Now()), stage
}

// fleet is standing without this node's own breaker.
func (f *fuse) fleet() (closed bool, stage int) {
	host, h := f.host.view()
	number, n := f.number.view()
	forced := f.host.held() || f.number.held()
	f.mu.Lock()
	defer f.mu.Unlock()
	was := f.ramp
	if h+n > f.closings {
		f.closings = h + n
		f.ramp.start()
	}
	if forced { // whoever will not wait for calls to go well will not climb by them
		f.ramp = ramp{}
	}
	if f.ramp.left != was.left {
		f.stage++
	}
	return host && number, f.stage
}

// allows reports whether a row may be sent: while all are closed, or as the
// probe, unless an operator has since come to hold one of the fleet's two open.
func (f *fuse) allows(p *permit) bool {
	switch {
	case p == nil:
	case p.scope == LocalScope:
		closed, _ := f.fleet()
		return closed && f.out.state() == BreakerHalfOpen
	default:
		return !f.host.stopped(p.asked) && !f.number.stopped(p.asked) && f.out.state() != BreakerOpen
	}
	closed, _ := f.standing()
	return closed
}

// settled is how often it had closed when a lane that starts now need not come
// back by steps.
func (b *breaker) settled(now time.Time) (closings int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if now.Sub(b.fresh) < rampFresh {
		return -1
	}
	return b.closings
}

// held reports whether an operator holds it closed.
func (b *breaker) held() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.told.Forced && b.told.State == BreakerClosed
}

// stopped reports whether an operator was seen to hold it open after then.
func (b *breaker) stopped(then time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.told.Forced && b.told.State == BreakerOpen && b.asked.After(then)
}

// pace is the rate that holds now, of a full one.
func (f *fuse) pace(full float64) float64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.full = full
	return f.ramp.rate(full)
}

// count takes up what a call came to, and reports whether a failure stands
// alone: it is not of an outage, and few came before it. One that does not is the
// platform's, and says nothing about its message. While the host is not closed
// its numbers do not count.
func (f *fuse) count(a Answer, begun, now time.Time) (alone bool) {
	v := a.verdict()
	closed, _ := f.fleet()
	if f.out.count(a, begun, now) {
		v = saysLocal
	}
	host, number := f.host.count(v, begun, now), counted{}
	if host.news {
		number = f.number.count(v, begun, now)
	}
	if number.trip || number.news && f.climb(v) {
		f.changed()
	}
	if host.trip || number.trip {
		f.hurry()
	}
	return closed && number.news && max(host.streak, number.streak) < f.number.policy.Failures
}

// climb counts a call for the way back to the full rate, and reports whether a
// step of it is done.
func (f *fuse) climb(v verdict) (done bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if done = f.ramp.count(v, f.full); done {
		f.stage++
	}
	return done
}

// probeable is the scope whose probe comes next, and how long until a permit
// for it can be had. The host goes first.
func (f *fuse) probeable(now time.Time) (scope string, wait time.Duration) {
	b := f.host
	if closed, _ := b.view(); closed {
		b = f.number
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.told.State == BreakerClosed { // tripped: Postgres has not judged yet
		return b.told.Scope, reportEvery
	}
	return b.told.Scope, max(0, b.told.Wait-now.Sub(b.asked))
}

package engine

import (
	"errors"
	"sync/atomic"
	"time"
)

// Causes why a lane ends before its node does, and of a call that may not be made.
var (
	errLeaseLost = errors.New("lease lost")
	errIdle      = errors.New("number needs no owner")
	errFenced    = errors.New("this lane may no longer send")
)

// trust is how long a lease may be relied upon without asking Postgres: until
// the send time of the last good heartbeat + TTL − margin, on this node's own
// clocks. It is read at the token, before the request and at every write to the
// wire, so that a process that stood still for a minute stops there, with no
// goroutine needed to stop it.
type trust struct{ until atomic.Pointer[time.Time] }

// extend moves trust forward, never back: a late reply to an old heartbeat
// carries its own old send time.
func (t *trust) extend(until time.Time) {
	for {
		old := t.until.Load()
		if old != nil && !until.After(*old) {
			return
		}
		if t.until.CompareAndSwap(old, &until) {
			return
		}
	}
}

func (t *trust) holds(now time.Time) bool {
	until := t.until.Load()
	return until != nil && before(now, *until)
}

// before asks both clocks. The monotonic one stands still while a machine
// sleeps, the wall clock may be set; each alone can make us trust too long.
func before(now, until time.Time) bool {
	return now.Before(until) && now.Round(0).Before(until.Round(0))
}

// watch is a candidate as this node has seen it: a lease that Postgres calls
// expired is believed dead only if it has also stood still for a whole TTL on
// our own clock. A database whose clock jumps at a fail-over hands over nothing.
type watch struct {
	seen  Candidate
	since time.Time
	told  bool // an operator has been told of this silence
}

// observed returns the watch after another look.
func (w watch) observed(c Candidate, now time.Time) watch {
	if w.since.IsZero() || w.seen.LeaseID != c.LeaseID || w.seen.Beats != c.Beats {
		w.since, w.told = now, false
	}
	w.seen = c
	return w
}

// biddable reports whether the number may be asked for.
func (w watch) biddable(now time.Time, ttl time.Duration) bool {
	return w.seen.Free || (w.seen.Expired > 0 && now.Sub(w.since) >= ttl)
}

// silent reports whether the holder is probably dead: its lease has run out, or
// it has missed a heartbeat while we watched. beat is the longest that a living
// one takes from heartbeat to heartbeat, so a healthy fleet is never silent.
func (w watch) silent(now time.Time, beat time.Duration) bool {
	return !w.seen.Free && (w.seen.Expired > 0 || now.Sub(w.since) > beat)
}

// remaining is how long until it may be asked for, if it stays silent.
func (w watch) remaining(now time.Time, ttl time.Duration) time.Duration {
	return max(ttl-now.Sub(w.since), -w.seen.Expired)
}

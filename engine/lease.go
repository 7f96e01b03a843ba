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
	errShare     = errors.New("number is another node's to own")
	errFenced    = errors.New("this lane may no longer send")
)

// trust is how long a lease may be relied upon without asking Postgres: until
// the send time of the last good heartbeat + TTL − margin, on this node's own
// clocks. It is read at the token, before the request and at every write to the
// wire, so that a process that stood still for a minute stops there, with no
// goroutine needed to stop it.
//
// It also ends when the clocks have parted since that heartbeat: the machine
// slept, was restored from a snapshot, or had its clock set, and nobody can say
// how much time has really passed. The lease need not be thrown away for that. A
// taker changes its id, so the next heartbeat that succeeds proves that nobody
// had taken it by then, and trust begins anew from when that one was sent.
type trust struct{ word atomic.Pointer[word] }

// word is what a heartbeat has given: from its sending, for so long.
type word struct {
	since, until instant
	revoked      bool
}

// extend moves trust forward, never back: a late reply to an old heartbeat
// carries its own old send time. What was revoked stays so.
func (t *trust) extend(sent instant, d time.Duration) {
	given := &word{since: sent, until: sent.add(d)}
	for {
		old := t.word.Load()
		if old != nil && (old.revoked || given.since.mono <= old.since.mono) {
			return
		}
		if t.word.CompareAndSwap(old, given) {
			return
		}
	}
}

// revoke ends trust for good: the lease is another's.
func (t *trust) revoke() { t.word.Store(&word{revoked: true}) }

func (t *trust) holds(now instant) bool {
	w := t.word.Load()
	return w != nil && !w.revoked && now.before(w.until) && now.parted(w.since) <= jumpMost
}

// since is when the last good heartbeat was sent; zero before the first.
func (t *trust) since() time.Time {
	if w := t.word.Load(); w != nil {
		return w.since.wall
	}
	return time.Time{}
}

// watch is a candidate as this node has seen it: a lease that Postgres calls
// expired is believed dead only if it has also stood still for a whole TTL on
// our own clock. A database whose clock jumps at a fail-over hands over nothing.
type watch struct {
	seen   Candidate
	at     time.Time // of the last look at it
	since  time.Time // it has stood still
	opened time.Time // it may be bid for; zero = it may not
	to     string    // the node that it was left to at the last look; "" = none
	told   bool      // an operator has been told of this silence
	asked  bool      // our bid for it was not answered, and may have been granted
}

// observed returns the watch after another look.
func (w watch) observed(c Candidate, now time.Time, ttl time.Duration) watch {
	if w.since.IsZero() || w.seen.LeaseID != c.LeaseID || w.seen.Beats != c.Beats {
		w.since, w.told, w.asked = now, false, w.asked && w.seen.LeaseID == c.LeaseID
	}
	before := w.at
	w.seen, w.at = c, now
	switch {
	case !w.biddable(now, ttl):
		w.opened, w.to = time.Time{}, ""
	case !w.opened.IsZero(): // as before
	case c.Free && !before.IsZero():
		w.opened = later(before, now.Add(-c.Expired)) // when it was released
	default:
		w.opened = now
	}
	return w
}

// biddable reports whether the number may be asked for.
func (w watch) biddable(now time.Time, ttl time.Duration) bool {
	return w.seen.Free || (w.seen.Expired > 0 && now.Sub(w.since) >= ttl)
}

// round is how many turns have gone by since the number could be asked for.
func (w watch) round(now time.Time, turn time.Duration) int { return int(now.Sub(w.opened) / turn) }

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

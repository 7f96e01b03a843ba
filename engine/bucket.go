package engine

import (
	"context"
	"errors"
	"math"
	"sync"
	"time"
)

// errLate means that no token can be had before the row's claim runs out.
var errLate = errors.New("no token in time")

const (
	// bucketSlack is how late a token may be used. A timer wakes a little late,
	// and with burst 1 that lateness would be lost for ever if the next token
	// counted from it: at 1 000 a second, 0.1 ms each is 9 % of the rate. So
	// tokens lie on a grid and a late wake takes the token of its grid instant.
	// What is later than this (the process stood still) is lost, or all the
	// missed ones would go out at once. Seen from outside, sends in any window w
	// are at most burst + rate × (w + this), and whatever the network adds.
	bucketSlack = 25 * time.Millisecond

	// slowest is the least rate a bucket can have: one an hour.
	slowest = time.Hour
)

// bucket is a token bucket of one number: two instants and no goroutine.
//
// It promises that the instants of its tokens obey burst + rate·w in every
// window w, over pauses and changes of rate too, and that a token is used at
// most bucketSlack after its instant. It starts empty: whoever had the number
// before may have sent a moment ago.
//
// We serve waiters one at a time, in order of arrival, and let only the first
// sleep, because then no token is promised ahead: a pause or a change of rate
// has no reservation to void, and a waiter that leaves takes no token with it.
// (With reservations that survived a pause, every waiter woke at its end: 38
// sends in 100 ms in a trial.)
type bucket struct {
	turn  chan struct{} // held by the first waiter; a channel serves in order of arrival
	nudge chan struct{} // wakes the first waiter when the rate has changed

	mu    sync.Mutex
	every time.Duration // 1/rate, rounded up
	burst int
	next  time.Time // earliest instant of the next token; past when tokens are saved
	hold  time.Time // no token before this: the end of a pause
}

// newBucket makes an empty bucket of rate tokens a second.
func newBucket(rate float64, burst int, now time.Time) *bucket {
	b := &bucket{
		turn: make(chan struct{}, 1), nudge: make(chan struct{}, 1),
		every: interval(rate), burst: max(burst, 1),
	}
	b.next = now.Add(b.every)
	return b
}

// interval is the time between tokens, rounded up: never too fast.
func interval(rate float64) time.Duration {
	if !(rate > 0) {
		return slowest
	}
	return time.Duration(min(math.Ceil(float64(time.Second)/rate), float64(slowest)))
}

// pace is the rate and burst that a number may have: what is configured, or
// less if throttles have taught so; a burst is at most a twentieth of a second's
// work.
func pace(n Number) (rate float64, burst int) {
	rate = n.Learned.rate(max(n.Rate(), 0))
	return rate, max(1, min(n.Burst, int(rate/20)))
}

// wait takes one token, sleeping until it is there. It returns errLate as
// soon as it is clear that none comes before by, and ctx's error when that ends
// first; neither costs a token.
func (b *bucket) wait(ctx context.Context, by time.Time) error {
	arrived := time.Now()
	select {
	case b.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-b.turn }()
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		rest, err := b.take(arrived, time.Now(), by)
		if err != nil || rest == 0 {
			return err
		}
		b.sleep(ctx, rest)
	}
}

func (b *bucket) sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-b.nudge:
	case <-ctx.Done():
	}
}

// take spends a token if one is due and returns 0, else how long to sleep. A
// waiter that was there before the token's instant gets it as of that instant
// (it merely woke late); one that came after gets it as of its arrival (the
// bucket was idle, and idle time beyond the burst is lost).
func (b *bucket) take(arrived, now, by time.Time) (time.Duration, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	at := later(later(b.next, b.hold), arrived)
	at = later(at, now.Add(-bucketSlack))
	if !later(at, now).Before(by) {
		return 0, errLate
	}
	if at.After(now) {
		return at.Sub(now), nil
	}
	b.next = later(b.next, at.Add(-b.saved())).Add(b.every)
	return 0, nil
}

// saved is how far in the past next may lie.
func (b *bucket) saved() time.Duration { return time.Duration(b.burst-1) * b.every }

// pause lets no token out for d from now, and none saved up at its end.
func (b *bucket) pause(now time.Time, d time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.hold = later(b.hold, now.Add(d))
	b.next = later(b.next, b.hold)
}

// set changes the pace. What has accrued of the next token stays accrued: the
// time that is left to it is scaled, so the change itself gives and takes
// nothing.
func (b *bucket) set(rate float64, burst int, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	every, burst := interval(rate), max(burst, 1)
	if every == b.every && burst == b.burst {
		return
	}
	left := later(b.next, now.Add(-b.saved())).Sub(now)
	b.next = now.Add(time.Duration(math.Ceil(float64(left) * float64(every) / float64(b.every))))
	b.every, b.burst = every, burst
	signal(b.nudge)
}

// room is how many tokens come due until now + horizon, and, when none does,
// how long until one will.
func (b *bucket) room(now time.Time, horizon time.Duration) (n int, wait time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	first := later(later(b.next, now.Add(-b.saved())), b.hold)
	spare := now.Add(horizon).Sub(first)
	if spare < 0 {
		return 0, -spare
	}
	return 1 + int(spare/b.every), 0
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

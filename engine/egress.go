package engine

import (
	"container/list"
	"context"
	"log/slog"
	"sync"
	"time"
)

const (
	askEvery     = 250 * time.Millisecond // how often a node looks whether it must ask
	askPause     = time.Second            // between two questions while in doubt
	silence      = 500 * time.Millisecond // without the end of any call: longer than a hiccup
	slowestFirst = 2 * time.Second        // how long a call may take until some have been measured
)

// egress is this node's way to the platform, for all its lanes: its breaker,
// and the calls that are on it.
type egress struct {
	ping  func(context.Context) error // asks the platform; nil: there is no way to ask
	log   *slog.Logger
	stats *localMetrics
	moved func()        // it has moved; not nil, does not block
	news  chan struct{} // capacity 1: the fleet should hear of it

	mu      sync.Mutex
	breaker local
	calls   list.List // of time.Time: when those began that have not ended, oldest first
	ended   time.Time // when a call last did
	times   sample    // of calls that were heard of
	doubt   time.Time // since when there is doubt; zero = none
	others  time.Time // when another node last reported calls that went well
	cause   string    // what the last failure of this node's own was
}

func newEgress(failures int, ping func(context.Context) error, log *slog.Logger) *egress {
	return &egress{
		ping: ping, log: log, stats: newLocalMetrics(), moved: func() {}, news: make(chan struct{}, 1),
		breaker: local{failures: failures},
	}
}

// begin counts a call that is about to be made; its end must follow.
func (e *egress) begin(now time.Time) *list.Element {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.calls.PushBack(now)
}

// end takes a call out, before its answer is judged.
func (e *egress) end(call *list.Element, a Answer, now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	begun, _ := e.calls.Remove(call).(time.Time)
	if w := a.echo(); w != noEcho {
		e.ended = now
		if w == heard {
			e.times.add(now.Sub(begun))
		}
	}
}

// count takes up what a call came to; mine: it is nobody's trouble but this node's.
func (e *egress) count(a Answer, begun, now time.Time) (mine bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	w := a.echo()
	if w == cutOff {
		e.cause = a.Title
	}
	defer e.settle(e.breaker.state, now)
	return e.breaker.count(w, begun, now)
}

// passes reports whether calls may be made: the breaker is closed, and those
// that are out are not all overdue.
func (e *egress) passes(now time.Time) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.breaker.state == BreakerClosed && !e.silent(now)
}

func (e *egress) state() BreakerState {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.breaker.state
}

// silent reports whether what is sent seems to vanish: so many calls are out for
// longer than nearly all take, and for a while none has come back. To send more
// would only make more of them. It ends by itself: with the first that is heard
// of, or with their timeouts, which the breakers count. mu is held.
func (e *egress) silent(now time.Time) bool {
	if e.calls.Len() < e.breaker.failures || now.Sub(e.ended) < silence {
		return false
	}
	call := e.calls.Front()
	for range e.breaker.failures - 1 {
		call = call.Next()
	}
	begun, _ := call.Value.(time.Time)
	return now.Sub(begun) >= max(silence, e.times.p95(slowestFirst)*5/4)
}

// trial takes the one message that tells whether a way that answers carries
// messages too; returned gives it back unsent.
func (e *egress) trial() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.breaker.take()
}

func (e *egress) returned() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.breaker.out = false
}

// heardOf notes when another node's calls were last known to go well.
func (e *egress) heardOf(others time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.others = later(e.others, others)
}

// run asks the platform while there is reason to, until ctx ends.
func (e *egress) run(ctx context.Context) {
	tick := time.NewTicker(askEvery)
	defer tick.Stop()
	for last := (time.Time{}); ; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		if now := time.Now(); e.due(now, last) {
			last = now
			e.ask(ctx)
		}
	}
}

// due reports whether the platform is to be asked.
func (e *egress) due(now, last time.Time) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	asks := e.breaker.asks(e.silent(now), now)
	switch {
	case e.breaker.state != BreakerClosed || !asks:
		e.doubt = time.Time{}
	case e.doubt.IsZero():
		e.doubt = now
	}
	if e.breaker.state == BreakerClosed && (e.ping == nil || now.Sub(last) < askPause) {
		return false
	}
	return asks
}

func (e *egress) ask(ctx context.Context) {
	var err error
	if e.ping != nil {
		err = e.ping(ctx)
	}
	if ctx.Err() != nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	now := time.Now()
	if err != nil {
		e.cause = err.Error()
	}
	defer e.settle(e.breaker.state, now)
	// What others report comes up to two reports late, and must be of the doubt's time.
	others := !e.doubt.IsZero() && e.others.After(e.doubt.Add(2*reportEvery))
	e.breaker.asked(err == nil, e.silent(now), others, now)
}

// settle tells of a move of the breaker, if it has come out of was. mu is held.
func (e *egress) settle(was BreakerState, now time.Time) {
	to := e.breaker.state
	if to == was {
		return
	}
	e.stats.show(to)
	switch to {
	case BreakerOpen:
		e.log.Warn("this node cannot reach the platform: it sends nothing, and other nodes that can take its numbers; "+
			"look at its name servers, its proxy, its certificates and its firewall",
			"cause", e.cause, "asked_again_in", e.breaker.until.Sub(now))
	case BreakerHalfOpen:
		e.log.Info("the platform answers this node again; one message is tried")
	case BreakerClosed:
		e.log.Info("this node reaches the platform again")
	}
	signal(e.news)
	e.moved()
}

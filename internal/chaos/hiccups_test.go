//go:build !race

package chaos

import (
	"context"
	"sync/atomic"
	"time"
)

// hiccups measures how long this machine kept the suite waiting for a
// processor: what the ledger says of instants cannot be truer than that.
type hiccups struct{ longest atomic.Int64 }

func (h *hiccups) run(ctx context.Context) {
	const every = 5 * time.Millisecond
	tick := time.NewTicker(every)
	defer tick.Stop()
	for before := time.Now(); ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			now := time.Now()
			h.longest.Store(max(h.longest.Load(), int64(now.Sub(before)-every)))
			before = now
		}
	}
}

// way is what a request may take from its token to the ledger: the nodes are
// as hindered as the suite is, and a request passes two of them and a proxy.
func (h *hiccups) way() time.Duration {
	const calm = 100 * time.Millisecond // a token's slack of 25 ms, loopback, the proxy
	return calm + 3*time.Duration(h.longest.Load())
}

// watch marks the times at which the machine is too busy for Weir: the
// simplest of statements, on a link that nothing cuts, takes a good part of the
// second that a heartbeat may take, and so heartbeats fail for no fault of the
// fleet's. Connections that were given up meanwhile take a while to come back.
func (f *fleet) watch(ctx context.Context) {
	const every, most, aftermath = 250 * time.Millisecond, 250 * time.Millisecond, time.Second
	for tick := time.NewTicker(every); ; {
		select {
		case <-ctx.Done():
			tick.Stop()
			return
		case <-tick.C:
		}
		from := f.now()
		_, err := f.pool.Exec(ctx, "SELECT 1")
		if over := f.now(); err == nil && over-from > most {
			f.mu.Lock()
			f.marks = append(f.marks, Mark{Kind: MarkBusy, From: from, Over: over + aftermath})
			f.mu.Unlock()
		}
	}
}

// slack is what a handful of statements, logins and looks may take beyond
// their timers: a machine that keeps one goroutine waiting for so long keeps
// every process of a chain of them waiting.
func (h *hiccups) slack() time.Duration {
	return 3*time.Second + 40*time.Duration(h.longest.Load())
}

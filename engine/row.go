package engine

import (
	"sync"
	"sync/atomic"
	"time"
)

// The states of a row in memory. It leaves held once, by compare-and-swap:
// a begun row ends only by its call's result, a returned one is never sent.
// Without that, T_claim gives back a row that is being dialed, another lane
// claims it, and it is sent twice.
const (
	rowHeld uint32 = iota
	rowBegun
	rowReturned
)

// row is a claimed recipient in this lane's hands.
type row struct {
	Recipient
	seq      int64   // its claim batch
	by       instant // claim sent + T_claim: its call must be written before this
	permit   *permit // it is the probe of a breaker; nil: an ordinary row
	template *Template
	retry    Retry
	state    atomic.Uint32
}

// begin is taken by the sender just before it dials.
func (r *row) begin() bool { return r.state.CompareAndSwap(rowHeld, rowBegun) }

// giveBack is taken by whoever finds that the row cannot be sent in time.
func (r *row) giveBack() bool { return r.state.CompareAndSwap(rowHeld, rowReturned) }

// hand holds the rows that can still go out: those that are claimed and not yet
// begun, and those whose call has begun and is not answered.
type hand struct {
	mu    sync.Mutex
	rows  map[*row]struct{}
	calls map[*row]struct{}
}

func newHand() *hand {
	return &hand{rows: make(map[*row]struct{}), calls: make(map[*row]struct{})}
}

func (h *hand) add(rows []*row) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, r := range rows {
		h.rows[r] = struct{}{}
	}
}

func (h *hand) remove(r *row) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.rows, r)
}

// begin moves a row to the calls, unless it has been given back. The two are
// one step for whoever asks what the hand still holds.
func (h *hand) begin(r *row) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !r.begin() {
		return false
	}
	delete(h.rows, r)
	h.calls[r] = struct{}{}
	return true
}

// answered takes out a row whose call is over.
func (h *hand) answered(r *row) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.calls, r)
}

// quiet reports whether nothing of a campaign can reach the platform any more.
// A call without an answer counts until its last moment to write has passed for
// longer than the kernel tries to deliver what was written: by then it has
// arrived or never will, whatever its answer. That is asked of the clock that
// stands still in a sleep, as the kernel's own timers do.
func (h *hand) quiet(campaign int64, now instant, delivery time.Duration) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for r := range h.rows {
		if r.Campaign == campaign {
			return false
		}
	}
	for r := range h.calls {
		if r.Campaign == campaign && now.mono < r.by.mono+delivery {
			return false
		}
	}
	return true
}

func (h *hand) len() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.rows)
}

// drop gives back the matching rows that have not begun and returns them.
// Their senders find out when they wake.
func (h *hand) drop(match func(*row) bool) []*row {
	h.mu.Lock()
	defer h.mu.Unlock()
	var dropped []*row
	for r := range h.rows {
		if match(r) && r.giveBack() {
			delete(h.rows, r)
			dropped = append(dropped, r)
		}
	}
	return dropped
}

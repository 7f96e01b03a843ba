package sim

import (
	"maps"
	"time"
)

// window enforces a number's throughput: at most limit requests in any
// sliding second. It remembers the last requests let through in a ring.
type window struct {
	limit int
	times []int64 // ns; a ring of the last `limit` admissions
	next  int
}

func newWindow(limit int) *window {
	return &window{limit: limit, times: make([]int64, 0, limit)}
}

// admit lets a request at now (ns) through unless `limit` others were within
// the last second. cap, when positive and below limit, is the limit to use.
// Refused requests do not count.
func (w *window) admit(now int64, limit int) bool {
	if limit <= 0 || limit > w.limit {
		limit = w.limit
	}
	if n := len(w.times); n >= limit {
		oldest := w.times[(w.next-limit+n)%n]
		if now-oldest < int64(time.Second) {
			return false
		}
	}
	if len(w.times) < w.limit {
		w.times = append(w.times, now)
		w.next = len(w.times) % w.limit
		return true
	}
	w.times[w.next] = now
	w.next = (w.next + 1) % w.limit
	return true
}

// Meta, "About the platform" (2026-09-11): one message per 6 s to the same
// user; up to 45 in a burst of 6 s, which borrows from the time after it.
const (
	pairEvery = int64(6 * time.Second)
	pairBurst = 45
)

type pair struct {
	number uint32
	phone  uint64
}

type pairState struct {
	start int64 // ns of the burst's first message
	n     int   // messages in the burst
}

// settled tells that nothing of the burst is owed any more.
func (p pairState) settled(now int64) bool { return now-p.start >= pairEvery*int64(p.n) }

// pairLimit enforces the pair limit. Every 6 s it forgets the pairs that owe
// nothing, so that its size follows the rate and not the audience.
type pairLimit struct {
	pairs map[pair]pairState
	swept int64
}

// admit counts a message at now (ns) for the pair, or refuses it.
func (l *pairLimit) admit(p pair, now int64) bool {
	if now-l.swept >= pairEvery {
		l.swept = now
		maps.DeleteFunc(l.pairs, func(_ pair, st pairState) bool { return st.settled(now) })
	}
	st, ok := l.pairs[p]
	switch {
	case !ok || st.settled(now):
		st = pairState{start: now, n: 1}
	case now-st.start < pairEvery && st.n < pairBurst:
		st.n++
	default:
		return false
	}
	l.pairs[p] = st
	return true
}

package engine

import (
	"math"
	"slices"
	"sync"
	"time"
)

const (
	firstLatency = 200 * time.Millisecond // assumed until calls have been measured
	sampleSize   = 256
)

// sample keeps the last few durations of a kind of call.
type sample struct {
	mu   sync.Mutex
	ring [sampleSize]time.Duration
	n    int
}

func (s *sample) add(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ring[s.n%sampleSize] = d
	s.n++
}

// p95 is the duration that 95 % of the last calls stayed within, or assumed
// while there is no call yet.
func (s *sample) p95(assumed time.Duration) time.Duration {
	s.mu.Lock()
	n := min(s.n, sampleSize)
	last := slices.Clone(s.ring[:n])
	s.mu.Unlock()
	if n == 0 {
		return assumed
	}
	slices.Sort(last)
	return last[(n*95-1)/100]
}

// sendersFor is how many senders keep a rate up: by Little's law the rate
// times how long each is busy (its call, and waiting to be given a row), and a
// quarter more, so that some are always free and claims can be batches.
func sendersFor(rate float64, call, feed time.Duration, limit int) int {
	n := math.Ceil(rate * (call + feed).Seconds() * 1.25)
	return int(max(2, min(n, float64(limit))))
}

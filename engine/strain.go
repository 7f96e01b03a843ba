package engine

import (
	"sync"
	"time"
)

const (
	slowCall  = 500 * time.Millisecond // a claim or a write that takes longer is slow
	lookCalls = 20                     // calls that are judged together: two slow ones put their p95 beyond slowCall
	slowMost  = 1
	growth    = 1.0 / 8  // of the whole, added after a look without strain
	leastPart = 1.0 / 16 // of the whole
)

// strain is how much of its normal measure a lane claims and leaves
// outstanding: all of it while Postgres keeps up. When the p95 of claims and
// writes is beyond half a second, half as much; when it is not, an eighth more.
// A database that is slow because much is asked of it is asked less, by every
// lane of every node, and each finds its part again without knowing of the
// others. Heartbeats have connections of their own and are not counted.
type strain struct {
	mu    sync.Mutex
	cut   float64 // of the whole; 0 = nothing is taken off
	calls int     // of this look
	slow  int     // of calls
}

// took counts a call that ended with err after d. One that failed at once says
// that Postgres is away, not how fast it is.
func (s *strain) took(d time.Duration, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	slow := d > slowCall
	if err != nil && !slow {
		return
	}
	s.calls++
	if slow {
		s.slow++
	}
	switch part := 1 - s.cut; {
	case s.slow > slowMost:
		s.cut, s.calls, s.slow = 1-max(part/2, leastPart), 0, 0
	case s.calls >= lookCalls:
		s.cut, s.calls, s.slow = 1-min(part+growth, 1), 0, 0
	}
}

// part is that much of n, and least at least.
func (s *strain) part(n, least int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return max(int(float64(n)*(1-s.cut)), min(n, least))
}

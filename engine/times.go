package engine

import "time"

// timesBounds are the upper bounds of Times, in milliseconds; one more class
// holds what is longer.
var timesBounds = [...]int{25, 50, 100, 150, 250, 350, 500, 750, 1000, 2000, 4000, 8000, 10000}

// Times counts durations of calls by size, so that many nodes' can be added up
// and a quantile of all of them be told.
type Times [len(timesBounds) + 1]int

// add counts one call.
func (t *Times) add(d time.Duration) {
	i := 0
	for i < len(timesBounds) && d > time.Duration(timesBounds[i])*time.Millisecond {
		i++
	}
	t[i]++
}

// Quantile is the duration that a share q of the calls stayed within, to the
// precision of the classes: the true one lies in the same class. 0 when there
// were no calls; what is longer than 10 s counts as 10 s.
func (t Times) Quantile(q float64) time.Duration {
	total := 0
	for _, n := range t {
		total += n
	}
	rank, below := q*float64(total), 0.0
	low := 0
	for i, high := range timesBounds {
		n := float64(t[i])
		if n > 0 && below+n >= rank {
			ms := float64(low) + float64(high-low)*(rank-below)/n
			return time.Duration(ms * float64(time.Millisecond))
		}
		below += n
		low = high
	}
	if total == 0 {
		return 0
	}
	return time.Duration(low) * time.Millisecond
}

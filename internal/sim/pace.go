package sim

import (
	"slices"
	"time"
)

// Window is a stretch of requests, by index into the times it was found in.
type Window struct {
	First, Last int
	// Count is Last-First+1, Width the time between the two.
	Count int
	Width time.Duration
	// Excess is Count - (burst + rate × (Width + slack)): positive means that
	// the pace was broken.
	Excess float64
}

// WorstWindow finds, among all windows of times (ns, ascending), the one with
// the greatest excess over burst + rate × (width + slack); rate is per second.
// It is exact and takes one pass: a leaky bucket's level is the greatest
// count - rate × width of all windows that end here. No times: the zero Window.
func WorstWindow(times []int64, rate, burst float64, slack time.Duration) Window {
	var worst Window
	first := 0
	for last := range times {
		// Starting later is better once what came before has leaked away.
		if last > 0 && float64(last-first)-rate*seconds(times[last]-times[first]) <= 0 {
			first = last
		}
		width := times[last] - times[first]
		excess := float64(last-first+1) - burst - rate*(seconds(width)+slack.Seconds())
		if last == 0 || excess > worst.Excess {
			worst = Window{First: first, Last: last, Count: last - first + 1, Width: time.Duration(width), Excess: excess}
		}
	}
	return worst
}

func seconds(ns int64) float64 { return float64(ns) / float64(time.Second) }

// BusiestSpan is the greatest number of times (ns, ascending) in any half-open
// window of the given length.
func BusiestSpan(times []int64, length time.Duration) int {
	most, first := 0, 0
	for last := range times {
		for times[last]-times[first] >= int64(length) {
			first++
		}
		most = max(most, last-first+1)
	}
	return most
}

// countRuns sorts keys and returns how many differ and, for each number of
// repetitions, how many keys repeat that often.
func countRuns(keys []uint64) (distinct int, byCount map[int]int) {
	slices.Sort(keys)
	byCount = map[int]int{}
	for i := 0; i < len(keys); {
		k := i
		for k < len(keys) && keys[k] == keys[i] {
			k++
		}
		byCount[k-i]++
		distinct++
		i = k
	}
	return distinct, byCount
}

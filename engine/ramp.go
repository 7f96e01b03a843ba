package engine

import "math"

// rampShares are the steps on the way back to the full rate.
var rampShares = [...]float64{1. / 16, 1. / 4}

// ramp brings a number back after its breaker, or the platform's, was open:
// r/16, r/4, r. Every step is a second's worth of calls in a row that went well.
// A platform that has just come up is not met by everything that waited for it.
// Its zero value is at the full rate.
type ramp struct {
	left int // steps before the full rate
	well int // calls in a row, in this step
}

func (r *ramp) start() { *r = ramp{left: len(rampShares)} }

// rate is the pace of this step, of a full one. One a second harms nobody.
func (r ramp) rate(full float64) float64 {
	if r.left == 0 {
		return full
	}
	return max(full*rampShares[len(rampShares)-r.left], min(full, 1))
}

// count takes up what one call said, and reports whether a step is done.
func (r *ramp) count(v verdict, full float64) (done bool) {
	switch {
	case r.left == 0:
		return false
	case v == saysDown:
		r.well = 0
	case v == saysUp:
		r.well++
	}
	if float64(r.well) < math.Ceil(r.rate(full)) {
		return false
	}
	r.left, r.well = r.left-1, 0
	return true
}

package engine

import (
	"cmp"
	"math"
	"time"
)

// Reasons that our own policy writes as a Result's or Restraint's words.
const (
	ReasonAttempts = "attempts_exhausted" // Dead: the last allowed attempt was refused
	ReasonSuspect  = "suspect_failures"   // HaltCampaign: the same kind of failure again and again
)

// Policy decides what an answer means for its row and for the pace. It is
// pure: the same values give the same decision. Its zero value works.
type Policy struct {
	Base      time.Duration // window of the first retry; doubles with every attempt; default 1 s
	Cap       time.Duration // largest window; default 5 min
	PauseBase time.Duration // window of a number's first pause for a throttle; doubles while throttles go on; default 1 s
	PauseCap  time.Duration // largest window of a pause; default 1 min
	Suspects  int           // this many Suspect failures in a row stop a campaign; default 5
	Troubles  int           // this many answers in a row that tell of platform trouble rest the number; default 5
}

func (p Policy) withDefaults() Policy {
	return Policy{
		Base:      cmp.Or(p.Base, time.Second),
		Cap:       cmp.Or(p.Cap, 5*time.Minute),
		PauseBase: cmp.Or(p.PauseBase, time.Second),
		PauseCap:  cmp.Or(p.PauseCap, time.Minute),
		Suspects:  cmp.Or(p.Suspects, 5),
		Troubles:  cmp.Or(p.Troubles, 5),
	}
}

// Settle turns what a call came to into what to write for its row. u in [0,1)
// is the jitter. The claim has spent the attempt already, so a row whose call
// was not made, or was refused for pace, gets it back.
//
// A row that is given back keeps its old due time: it was the sender that could
// not send, not the recipient who could not be reached, and the old time keeps
// its turn and lets the campaign's other numbers have it at once. The pause
// itself is the number's and is held by the bucket and by the claim.
func (p Policy) Settle(r Recipient, maxAttempts int, a Answer, u float64) Result {
	p = p.withDefaults()
	res := Result{Recipient: r.ID, Campaign: r.Campaign, Claim: r.Claim, Code: a.Code, Title: a.Title}
	switch a.Action {
	case Accept:
		res.Status, res.MessageID = Accepted, a.MessageID
		if a.Held {
			res.Status = Held
		}
	case Pause, StopCampaign, StopNumber, Release:
		res.giveBack(r)
	case Reschedule:
		p.reschedule(&res, r.Attempt >= max(maxAttempts, 1), a, jitter(u)*p.window(r.Attempt))
	case Fail:
		res.Status = Failed
	default: // Reconcile, and whatever else nobody foresaw: never send again blindly
		res.Status = Unknown
	}
	return res
}

// reschedule delays a row, or gives it up when its attempts are spent. A
// throttled pair spends none: its attempt counter stands still, so it cannot
// drive a window, and the wait is the platform's or the base.
func (p Policy) reschedule(res *Result, spent bool, a Answer, wait float64) {
	after := max(a.After, 0)
	switch {
	case a.Throttled:
		res.Status, res.Refund = Pending, true
		res.Delay = cmp.Or(after, p.Base) + time.Duration(min(wait, float64(p.Base)))
	case spent:
		res.Status, res.Title = Dead, ReasonAttempts
	default:
		// The platform's wait comes first and the jitter after it, or all rows
		// that were told the same wait would come due in the same instant.
		res.Status, res.Delay = Pending, after+time.Duration(wait)
	}
}

// giveBack makes the result that undoes a claim.
func (res *Result) giveBack(r Recipient) {
	res.Status, res.Refund, res.KeepDue, res.Due = Pending, true, true, r.Due
}

// window is the full-jitter window of the n-th attempt, in nanoseconds.
func (p Policy) window(attempt int) float64 { return window(p.Base, p.Cap, attempt) }

// pause is how long a number rests after its strikes-th throttle in a row:
// full jitter, never shorter than the platform asked.
func (p Policy) pause(strikes int, after time.Duration, u float64) time.Duration {
	p = p.withDefaults()
	return max(after, time.Duration(jitter(u)*window(p.PauseBase, p.PauseCap, strikes)))
}

// window doubles from base to limit with n = 1, 2, 3…
func window(base, limit time.Duration, n int) float64 {
	return min(float64(limit), float64(base)*math.Exp2(float64(max(n, 1)-1)))
}

// jitter forces u into [0,1).
func jitter(u float64) float64 {
	if !(u >= 0) { // also NaN
		return 0
	}
	return min(u, 1-1e-9)
}

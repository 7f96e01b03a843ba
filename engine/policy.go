package engine

import (
	"cmp"
	"math"
	"time"
)

// Reasons that our own policy writes as a Result's words.
const (
	ReasonAttempts = "attempts_exhausted" // Dead: the last allowed attempt was refused
	ReasonRefused  = "refused_again"      // Dead: the one further try that the answer was worth had the same answer
	ReasonUnserved = "unserved_country"   // Dead: no call was made, since nothing of this kind arrives there
)

// Jitter is how the waits between one recipient's attempts are drawn. The zero
// value is FullJitter.
type Jitter string

// The jitters.
const (
	FullJitter         Jitter = "full"         // evenly from 0 to a window that doubles with every attempt: spreads a crowd best
	DecorrelatedJitter Jitter = "decorrelated" // evenly from the base to three times the wait before: never at once again
)

// Retry is what a campaign lets one of its recipients cost.
type Retry struct {
	MaxAttempts int // calls at most; less than 1 is 1
	Jitter      Jitter
}

// Policy decides what an answer means for its row and for the pace. It is
// pure: the same values give the same decision. Its zero value works.
type Policy struct {
	Base      time.Duration // least window of a retry's wait; default 1 s
	Cap       time.Duration // largest wait, whatever the jitter; default 5 min
	PauseBase time.Duration // window of a number's first pause for a throttle; doubles while throttles go on; default 1 s
	PauseCap  time.Duration // largest window of a pause; default 1 min
	Suspects  int           // this many Suspect answers in a row stop a campaign; default 5
}

// WithDefaults is the policy as it acts: every zero field has its default.
func (p Policy) WithDefaults() Policy {
	return Policy{
		Base:      cmp.Or(p.Base, time.Second),
		Cap:       cmp.Or(p.Cap, 5*time.Minute),
		PauseBase: cmp.Or(p.PauseBase, time.Second),
		PauseCap:  cmp.Or(p.PauseCap, time.Minute),
		Suspects:  cmp.Or(p.Suspects, 5),
	}
}

// Settle turns what a call came to into what to write for its row. u in [0,1)
// is the jitter, where the row itself is not. The claim has spent the attempt
// already, so a row whose call was not made, or was refused for pace, gets it
// back.
//
// A row that is given back keeps its old due time: it was the sender that could
// not send, not the recipient who could not be reached, and the old time keeps
// its turn and lets the campaign's other numbers have it at once. The pause
// itself is the number's and is held by the bucket and by the claim.
func (p Policy) Settle(r Recipient, retry Retry, a Answer, u float64) Result {
	p = p.WithDefaults()
	res := Result{Recipient: r.ID, Campaign: r.Campaign, Claim: r.Claim, Code: a.Code, Title: a.Title}
	if a.Spare != SpareNobody {
		res.Spare, res.SpareFor = a.Spare, max(a.After, 0)
	}
	switch a.Action {
	case Accept:
		res.Status, res.MessageID = Accepted, a.MessageID
		if a.Held {
			res.Status = Held
		}
	case Pause, StopCampaign, StopNumber, Release:
		res.giveBack(r)
	case Reschedule:
		switch why := spent(r, retry, a); {
		case a.Throttled:
			p.again(&res, a, u)
		case why != "":
			res.Status, res.Title = Dead, why
		default:
			// The platform's wait comes first and the jitter after it, or all rows
			// that were told the same wait would come due in the same instant.
			res.Status, res.Delay = Pending, max(a.After, 0)+p.wait(r, retry.Jitter, u)
		}
	case Fail:
		res.Status = Failed
		if a.Local { // "failed" is the platform's word, and no call was made
			res.Status, res.Refund = Dead, true
		}
	default: // Reconcile, and whatever else nobody foresaw: never send again blindly
		res.Status = Unknown
	}
	return res
}

// again delays a row whose pair is throttled. It spends nothing: its attempt
// counter stands still, so it cannot drive a window, and the wait is the
// platform's or the base.
func (p Policy) again(res *Result, a Answer, u float64) {
	res.Status, res.Refund = Pending, true
	res.Delay = cmp.Or(max(a.After, 0), p.Base) + time.Duration(jitter(u)*float64(p.Base))
}

// spent is why a row is given up instead of tried again; "" while it is not.
func spent(r Recipient, retry Retry, a Answer) (reason string) {
	switch {
	case a.Once && r.Code == a.Code:
		return ReasonRefused
	case r.Attempt >= max(retry.MaxAttempts, 1):
		return ReasonAttempts
	default:
		return ""
	}
}

// wait is how long a row rests after its n-th attempt.
func (p Policy) wait(r Recipient, kind Jitter, u float64) time.Duration {
	if kind == DecorrelatedJitter {
		return p.decorrelated(r.ID, r.Attempt)
	}
	return time.Duration(jitter(u) * window(p.Base, p.Cap, r.Attempt))
}

// Waits is the least and the most that a row waits after its n-th attempt,
// beyond what the platform asks for.
func (p Policy) Waits(kind Jitter, attempt int) (least, most time.Duration) {
	p = p.WithDefaults()
	if kind == DecorrelatedJitter {
		return min(p.Base, p.Cap), time.Duration(min(float64(p.Cap), float64(p.Base)*math.Pow(3, float64(attempt))))
	}
	return 0, time.Duration(window(p.Base, p.Cap, attempt))
}

// longestChain is the most attempts that a campaign can allow.
const longestChain = 100

// decorrelated draws each wait from the one before it. No row remembers its
// last wait, so every draw follows from the row and the attempt alone, and the
// waits so far can be known again.
func (p Policy) decorrelated(id int64, attempt int) time.Duration {
	wait := float64(min(p.Base, p.Cap))
	for ago := min(attempt, longestChain) - 1; ago >= 0; ago-- {
		wait = min(float64(p.Cap), float64(p.Base)+draw(id, attempt-ago)*(3*wait-float64(p.Base)))
	}
	return time.Duration(wait)
}

// draw is a number in [0,1) that depends on a row and an attempt: splitmix64.
func draw(id int64, attempt int) float64 {
	x := uint64(id)*0x9e3779b97f4a7c15 + uint64(attempt)
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	x ^= x >> 31
	return float64(x>>11) / (1 << 53)
}

// Failing is how a campaign's newest messages fare: those that were accepted,
// and failed, after the newest one that lives was accepted.
type Failing struct {
	Failures int           // of them
	Suspects int           // of those, more likely the campaign's fault than the row's
	Span     time.Duration // between the acceptances of the first and the last
}

// A campaign stops when so many messages in a row failed after they were
// accepted, or Policy.Suspects of them suspiciously, and no other was heard to
// live that was accepted meanwhile, in so much time: of a crowd accepted at once
// the failed may be heard of before the others.
const (
	FailedInRow = 50
	FailedSpan  = time.Second
)

// Hopeless reports whether a campaign that fares so should stop by itself.
func (p Policy) Hopeless(f Failing) bool {
	return f.Span >= FailedSpan && (f.Failures >= FailedInRow || f.Suspects >= p.WithDefaults().Suspects)
}

// giveBack makes the result that undoes a claim.
func (res *Result) giveBack(r Recipient) {
	res.Status, res.Refund, res.KeepDue, res.Due = Pending, true, true, r.Due
}

// pause is how long a number rests after its strikes-th throttle in a row:
// full jitter, never shorter than the platform asked.
func (p Policy) pause(strikes int, after time.Duration, u float64) time.Duration {
	p = p.WithDefaults()
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

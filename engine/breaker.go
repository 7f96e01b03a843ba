package engine

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// HostScope is the breaker of the platform itself: the whole fleet's.
const HostScope = "host"

// NumberScope is the breaker of one number.
func NumberScope(number string) string { return "number:" + number }

// BreakerState is how a breaker stands.
type BreakerState uint8

// The states; the numbers are what weir_breaker_state shows.
const (
	BreakerClosed   BreakerState = iota // work goes on
	BreakerHalfOpen                     // one probe is out, nothing else is claimed
	BreakerOpen                         // nothing is claimed
)

var breakerNames = [...]string{"closed", "half_open", "open"}

// String is the state's name, in Postgres and as a metric label.
func (s BreakerState) String() string { return breakerNames[s] }

// BreakerStates lists every state; metrics make their series from it.
func BreakerStates() []BreakerState {
	return []BreakerState{BreakerClosed, BreakerHalfOpen, BreakerOpen}
}

// ParseBreakerState reads what String writes.
func ParseBreakerState(name string) (BreakerState, error) {
	i := slices.Index(breakerNames[:], name)
	if i < 0 {
		return 0, fmt.Errorf("no breaker state is called %q", name)
	}
	return BreakerState(i), nil
}

// BreakerPolicy is when a breaker trips and how it comes back. Its zero value
// works.
type BreakerPolicy struct {
	Failures  int           // upstream failures in a row that trip; default 5
	Throttles int           // throttles in a row that trip a number, each after the pause of the one before; default 5
	Samples   int           // the share is judged of no fewer calls; default 50
	Share     float64       // share of failed calls that trips; default 0.2
	Window    time.Duration // which calls the share is taken of; default 10 s
	Abstain   time.Duration // a node that has not reported for this long has no vote about the host; default 5 s
	Base      time.Duration // first timeout; doubles with every failed probe; default 3 s
	Cap       time.Duration // largest timeout; default 5 min
}

// WithDefaults is the policy as it acts: every zero field has its default.
func (p BreakerPolicy) WithDefaults() BreakerPolicy {
	return BreakerPolicy{
		Failures:  cmp.Or(p.Failures, 5),
		Throttles: cmp.Or(p.Throttles, 5),
		Samples:   cmp.Or(p.Samples, 50),
		Share:     cmp.Or(p.Share, 0.2),
		Window:    cmp.Or(p.Window, 10*time.Second),
		Abstain:   cmp.Or(p.Abstain, 5*time.Second),
		Base:      cmp.Or(p.Base, 3*time.Second),
		Cap:       cmp.Or(p.Cap, 5*time.Minute),
	}
}

// Breaker is how one scope stands, on the database's clock.
type Breaker struct {
	Scope  string
	State  BreakerState
	Mark   string        // changes with every move, also with those that nobody here saw
	Age    time.Duration // since it came into this state; 0 when it never moved
	Wait   time.Duration // until a probe permit can be had; 0 = now. Open, half-open
	Forced bool          // an operator holds it open or closed
	Others time.Duration // of the host alone: since another node than the one that asks reported calls that went well; 0 = not lately
}

// Tally is what the calls of one scope came to since the last report.
type Tally struct {
	Lease    LeaseID // of the number; zero for the host
	Samples  int     // calls that say something of the platform: successes and failures
	Failures int
	Streak   int // failures in a row up to now, also over earlier reports
	Storm    int // throttles in a row up to now, each after the pause of the one before
	Times    Times
}

// Scope is whose tally it is.
func (t Tally) Scope() string {
	if t.Lease.Number == "" {
		return HostScope
	}
	return NumberScope(t.Lease.Number)
}

// Report is one node's tallies since its last report. A report of the same
// node and Seq counts once, however often it is sent.
type Report struct {
	Node    string
	Seq     int64 // grows with every report, also over restarts of the node
	Policy  BreakerPolicy
	Tallies []Tally
}

// PermitAsk asks for the one probe of a scope that is open past its timeout,
// or whose last probe never came back.
type PermitAsk struct {
	Scope string
	Lease LeaseID       // of the lane that would send it
	For   time.Duration // how long the permit lasts: longer than the probe's call can reach the platform
}

// Probed is what a probe came to.
type Probed struct {
	Scope  string
	Token  string
	End    ProbeEnd
	Policy BreakerPolicy
}

// ProbeEnd is how a probe ended.
type ProbeEnd uint8

// The ends of a probe.
const (
	ProbeUnused    ProbeEnd = iota // nothing was learned: no row, or this node's own trouble; open again, for as long as before
	ProbeAnswered                  // the platform is up, whatever it said of the message: closed
	ProbeThrottled                 // the platform is up; but a breaker that throttles tripped opens again, for longer
	ProbeFailed                    // open again, for longer
)

var probeEndNames = [...]string{"unused", "answered", "throttled", "failed"}

// String is the end's name in the store's statement.
func (e ProbeEnd) String() string { return probeEndNames[e] }

package engine

import "time"

const (
	localBase   = time.Second      // first timeout of this node's breaker; doubles with every opening and every question that is not answered
	localCap    = time.Minute      // largest
	localSteady = 30 * time.Second // closed for this long, its next opening is a first one again
)

// LocalScope names the breaker of one node's own way to the platform. It is not
// in Postgres: nobody else can tell how it stands.
const LocalScope = "local"

// echo is what the end of a call says of this node's own way to the platform.
type echo uint8

const (
	noEcho  echo = iota // nothing: no call was made, or one number alone is in trouble here
	heard               // the platform's own word came back, whatever it was
	unheard             // written, and nothing of the platform's came back: the way's fault or the platform's
	cutOff              // this side's trouble: a name, a route, a certificate, our own proxy
)

func (a Answer) echo() echo {
	switch {
	case a.verdict() == saysLocal && a.Scope >= ScopeNumber, a.Action == Release && !a.Local:
		return noEcho
	case a.verdict() == saysLocal:
		return cutOff
	case a.Local:
		return noEcho
	case a.Action == Reconcile && a.Code == 0:
		return unheard
	default:
		return heard
	}
}

// local is a node's own breaker. It opens by calls that this node's own trouble
// kept from the platform, so many in a row without one word of the platform's;
// and by calls that vanish, or are answered by something else, when it has also
// asked in vain and others' calls go well: else it would be the platform, which
// its own breaker is for.
//
//	closed ─ so many failures in a row ─► open ─ the platform is asked, and answers ─► half-open
//	  ▲                                     ▲ └─ no answer: twice the timeout                 │
//	  │                                     └───────────────── one message fails ─────────────┤
//	  └────────────────────────────────────────────────────────── one message is answered ────┘
type local struct {
	failures int // in a row that open it

	state  BreakerState
	since  time.Time // it came into its state; what was begun before says nothing of it
	streak int       // failures of this node's own in a row, questions without an answer too
	mute   int       // calls in a row that brought nothing of the platform's back
	wait   time.Duration
	until  time.Time // open: then the platform is asked
	out    bool      // half-open: the one message is under way
}

func (l *local) move(to BreakerState, now time.Time) {
	l.state, l.since, l.streak, l.mute, l.out = to, now, 0, 0, false
}

func (l *local) open(now time.Time) {
	if l.state == BreakerClosed && now.Sub(l.since) >= localSteady {
		l.wait = 0
	}
	l.delay(now)
	l.move(BreakerOpen, now)
}

func (l *local) delay(now time.Time) {
	l.wait = min(max(2*l.wait, localBase), localCap)
	l.until = now.Add(l.wait)
}

// count takes up how a call ended. mine: it was this node's own trouble and says
// nothing of the platform or the number, as a call does that was under way when
// the breaker opened and was never heard of again.
func (l *local) count(w echo, begun, now time.Time) (mine bool) {
	bad := w == unheard || w == cutOff
	switch {
	case begun.Before(l.since) || l.state == BreakerOpen:
		return bad
	case l.state == BreakerHalfOpen:
		if bad {
			l.open(now)
		} else if w == heard {
			l.move(BreakerClosed, now)
		}
		return bad
	}
	switch w {
	case heard:
		l.streak, l.mute = 0, 0
	case unheard:
		l.mute++
	case cutOff:
		l.fail(now)
		return true
	}
	return false
}

func (l *local) fail(now time.Time) {
	if l.streak++; l.streak >= l.failures {
		l.open(now)
	}
}

// asks reports whether it is time to ask the platform for any word of its own:
// once an opening is over, and while it is closed and in doubt. silent: calls
// are overdue, and none has come back.
func (l *local) asks(silent bool, now time.Time) bool {
	switch l.state {
	case BreakerOpen:
		return !now.Before(l.until)
	case BreakerClosed:
		return l.streak > 0 || l.vanishes(silent)
	default:
		return false
	}
}

// vanishes: what is sent is not heard of again.
func (l *local) vanishes(silent bool) bool { return silent || l.mute >= l.failures }

// asked takes up whether the platform answered. others: since the doubt began
// the calls of other nodes have gone well.
func (l *local) asked(answered, silent, others bool, now time.Time) {
	switch {
	case l.state == BreakerOpen && answered:
		l.move(BreakerHalfOpen, now)
	case l.state == BreakerOpen:
		l.delay(now)
	case l.state != BreakerClosed:
	case answered:
		l.streak, l.mute = 0, 0
	case l.streak > 0:
		l.fail(now)
	case l.vanishes(silent) && others:
		l.open(now)
	}
}

// take gives the one message of half-open away; it comes back by count, or by
// an end that says nothing.
func (l *local) take() bool {
	if l.state != BreakerHalfOpen || l.out {
		return false
	}
	l.out = true
	return true
}

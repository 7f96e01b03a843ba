package chaos

import (
	"time"

	"github.com/weirhq/weir/internal/sim"
)

// Figures are what a run measured beside its properties. Durations are 0 where
// nothing of the kind happened.
type Figures struct {
	Requests int
	Doubled  int           // people with two accepted messages
	Unknown  int           // times that a recipient became unknown
	Takeover time.Duration // longest from a node's death or silence to the next owner's first allowed call
	Handover time.Duration // longest from a release to the next owner's first allowed call
	Silence  time.Duration // longest that a number sent nothing around a release
	Back     time.Duration // longest from a fault to 90 % of the pace: from its end where the fault lets nobody send
	Way      time.Duration // least slack for which the pace held in every window
	Confirm  time.Duration // longest that an operator waited for a pause or a cancel
}

func measure(e *evidence) (f Figures) {
	f.Requests, f.Unknown = len(e.Requests), len(e.Doubts)
	for _, sends := range e.sends {
		accepted := 0
		for _, r := range sends {
			if r.Message != "" {
				accepted++
			}
		}
		if accepted > 1 {
			f.Doubled++
		}
	}
	f.gaps(e)
	for _, m := range e.Marks {
		from := m.Over
		switch m.Kind {
		case MarkBusy, MarkLost:
			continue
		case MarkKill, MarkLeave, MarkStop, MarkCutDB: // another node can go on
			from = m.From
		}
		if back, ok := e.back(from, 0.9); ok {
			f.Back = max(f.Back, back-from)
		}
	}
	for _, c := range e.Calls {
		if c.OK && (c.Name == "pause" || c.Name == "cancel") {
			f.Confirm = max(f.Confirm, c.Over-c.At)
		}
	}
	for _, o := range e.byNumber {
		f.Way = max(f.Way, o.way())
	}
	return f
}

// gaps measures how numbers changed hands.
func (f *Figures) gaps(e *evidence) {
	_, until := e.work()
	for _, g := range e.gaps() {
		switch took := g.to - g.from; {
		case g.to == 0 || g.to > until || g.why == "work began", g.over != 0 && g.to > g.over+e.Run.bound():
		case g.why == "release":
			f.Handover = max(f.Handover, took)
			f.Silence = max(f.Silence, e.byNumber[g.number].silence(g.from))
		default:
			f.Takeover = max(f.Takeover, took)
		}
	}
}

// silence is the time between the last request before an instant and the first
// one after it.
func (o *ownership) silence(at time.Duration) time.Duration {
	for i := 1; i < len(o.requests); i++ {
		if before, after := o.requests[i-1].At, o.requests[i].At; before <= at && after > at {
			return after - before
		}
	}
	return 0
}

// way is the least slack for which the number's pace holds in every window.
func (o *ownership) way() time.Duration {
	w := sim.WorstWindow(o.times(), o.number.Rate, o.number.Burst, 0)
	if w.Excess <= 0 || o.number.Rate <= 0 {
		return 0
	}
	return time.Duration(w.Excess / o.number.Rate * float64(time.Second))
}

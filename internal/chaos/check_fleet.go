package chaos

import (
	"cmp"
	"slices"
	"time"

	"github.com/weirhq/weir/internal/sim"
)

// paced: the number's own pace in every window of its requests, as they
// arrived, and the platform's limit, which pace and burst stay under.
func paced(e *evidence, report report) {
	for id, o := range e.byNumber {
		for _, bound := range []struct {
			what        string
			rate, burst float64
		}{{"pace", o.number.Rate, o.number.Burst}, {"limit", o.number.Limit, 1}} {
			if w := sim.WorstWindow(o.times(), bound.rate, bound.burst, e.Run.Way); w.Excess > 1e-6 {
				report("number %s: %d requests in %v from %v on, %.1f over its %s of %.4g per second", id, w.Count,
					w.Width.Round(time.Millisecond), o.requests[w.First].At.Round(time.Millisecond), w.Excess, bound.what, bound.rate)
			}
		}
	}
}

func (o *ownership) times() []int64 {
	times := make([]int64, len(o.requests))
	for i, r := range o.requests {
		times[i] = int64(r.At)
	}
	return times
}

// clocks is how far the ledger's clock and the database's may differ: both are
// this machine's, the former advanced by the monotonic clock.
const clocks = 20 * time.Millisecond

// owned: every request was claimed, by a lease of the node that made it; in
// order of arrival leases only move forward; none arrives before its lease was
// ready, or after its successor was.
func owned(e *evidence, report report) {
	for id, o := range e.byNumber {
		newest := -1
		for _, r := range o.requests {
			claim := e.claimOf(r)
			if claim == nil {
				report("request %d was made without a claim (recipient %d, claim %d)", r.Seq, r.Recipient, r.Claim)
				continue
			}
			place, ok := o.order[claim.Lease]
			switch {
			case !ok:
				report("request %d was claimed under a lease that number %s never granted", r.Seq, id)
				continue
			case o.grants[place].Holder != r.Node:
				report("request %d came from %s under a lease of %s", r.Seq, r.Node, o.grants[place].Holder)
			case place < newest:
				report("request %d of number %s came under lease %d, after lease %d had begun to send", r.Seq, id, place+1, newest+1)
			case e.Run.Skewed:
			case r.At < o.grants[place].Ready-clocks:
				report("request %d came %v before its lease was ready", r.Seq, o.grants[place].Ready-r.At)
			case place+1 < len(o.grants) && r.At > o.grants[place+1].Ready+e.Run.Way:
				report("request %d came %v after the next lease was ready", r.Seq, r.At-o.grants[place+1].Ready)
			}
			newest = max(newest, place)
		}
	}
}

// bound is how long a number with work may be without an owner: until its
// lease runs out, its silence has been watched, and the quarantine is over.
func (r *Run) bound() time.Duration { return r.TTL + r.Quarantine + r.Poll*5/2 + r.Slack }

// gap is a stretch in which a number had no living owner.
type gap struct {
	number   string
	node     string        // that was its owner; "" if there was none
	from, to time.Duration // to 0: it never got one
	over     time.Duration // when the old owner could go on; 0: never
	why      string
}

// tended: every gap is as short as it can be, not counting the time in which
// nobody could have become the owner.
func tended(e *evidence, report report) {
	_, until := e.work()
	for _, g := range e.gaps() {
		limit := g.from + e.Run.bound()
		limit += e.blocked(g.from, limit, g.node)
		if limit < until && (g.to == 0 || g.to > limit) && (g.over == 0 || g.over > limit) {
			report("number %s had no owner from %v (%s) to %v", g.number, g.from.Round(time.Millisecond), g.why, g.to.Round(time.Millisecond))
		}
	}
}

// gaps are the stretches without an owner: from the start of work, a release,
// a death, or the beginning of a silence that outlasts the lease, to when the
// next lease is ready.
func (e *evidence) gaps() (all []gap) {
	from, until := e.work()
	if e.Run.Skewed || from == 0 {
		return nil
	}
	for id, o := range e.byNumber {
		if len(o.grants) == 0 || o.grants[0].At > from {
			all = append(all, gap{number: id, from: from, to: granted(o.events), why: "work began"})
		}
		for i, ev := range o.events {
			if ev.Kind == "release" && ev.At < until {
				all = append(all, gap{number: id, from: ev.At, to: granted(o.events[i+1:]), why: "release"})
			}
		}
		for _, m := range e.Marks {
			if i := o.at(m.From); m.From < until && e.silences(m) && o.holder(i) == m.Node {
				g := gap{number: id, node: m.Node, from: m.From, to: granted(o.events[i:]), why: m.Kind}
				if m.Kind != MarkKill {
					g.over = m.Over
				}
				all = append(all, g)
			}
		}
	}
	return all
}

// granted is when the first of these grants is ready, or 0.
func granted(events []Lease) time.Duration {
	for _, ev := range events {
		if ev.Kind == "grant" {
			return ev.Ready
		}
	}
	return 0
}

// silences tells that a mark keeps a node from renewing its leases for longer
// than they last.
func (e *evidence) silences(m Mark) bool {
	switch m.Kind {
	case MarkKill:
		return true
	case MarkStop, MarkCutDB:
		return m.Node != "" && m.Over-m.From > e.Run.TTL
	default:
		return false
	}
}

// at is how many of the number's lease events had been written by then.
func (o *ownership) at(then time.Duration) int {
	n, _ := slices.BinarySearchFunc(o.events, then, func(l Lease, then time.Duration) int { return cmp.Compare(l.At, then) })
	return n
}

// holder is the node that holds the number after its first n events, or "".
func (o *ownership) holder(n int) string {
	if n == 0 || o.events[n-1].Kind == "release" {
		return ""
	}
	return o.events[n-1].Holder
}

// blocked is how long, from an instant to another, the database was away from
// everybody or from a bidder (any node but the old owner), the machine was too
// busy for either, or sending had to wait for an operator. Each such time pushes
// the end further out.
func (e *evidence) blocked(from, to time.Duration, owner string) (sum time.Duration) {
	marks := slices.Clone(e.Marks)
	slices.SortFunc(marks, func(a, b Mark) int { return cmp.Compare(a.From, b.From) })
	covered := from
	for _, m := range marks {
		switch m.Kind {
		case MarkDown, MarkHold, MarkBusy:
		case MarkCutDB, MarkStop:
			if m.Node == owner {
				continue
			}
		default:
			continue
		}
		if begin := max(m.From, covered); begin < to+sum && m.Over > begin {
			sum += m.Over - begin
			covered = m.Over
		}
	}
	return sum
}

// resumed: within the bound after a fault is over, and four seconds to get
// going, the fleet sends again at half its pace or more. The rest of the pace
// is a figure, not a promise: it depends on the machine.
func resumed(e *evidence, report report) {
	const getting = 4 * time.Second
	for _, m := range e.Marks {
		if m.Kind == MarkBusy || m.Kind == MarkLost {
			continue
		}
		limit := m.Over + e.Run.bound() + getting
		limit += e.blocked(m.Over, limit, "")
		back, ok := e.back(m.Over, 0.5)
		if ok && back <= limit {
			continue
		}
		if rest := e.after(limit); float64(rest) > 2*e.pace() {
			report("after %q of %s was over at %v, sending did not go on until %v", m.Kind, m.Node, m.Over.Round(time.Millisecond), back.Round(time.Millisecond))
		}
	}
}

// pace is the fleet's, per second.
func (e *evidence) pace() (sum float64) {
	for _, n := range e.Run.Numbers {
		sum += n.Rate
	}
	return sum
}

// back is the first instant from which on, for two seconds, the fleet sends at
// a share of its pace or more.
func (e *evidence) back(from time.Duration, share float64) (time.Duration, bool) {
	const width = 2 * time.Second
	need := int(share * e.pace() * width.Seconds())
	first := e.before(from)
	for last := first; last < len(e.Requests); last++ {
		for e.Requests[last].At-e.Requests[first].At > width {
			first++
		}
		if last-first+1 >= need {
			return max(from, e.Requests[first].At), true
		}
	}
	return 0, false
}

// before is how many requests came before an instant.
func (e *evidence) before(at time.Duration) int {
	n, _ := slices.BinarySearchFunc(e.Requests, at, func(r Request, at time.Duration) int { return cmp.Compare(r.At, at) })
	return n
}

func (e *evidence) after(at time.Duration) int { return len(e.Requests) - e.before(at) }

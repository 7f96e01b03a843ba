package engine

import (
	"slices"
	"sync"
	"time"
)

// guard is a lane's memory of what its answers forbid: how often in a row it
// was throttled, which campaigns failed suspiciously, and what it has stopped.
// It decides; the lane acts. Restraints it asks for wait in orders until the
// claimer has written them, and until then it numbers no claim.
type guard struct {
	policy Policy
	number string

	mu       sync.Mutex
	strikes  int       // throttles in a row; one pause counts once
	rested   time.Time // end of the last pause: only a call begun after it is news
	tempo    tempo
	suspects map[int64]int
	stopped  map[int64]int64 // campaign → last claim batch that the stop covers
	halted   int64           // as stopped, for the whole number; -1 = never
	seq      int64           // last claim batch asked for
	orders   []Restraint
}

func newGuard(p Policy, number string) *guard {
	return &guard{
		policy: p.WithDefaults(), number: number, halted: -1,
		suspects: make(map[int64]int), stopped: make(map[int64]int64),
	}
}

// claim numbers the next claim batch; false while an order waits to be written,
// which its statement could not know of. Numbers are given under the same lock
// as orders, so a batch either has its number first and is covered by the stop,
// or comes after the write: none can slip in between.
func (g *guard) claim() (seq int64, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.orders) > 0 {
		return 0, false
	}
	g.seq++
	return g.seq, true
}

// allows reports whether a row may begin: its batch is newer than any stop of
// its campaign or number. A stop names the last batch claimed, not a flag, so
// that a campaign which an operator has resumed runs again by itself.
func (g *guard) allows(r *row) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.news(r)
}

// news reports whether an answer about this row says something that no
// earlier stop has said. g.mu is held.
func (g *guard) news(r *row) bool {
	until, ok := g.stopped[r.Campaign]
	return r.seq > g.halted && (!ok || r.seq > until)
}

// halt stops a campaign, or the number, for every batch up to the one in
// flight; false when that was done before.
func (g *guard) halt(r *row, kind RestraintKind, a Answer) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.stop(r, kind, a)
}

func (g *guard) stop(r *row, kind RestraintKind, a Answer) bool {
	if !g.news(r) {
		return false
	}
	order := Restraint{Kind: kind, Scope: a.Scope, Number: g.number, Code: a.Code, Reason: a.Title}
	if kind == HaltCampaign {
		order.Campaign = r.Campaign
		g.stopped[r.Campaign] = g.seq
	} else {
		g.halted = g.seq
	}
	g.orders = append(g.orders, order)
	return true
}

// suspect counts failures that look like the campaign's fault and stops it
// when they come one after another; true when this one stopped it.
func (g *guard) suspect(r *row, a Answer) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.news(r) {
		return false
	}
	g.suspects[r.Campaign]++
	if g.suspects[r.Campaign] < g.policy.Suspects {
		return false
	}
	delete(g.suspects, r.Campaign)
	a.Title = ReasonSuspect
	return g.stop(r, HaltCampaign, a)
}

// read takes up the number's settings and returns them as they hold here.
func (g *guard) read(n Number, now time.Time) Number {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.tempo.read(n, now)
}

// accepted forgets suspicion, and strikes when the call began after the pause.
func (g *guard) accepted(campaign int64, begun, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.tempo.accept(now)
	delete(g.suspects, campaign)
	if !begun.Before(g.rested) {
		g.strikes = 0
	}
}

// throttled says how long to pause for a throttle (order: fleet-wide) or for a
// call that never left this machine. Calls begun before the pause ends tell
// nothing new: they are the same storm, and one storm is one strike and one
// lesson.
func (g *guard) throttled(a Answer, begun, now time.Time, u float64) (time.Duration, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if begun.Before(g.rested) {
		return 0, false
	}
	g.strikes++
	d := g.policy.pause(g.strikes, a.After, u)
	g.rested = now.Add(d)
	if a.Action == Pause {
		order := Restraint{Kind: PauseNumber, Scope: a.Scope, Number: g.number, For: d, Code: a.Code, Reason: a.Title}
		if a.Throttled && g.tempo.throttle(now) {
			order.Learned = g.tempo.learned
		}
		g.orders = append(g.orders, order)
	}
	return d, true
}

// pace is the rate and burst that hold now.
func (g *guard) pace(now time.Time) (rate float64, burst int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return pace(g.tempo.now(now))
}

// next is the restraint to write now.
func (g *guard) next() (Restraint, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.orders) == 0 {
		return Restraint{}, false
	}
	return g.orders[0], true
}

// written forgets the restraint that next returned.
func (g *guard) written() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.orders = slices.Delete(g.orders, 0, 1)
}

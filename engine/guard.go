package engine

import (
	"fmt"
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
	stopped  map[subject]int64 // last claim batch that the stop covers
	halted   int64             // as stopped, for the whole number; -1 = never
	seq      int64             // last claim batch asked for
	orders   []Restraint
}

// subject is what a stop is about, short of the number: a campaign or a template.
type subject struct {
	campaign       int64
	name, language string
}

func (r *row) campaign() subject { return subject{campaign: r.Campaign} }

// sends is the row's template; a row of a campaign that the lane does not know
// has none.
func (r *row) sends() subject {
	if r.template == nil {
		return subject{}
	}
	return subject{name: r.template.Name, language: r.template.Language}
}

func newGuard(p Policy, number string) *guard {
	return &guard{
		policy: p.WithDefaults(), number: number, halted: -1,
		suspects: make(map[int64]int), stopped: make(map[subject]int64),
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
	return r.seq > max(g.halted, g.until(r.campaign()), g.until(r.sends()))
}

// until is the last batch that a stop covers, or -1. g.mu is held.
func (g *guard) until(s subject) int64 {
	if seq, ok := g.stopped[s]; ok {
		return seq
	}
	return -1
}

// halt stops a campaign, its template, or the number, as the answer says, for
// every batch up to the one in flight; false when that was done before.
func (g *guard) halt(r *row, a Answer) (order Restraint, news bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.stop(r, a)
}

func (g *guard) stop(r *row, a Answer) (order Restraint, news bool) {
	if !g.news(r) {
		return Restraint{}, false
	}
	order, ok := a.Stops(g.number, r.Campaign)
	if !ok {
		return Restraint{}, false
	}
	switch {
	case order.Kind == HaltNumber:
		g.halted = g.seq
	case order.Scope == ScopeTemplate:
		g.stopped[r.sends()] = g.seq
	default:
		g.stopped[r.campaign()] = g.seq
	}
	g.orders = append(g.orders, order)
	return order, true
}

// suspect counts failures that look like the campaign's fault and stops it
// when they come one after another, news when this one stopped it. over: it is
// stopped already, and this call was under way.
func (g *guard) suspect(r *row, a Answer) (order Restraint, news, over bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if r.seq <= max(g.until(r.campaign()), g.until(r.sends())) {
		return Restraint{}, false, true
	}
	g.suspects[r.Campaign]++
	if g.suspects[r.Campaign] < g.policy.Suspects {
		return Restraint{}, false, false
	}
	delete(g.suspects, r.Campaign)
	order, news = g.stop(r, Answer{
		Action: StopCampaign, Scope: ScopeCampaign, Code: a.Code, Advice: a.Advice,
		Title: fmt.Sprintf("%s, %d times in a row", a.Title, g.policy.Suspects),
	})
	return order, news, false
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

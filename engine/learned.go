package engine

import (
	"math"
	"time"
)

// Learned is what throttles have taught about a number's pace. Nothing but its
// age changes between two lessons: the pace is a function of these three, so a
// new owner goes on exactly where the last one was.
type Learned struct {
	Rate    float64       // messages per second right after the last lesson; 0: none yet
	Ceiling float64       // messages per second that were accepted when it was learned
	Age     time.Duration // since the lesson, on the database's clock
}

const (
	lessonShare  = 0.9         // of what was accepted is the pace after a lesson
	regainAll    = time.Minute // climbing by the whole configured rate takes this long
	leastLearned = 1.0         // messages per second: no lesson goes below it,
	leastShare   = 0.05        // nor below this share of the configured rate
)

// rate is the pace now, at most the configured one. It is the curve of CUBIC
// (RFC 9438), made for the same question: fast from the lesson towards the
// ceiling, slow around it, where the platform's limit probably still is, and
// ever faster beyond, since then it has risen.
//
// A climb in a straight line would either meet a limit that stays again every
// few seconds, or take many minutes to notice one that has gone.
func (l Learned) rate(configured float64) float64 {
	if !(l.Rate > 0) || !(configured > 0) {
		return configured
	}
	level := math.Cbrt((l.Ceiling - l.Rate) / configured) // when the ceiling is reached, in regainAlls
	x := l.Age.Seconds()/regainAll.Seconds() - level
	climbed := l.Ceiling + configured*x*x*x
	return min(max(climbed, floorOf(configured)), configured)
}

// lesson is what is known after a throttle that came while so many messages
// per second were accepted.
func (l Learned) lesson(configured, accepted float64) Learned {
	floor := floorOf(configured)
	ceiling := max(min(accepted, l.rate(configured)), floor)
	return Learned{Rate: max(lessonShare*ceiling, floor), Ceiling: ceiling}
}

// floorOf is the least pace that throttles can bring a number to.
func floorOf(configured float64) float64 {
	return min(max(leastLearned, leastShare*configured), configured)
}

// tempo is what a lane knows of its number's pace. It is touched under its
// guard's lock.
type tempo struct {
	number   Number    // as last read
	learned  Learned   // the last lesson; its Age is not kept up
	at       time.Time // when it was learned, on this node's clock
	accepted recent
	fed      bool // something was accepted since the last lesson
}

// read takes up the number's settings, and the lesson in them when it is later
// than the one known here: the one known here may not be written yet. It
// returns the number as it stands, with the lesson that holds.
func (t *tempo) read(n Number, now time.Time) Number {
	t.number = n
	if at := now.Add(-n.Learned.Age); n.Learned.Rate > 0 && at.After(t.at) {
		t.learned, t.at = n.Learned, at
	}
	return t.now(now)
}

// now is the number with its lesson as old as it is.
func (t *tempo) now(now time.Time) Number {
	n := t.number
	n.Learned = t.learned
	n.Learned.Age = max(now.Sub(t.at), 0)
	return n
}

// throttle learns from a pause; false when it says nothing about the pace. A
// platform that lets nothing through would do so at any pace: the pause grows
// then, and the pace stays.
func (t *tempo) throttle(now time.Time) bool {
	n := t.now(now)
	configured := n.Rate()
	if !t.fed || !(configured > 0) {
		return false
	}
	rate := n.Learned.rate(configured)
	// The platform counts by the second. A slow number needs longer for its
	// rate to be told from chance.
	span := max(time.Second, time.Duration(10/rate*float64(time.Second)))
	t.learned, t.at, t.fed = n.Learned.lesson(configured, t.accepted.rate(now, span)), now, false
	return true
}

// accept counts an acceptance.
func (t *tempo) accept(now time.Time) {
	t.fed = true
	t.accepted.add(now)
}

const (
	recentSlot  = 100 * time.Millisecond
	recentSlots = 128 // so at most 12.8 s can be looked back on
)

// recent counts events of the last seconds. Its zero value is empty.
type recent struct {
	counts [recentSlots]int32
	epoch  time.Time // start of slot 0
	newest int64     // the slot that add was last in
}

// add counts one event now; time does not go back.
func (r *recent) add(now time.Time) {
	r.advance(now)
	r.counts[r.newest%recentSlots]++
}

// advance forgets the slots that have been passed since the last look.
func (r *recent) advance(now time.Time) {
	if r.epoch.IsZero() {
		r.epoch = now
	}
	slot := int64(max(now.Sub(r.epoch), 0) / recentSlot)
	for gone := max(r.newest+1, slot-recentSlots+1); gone <= slot; gone++ {
		r.counts[gone%recentSlots] = 0
	}
	r.newest = max(r.newest, slot)
}

// rate is how many events a second there were in the span before now, of which
// up to a slot is left out; what was before the first event counts as none.
func (r *recent) rate(now time.Time, span time.Duration) float64 {
	r.advance(now)
	slots := min(max(int64(span/recentSlot), 1), recentSlots)
	n := int32(0)
	for slot := max(r.newest-slots+1, 0); slot <= r.newest; slot++ {
		n += r.counts[slot%recentSlots]
	}
	covered := now.Sub(r.epoch) - time.Duration(r.newest-slots+1)*recentSlot
	return float64(n) / covered.Seconds()
}

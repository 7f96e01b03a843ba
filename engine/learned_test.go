package engine

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestALessonFadesOnItsCurve(t *testing.T) {
	t.Parallel()
	const configured = 64
	l := Learned{}.lesson(configured, 20)
	if l.Rate != 18 || l.Ceiling != 20 || l.Age != 0 {
		t.Fatalf("lesson %+v, want nine tenths of the 20 that were accepted", l)
	}
	for _, tt := range []struct {
		after    time.Duration
		min, max float64
	}{
		{0, 18, 18},
		{5 * time.Second, 19.1, 19.4},      // fast at first
		{15 * time.Second, 19.9, 20},       // at the ceiling well within a minute,
		{25 * time.Second, 20, 20.1},       // where it stays a while,
		{40 * time.Second, 22, 24},         // and then faster and faster
		{75 * time.Second, configured, 64}, // and all of it within two minutes
	} {
		l.Age = tt.after
		if rate := l.rate(configured); rate < tt.min-1e-9 || rate > tt.max+1e-9 {
			t.Errorf("%v after the lesson: %.2f a second, want %v to %v", tt.after, rate, tt.min, tt.max)
		}
	}
	if rate := (Learned{}).rate(configured); rate != configured {
		t.Errorf("nothing learned: %v a second, want %v", rate, configured)
	}
}

// Whatever was learned, when and of whom: the pace is between the floor and
// what is configured, a lesson never makes it faster, and it comes back.
func TestLearnedInvariants(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		configured := rapid.Float64Range(0.1, 1000).Draw(t, "configured")
		floor := math.Min(math.Max(1, configured/20), configured)
		l := Learned{}
		for range rapid.IntRange(1, 6).Draw(t, "lessons") {
			l.Age += time.Duration(rapid.Int64Range(0, int64(2*time.Minute)).Draw(t, "age"))
			before := l.rate(configured)
			l = l.lesson(configured, rapid.Float64Range(0, 2000).Draw(t, "accepted"))
			if now := l.rate(configured); now > before+1e-6 || now < floor-1e-6 {
				t.Fatalf("%+v: the lesson made %v of %v; the floor is %v", l, now, before, floor)
			}
		}
		last := 0.0
		for age := time.Duration(0); age <= 2*time.Minute; age += time.Second {
			l.Age = age
			rate := l.rate(configured)
			if rate < last || rate > configured || math.IsNaN(rate) {
				t.Fatalf("%+v: %v a second after %v", l, rate, last)
			}
			if age == time.Minute && rate < l.Ceiling-1e-6 {
				t.Fatalf("%+v: %v a second after a minute, under its ceiling", l, rate)
			}
			last = rate
		}
		if last != configured {
			t.Fatalf("%+v: only %v of %v a second after two minutes", l, last, configured)
		}
	})
}

func TestALessonComesOncePerPauseAndFromWhatWasAccepted(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	g := newGuard(Policy{}, testNumber)
	g.read(number(80, 0.2), now)
	pass := func(n int, d time.Duration) {
		for i := range n {
			g.accepted(1, now, now.Add(time.Duration(i)*d/time.Duration(n)))
		}
		now = now.Add(d)
	}
	throttle := Answer{Action: Pause, Scope: ScopeNumber, Throttled: true}
	taught := func(a Answer) float64 {
		begun := now
		d, _ := g.throttled(a, begun, now, 0.5)
		g.throttled(a, begun, now, 0.5) // the same storm
		now = now.Add(d)
		order, ok := g.next()
		if !ok {
			t.Fatal("no restraint")
		}
		g.written()
		return order.Learned.Rate
	}
	pass(192, 3*time.Second)
	if rate := taught(throttle); math.Abs(rate-57.6) > 2 {
		t.Errorf("64 a second were accepted: learned %v", rate)
	}
	if rate := taught(throttle); rate != 0 {
		t.Errorf("nothing was accepted since the last pause, and yet %v was learned", rate)
	}
	now = now.Add(time.Second)
	pass(20, time.Second)
	if rate := taught(Answer{Action: Pause, Scope: ScopeNumber, After: time.Minute}); rate != 0 {
		t.Errorf("a number in maintenance taught %v", rate)
	}
	pass(20, time.Second)
	if rate := taught(throttle); math.Abs(rate-18) > 1 {
		t.Errorf("20 a second were accepted: learned %v", rate)
	}
	if _, ok := g.next(); ok {
		t.Error("one pause was ordered twice")
	}
}

// What this lane has learned stands until the database tells of something
// later, and not of an older lesson.
func TestTheLaterLessonStands(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	var mine tempo
	n := number(80, 0.2)
	n.Learned = Learned{Rate: 30, Ceiling: 40, Age: 10 * time.Second}
	if got := mine.read(n, now); got.Learned != n.Learned {
		t.Errorf("a new owner has %+v, want its predecessor's %+v", got.Learned, n.Learned)
	}
	mine.accept(now)
	if !mine.throttle(now) {
		t.Fatal("nothing learned")
	}
	lesson := mine.learned
	n.Learned.Age += time.Second // read again before the lesson was written
	if got := mine.read(n, now.Add(time.Second)); got.Learned.Rate != lesson.Rate || got.Learned.Age != time.Second {
		t.Errorf("an older lesson became %+v, want %+v", got.Learned, lesson)
	}
	n.Learned = Learned{Rate: 10, Ceiling: 11} // another owner's, later
	if got := mine.read(n, now.Add(2*time.Second)); got.Learned != n.Learned {
		t.Errorf("a later lesson became %+v, want %+v", got.Learned, n.Learned)
	}
}

func TestRecentCountsAsANaiveCountDoes(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var r recent
		start := time.Unix(1000, 0)
		now := start
		var at []time.Time
		for _, gap := range rapid.SliceOf(rapid.Int64Range(0, int64(3*time.Second))).Draw(t, "gaps") {
			now = now.Add(time.Duration(gap))
			r.add(now)
			at = append(at, now)
		}
		now = now.Add(time.Duration(rapid.Int64Range(0, int64(20*time.Second)).Draw(t, "then")))
		span := time.Duration(rapid.Int64Range(int64(time.Second), int64(10*time.Second)).Draw(t, "span"))
		n, nearly := 0, 0
		for _, e := range at {
			switch age := now.Sub(e); {
			case age < span-2*recentSlot:
				n++
			case age <= span:
				nearly++
			}
		}
		got := r.rate(now, span)
		least, most := float64(n)/span.Seconds(), float64(n+nearly)/(span-2*recentSlot).Seconds()
		if got < least-1e-9 || got > most+1e-9 {
			t.Fatalf("%v a second over %v, want %v to %v", got, span, least, most)
		}
	})
}

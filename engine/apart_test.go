package engine

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestANodeThatLosesItsNameServer: one of three nodes resolves nothing for a
// minute. Within seconds the others send for its numbers, at their full rate; no
// attempt is spent, nobody is called twice, no breaker of the fleet moves; and
// afterwards it has its share again.
func TestANodeThatLosesItsNameServer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const numbers = 12
		f := newCrew(t, numbers)
		ways := f.outposts("a", "b", "c")
		time.Sleep(30 * time.Second)
		if load := f.load(); load["a"] != 4 || load["b"] != 4 || load["c"] != 4 {
			t.Fatalf("numbers by node: %v", load)
		}
		ways["b"].breaks("dns")
		broken := time.Now()
		time.Sleep(8 * time.Second)
		if load := f.load(); load["b"] != 0 || load[""] != 0 {
			t.Errorf("8 s after it broke, numbers by node: %v", load)
		}
		time.Sleep(52 * time.Second)
		ways["b"].breaks("")
		mended := time.Now()
		// A second each: full is one a second and number.
		if n := f.calls(broken.Add(8*time.Second), mended); n < 52*numbers*95/100 {
			t.Errorf("%d calls in the 52 s in which two nodes had all %d numbers", n, numbers)
		}
		if n := ways["b"].count(&ways["b"].claims); n > 4*(5+4) {
			t.Errorf("the broken node tried %d rows", n)
		}
		if n := ways["b"].count(&ways["b"].asked); n < 3 || n > 20 {
			t.Errorf("it asked %d times in a minute", n)
		}
		f.settles(localCap + 30*time.Second)
		f.end()
		f.untouched()
		f.settled(2000)
	})
}

// When no node reaches the platform every number stays where it is, once all have
// noticed, and nothing is lost: when they do again, they go on. A node alone does
// the same.
func TestNodesThatAreAllCutOffKeepTheirNumbers(t *testing.T) {
	t.Parallel()
	for name, ids := range map[string][]string{"one": {"a"}, "three": {"a", "b", "c"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				const numbers = 6
				f := newCrew(t, numbers)
				ways := f.outposts(ids...)
				time.Sleep(20 * time.Second)
				for _, o := range ways {
					o.breaks("dns")
				}
				broken := time.Now()
				time.Sleep(15 * time.Second) // the last to notice may be given what the first had
				grants := f.grants()
				time.Sleep(10 * time.Minute)
				if load := f.load(); load[""] != 0 || f.grants() != grants {
					t.Errorf("%d numbers moved in 10 min: %v", f.grants()-grants, load)
				}
				for id, o := range ways {
					if o.count(&o.claims) > 2*numbers*9 {
						t.Errorf("node %s tried %d rows in 10 min", id, o.count(&o.claims))
					}
					o.breaks("")
				}
				if n := f.calls(broken.Add(time.Second), time.Now()); n > 0 {
					t.Errorf("%d calls through no way at all", n)
				}
				time.Sleep(10 * time.Minute)
				f.end()
				f.untouched()
				f.settled(2000)
			})
		})
	}
}

// One node after another: numbers go to whoever is left, and when the last is
// cut off too they stay there.
func TestNumbersFollowTheLastNodeThatReachesThePlatform(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newCrew(t, 6)
		ways := f.outposts("a", "b", "c")
		time.Sleep(20 * time.Second)
		ways["a"].breaks("dns")
		time.Sleep(10 * time.Second)
		ways["c"].breaks("dns")
		time.Sleep(10 * time.Second)
		if load := f.load(); load["b"] != 6 {
			t.Errorf("two are cut off: %v", load)
		}
		ways["b"].breaks("dns")
		time.Sleep(10 * time.Second)
		grants := f.grants()
		time.Sleep(5 * time.Minute)
		if load := f.load(); load["b"] != 6 || f.grants() != grants {
			t.Errorf("all are cut off: %v, and %d numbers moved in 5 min", load, f.grants()-grants)
		}
		ways["a"].breaks("")
		time.Sleep(localCap + 15*time.Second)
		if load := f.load(); load["a"] != 6 {
			t.Errorf("one is back: %v", load)
		}
		for _, o := range ways {
			o.breaks("")
		}
		f.settles(localCap + 30*time.Second)
		f.end()
		f.untouched()
	})
}

// What a node writes vanishes, while others' calls go well: it stops after about
// a second's worth, long before the first of its calls has timed out, and its
// number's breaker does not move. Its numbers go on elsewhere once its calls have
// ended.
func TestANodeWhoseCallsVanishStops(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newCrew(t, 2)
		for _, n := range f.store.numbers {
			n.Limit = 11
		}
		ways := f.outposts("a", "b")
		time.Sleep(20 * time.Second)
		ways["a"].breaks("hang")
		time.Sleep(20 * time.Second)
		if load := f.load(); load["a"] != 0 || load[""] != 0 {
			t.Errorf("numbers by node: %v", load)
		}
		if n := ways["a"].count(&ways["a"].lost); n < 5 || n > 20 {
			t.Errorf("%d calls vanished at 10 a second", n)
		}
		ways["a"].breaks("")
		f.settles(localCap + 30*time.Second)
		f.end()
		f.untouched()
		if got := f.store.counts(1); got[Unknown] != ways["a"].count(&ways["a"].lost) || got[Accepted] != 2000-ways["a"].count(&ways["a"].lost) {
			t.Errorf("%v, of which %d vanished", got, ways["a"].count(&ways["a"].lost))
		}
	})
}

// When nobody's calls come back it is the platform, and its breaker's matter,
// whatever the nodes' questions come to.
func TestAPlatformThatHangsIsNoNodesTrouble(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newCrew(t, 20)
		apart := 0
		before := f.store.before
		f.store.before = func(op string, v any) error {
			if b, ok := v.(Beat); ok && b.Apart {
				apart++
			}
			return before(op, v)
		}
		ways := f.outposts("a", "b")
		time.Sleep(20 * time.Second)
		for _, o := range ways {
			o.breaks("hang")
		}
		time.Sleep(30 * time.Second)
		for _, o := range ways {
			o.breaks("")
		}
		time.Sleep(6 * time.Minute)
		f.end()
		if apart > 0 {
			t.Errorf("%d beats of nodes that thought themselves cut off", apart)
		}
		if story := f.store.story(HostScope); !strings.HasPrefix(story, "open consecutive") || !strings.HasSuffix(story, "closed probe_answered") {
			t.Errorf("the host: %s", story)
		}
		lost := ways["a"].count(&ways["a"].lost) + ways["b"].count(&ways["b"].lost)
		if got := f.store.counts(1); got[Unknown] != lost || got[Accepted] != 2000-lost || lost > 45 {
			t.Errorf("%v, of which %d vanished", got, lost)
		}
	})
}

// A way that answers questions and swallows messages is tried with one message
// at a time, ever more rarely.
func TestAWayThatSwallowsMessagesIsTriedWithOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newCrew(t, 4)
		ways := f.outposts("a")
		time.Sleep(20 * time.Second)
		ways["a"].breaks("dns")
		time.Sleep(5 * time.Second)
		ways["a"].breaks("post")
		time.Sleep(5 * time.Minute)
		if n := ways["a"].count(&ways["a"].lost); n < 3 || n > 15 {
			t.Errorf("%d messages were tried", n)
		}
		ways["a"].breaks("")
		time.Sleep(15 * time.Minute)
		f.end()
		f.untouched()
		f.settled(2000 - ways["a"].count(&ways["a"].lost))
	})
}

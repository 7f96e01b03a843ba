package store

import (
	"slices"
	"testing"
	"time"

	"github.com/weirhq/weir/engine"
)

// A node that cannot reach the platform lives, and everybody sees that it takes
// no numbers, until its next beat says otherwise or it lives no more.
func TestCensusTellsWhoIsApart(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	beat := func(node string, apart bool) {
		t.Helper()
		_, err := l.Heartbeat(t.Context(), engine.Beat{Node: node, TTL: labTTL, Apart: apart})
		l.must(err)
	}
	census := func(what string, living, apart []string) {
		t.Helper()
		c, err := l.Census(t.Context(), labTTL)
		l.must(err)
		if !slices.Equal(c.Nodes, living) || !slices.Equal(c.Apart, apart) {
			t.Errorf("%s: %v live, %v are apart; want %v and %v", what, c.Nodes, c.Apart, living, apart)
		}
	}
	beat("a", true)
	beat("b", false)
	beat("c", true)
	census("two of three from their first beat", []string{"a", "b", "c"}, []string{"a", "c"})
	beat("a", false)
	beat("b", true)
	census("one is back, another is apart", []string{"a", "b", "c"}, []string{"b", "c"})
	l.exec(`UPDATE nodes SET seen_at = now() - interval '11 s' WHERE id = 'c'`)
	census("one is silent", []string{"a", "b"}, []string{"b"})
}

// What others' calls come to is told to whoever asks, and only what others' do,
// and only what is of now: by it a node tells its own trouble from the platform's.
func TestOthersCallsAreToldOfTheHost(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	ago := func(what, node string, told bool) {
		t.Helper()
		all, err := l.Breakers(t.Context(), node, []string{labScope})
		l.must(err)
		reported := l.report(node)
		for _, b := range []engine.Breaker{byScope(all)["host"], reported["host"]} {
			if (b.Others > 0) != told || b.Others > time.Minute {
				t.Errorf("%s: %s is told that others did well %v ago", what, node, b.Others)
			}
		}
		if n := byScope(all)[labScope].Others; n != 0 {
			t.Errorf("%s: told %v of a number", what, n)
		}
	}
	ago("nobody has called", "a", false)
	l.report("a", host(10, 0, 0))
	ago("its own calls", "a", false)
	ago("another's", "b", true)
	l.report("b", host(10, 10, 4))
	ago("all of another's have failed", "a", false)
	l.report("b", host(10, 9, 4))
	ago("not all of another's have", "a", true)
	l.later(6 * time.Second)
	ago("long ago", "a", false)
	ago("long ago", "b", false)
}

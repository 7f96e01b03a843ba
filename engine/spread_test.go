package engine

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// numbersOf writes a fleet down: "a" owned by a, "." an orphan, "0", "1", "2"
// open for so many rounds. Numbers are called 00, 01, …
func numbersOf(fleet string) []post {
	posts := make([]post, len(fleet))
	for i, c := range fleet {
		posts[i].number = fmt.Sprintf("%02d", i)
		switch {
		case c >= 'a':
			posts[i].holder = string(c)
		case c >= '0':
			posts[i].open, posts[i].round = true, int(c-'0')
		}
	}
	return posts
}

func TestSpread(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		fleet, nodes string
		me           string
		bids         []string
		left         map[string]string
		give         []string
	}{
		"alone takes all":                    {"000", "a", "a", []string{"00", "01", "02"}, nil, nil},
		"two take turns":                     {"0000", "ab", "b", []string{"01", "03"}, map[string]string{"00": "a", "02": "a"}, nil},
		"the least loaded first":             {"aab00", "ab", "a", []string{"04"}, map[string]string{"03": "b"}, nil},
		"passed by another for two rounds":   {"ab2", "ab", "b", []string{"02"}, nil, nil},
		"passed by another for one round":    {"ab1", "ab", "b", nil, map[string]string{"02": "a"}, nil},
		"within one of even stays":           {"aaabb", "ab", "a", nil, nil, nil},
		"gives to one that has two fewer":    {"aaabbc", "abc", "a", nil, nil, []string{"02"}},
		"another gives, not I":               {"aaabbc", "abc", "b", nil, nil, nil},
		"two give at once for a newcomer":    {"aaaabbbb", "abc", "b", nil, nil, []string{"07"}},
		"gives nothing beside an orphan":     {"aaaa.", "ab", "a", nil, nil, nil},
		"gives nothing beside an open one":   {"aaaa0", "ab", "a", nil, map[string]string{"04": "b"}, nil},
		"one that is not counted keeps his":  {"aaaaccc", "ab", "a", nil, nil, []string{"03"}},
		"one that is not counted gets none":  {"aa0", "a", "a", []string{"02"}, nil, nil},
		"more nodes than numbers":            {"ab", "abcd", "c", nil, nil, nil},
		"not among them, gives all":          {"aab.a0", "bc", "a", nil, nil, []string{"00", "01", "04"}},
		"not among them, takes nothing":      {"bc2", "bc", "a", nil, nil, nil},
		"nothing needs an owner":             {"", "ab", "a", nil, nil, nil},
		"the remainder stays with the first": {"aaabbbc", "abc", "b", nil, nil, []string{"05"}},
	} {
		want := moves{bids: tt.bids, left: tt.left, give: tt.give}
		if want.left == nil {
			want.left = map[string]string{}
		}
		got := spread(tt.me, slices.Collect(letters(tt.nodes)), numbersOf(tt.fleet))
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(moves{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func letters(s string) func(func(string) bool) {
	return func(yield func(string) bool) {
		for _, c := range s {
			if !yield(string(c)) {
				return
			}
		}
	}
}

// Whatever fleet it starts from, and in whatever order nodes look: after one
// round of looks no number is without an owner, soon all are within one of even,
// and then nothing moves.
func TestSpreadEndsEvenAndStill(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		nodes := slices.Collect(letters("abcdef"[:rapid.IntRange(1, 6).Draw(t, "nodes")]))
		posts := numbersOf(rapid.StringOfN(rapid.SampledFrom([]rune("0."+"abcdef"[:len(nodes)])), 0, 30, -1).Draw(t, "fleet"))
		look := func(me string) (moved int) {
			m := spread(me, nodes, posts)
			for i := range posts {
				if slices.Contains(m.bids, posts[i].number) {
					posts[i].holder, posts[i].open = me, false
					moved++
				}
				if slices.Contains(m.give, posts[i].number) {
					posts[i].holder, posts[i].open = "", true
					moved++
				}
			}
			return moved
		}
		round := func() (moved int) {
			for _, me := range rapid.Permutation(nodes).Draw(t, "order") {
				moved += look(me)
			}
			return moved
		}
		before := slices.Clone(posts)
		round()
		for i, x := range before {
			if x.open && posts[i].open {
				t.Fatalf("after everyone has looked a number is still open: %v", posts)
			}
		}
		for i := range posts { // the dead ones' leases have run out
			posts[i].open = posts[i].holder == ""
		}
		for range 2 * len(posts) {
			round()
		}
		if moved := round(); moved > 0 {
			t.Fatalf("%d numbers still move: %v", moved, posts)
		}
		load := make(map[string]int)
		for _, x := range posts {
			load[x.holder]++
		}
		least, most := len(posts), 0
		for _, n := range nodes {
			least, most = min(least, load[n]), max(most, load[n])
		}
		if most-least > 1 || load[""] > 0 {
			t.Fatalf("it ends uneven: %v", load)
		}
	})
}

func TestShyNodesAreTriedAgain(t *testing.T) {
	t.Parallel()
	now := time.Now()
	s := make(shy)
	expect := func(what string, load int, after time.Duration, want bool) {
		t.Helper()
		if got := s.counts("b", load, now.Add(after)); got != want {
			t.Errorf("%s: counted %v", what, got)
		}
	}
	expect("at first", 3, 0, true)
	s.passed("b", 3, now)
	s.passed("b", 2, now.Add(time.Second)) // of the same time
	expect("it let one pass", 3, 9*time.Second, false)
	expect("some time later", 3, 10*time.Second, true)
	s.passed("b", 3, now.Add(10*time.Second))
	expect("once more", 3, 29*time.Second, false)
	expect("twice as long later", 3, 30*time.Second, true)
	for i := range 20 {
		s.passed("b", 3, now.Add(time.Duration(i+1)*2*time.Hour))
	}
	expect("again and again", 3, 40*time.Hour+59*time.Minute, false)
	expect("an hour at most", 3, 41*time.Hour, true)
	s.passed("b", 3, now.Add(100*time.Hour))
	expect("it has taken one", 4, 100*time.Hour, true)
	if len(s) != 0 {
		t.Errorf("it is remembered all the same: %v", maps.Collect(maps.All(s)))
	}
}

package engine

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// looker is a node that has looked at its numbers and runs no lanes.
func looker(t *testing.T, watches map[string]watch) *Node {
	t.Helper()
	n, err := NewNode(Options{Store: newMemory(0), Sender: &ledger{}, ID: "me"})
	if err != nil {
		t.Fatal(err)
	}
	n.watches = watches
	return n
}

// The poll is the longest rest, not the only one: a node is there when a lease
// runs out, and when another's turn is over.
func TestANodeLooksWhenThereIsSomethingToSee(t *testing.T) {
	t.Parallel()
	now := time.Now()
	lives := func(since, expires time.Duration) watch {
		return watch{seen: Candidate{LeaseID: "x", Holder: "other", Expired: -expires}, since: now.Add(-since), at: now}
	}
	for name, tt := range map[string]struct {
		w    watch
		want time.Duration
	}{
		"its holder lives":             {lives(time.Second, 9*time.Second), 9 * time.Second},
		"it runs out for us":           {lives(9900*time.Millisecond, -time.Second), 100 * time.Millisecond},
		"it runs out for the database": {lives(12*time.Second, 70*time.Millisecond), 70 * time.Millisecond},
		"left to another":              {watch{opened: now.Add(-100 * time.Millisecond), to: "other"}, 350 * time.Millisecond},
		"left to another once more":    {watch{opened: now.Add(-600 * time.Millisecond), to: "other"}, 300 * time.Millisecond},
		"bid for":                      {watch{opened: now}, 10 * time.Second},
	} {
		if got := looker(t, map[string]watch{"n": tt.w}).next(now) - time.Millisecond; got != tt.want {
			t.Errorf("%s: next look in %v, want %v", name, got, tt.want)
		}
	}
}

// What a look shows of each number: who owns it, whether it can be bid for, and
// since when.
func TestWhoOwnsANumber(t *testing.T) {
	t.Parallel()
	now := time.Now()
	owned := func(holder string) watch { return watch{seen: Candidate{LeaseID: "x", Holder: holder}} }
	n := looker(t, map[string]watch{
		"a-mine": owned("me"), "b-draining": owned("me"), "c-former life": owned("me"),
		"d-another's": owned("other"), "e-dead": owned("dead"),
		"f-open": {opened: now.Add(-500 * time.Millisecond)}, "g-open, and drains here": {opened: now},
	})
	n.held = map[string]*holding{"a-mine": {}, "b-draining": {ending: true}, "g-open, and drains here": {ending: true}}
	want := []post{
		{number: "a-mine", holder: "me"},
		{number: "b-draining"},
		{number: "c-former life"},
		{number: "d-another's", holder: "other"},
		{number: "e-dead"},
		{number: "f-open", open: true, round: 1},
		{number: "g-open, and drains here"},
	}
	if diff := cmp.Diff(want, n.posts([]string{"me", "other"}, now), cmp.AllowUnexported(post{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A released number is open since its release, which the database tells, but
// not since before we saw it owned or not needed: whoever looks next must have
// had the time to.
func TestSinceWhenANumberIsOpen(t *testing.T) {
	t.Parallel()
	now := time.Now()
	const ttl = 10 * time.Second
	owned := Candidate{LeaseID: "x", Expired: -ttl}
	released := func(ago time.Duration) Candidate { return Candidate{LeaseID: "x", Free: true, Expired: ago} }
	seen := func(ago time.Duration, c Candidate) watch { return watch{}.observed(c, now.Add(-ago), ttl) }
	expired := Candidate{LeaseID: "x", Expired: time.Millisecond}
	for name, tt := range map[string]struct {
		before watch
		now    Candidate
		want   time.Duration // ago; negative: it is not open
	}{
		"released after we saw it owned":   {seen(300*time.Millisecond, owned), released(200 * time.Millisecond), 200 * time.Millisecond},
		"released long ago, needed anew":   {watch{}, released(time.Hour), 0},
		"a clock that says too much":       {seen(300*time.Millisecond, owned), released(time.Hour), 300 * time.Millisecond},
		"open before":                      {seen(300*time.Millisecond, released(time.Hour)), released(time.Hour), 300 * time.Millisecond},
		"a lease that ran out before us":   {watch{}, expired, -1},
		"a lease that we saw stand still":  {seen(ttl, owned), expired, 0},
		"a lease that beat a while before": {seen(ttl-1, owned), expired, -1},
	} {
		w := tt.before.observed(tt.now, now, ttl)
		if tt.want < 0 != w.opened.IsZero() || (tt.want >= 0 && now.Sub(w.opened) != tt.want) {
			t.Errorf("%s: open since %v, want %v ago", name, w.opened, tt.want)
		}
	}
}

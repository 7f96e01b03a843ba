package engine

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// firstCalls counts the first n calls by campaign.
func firstCalls(calls []sent, n int) map[int64]int {
	by := make(map[int64]int)
	for _, c := range calls[:min(n, len(calls))] {
		by[c.Recipient/10_000_000]++
	}
	return by
}

// A small campaign of equal priority does not wait behind a large one.
func TestEqualCampaignsTakeEqualTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newMemory(time.Millisecond, number(250, 0.2))
		store.campaign(1, 0, 100_000)
		r := startLane(t, store, &ledger{latency: 100 * time.Millisecond})
		time.Sleep(5 * time.Second)
		before := len(r.api.sends())
		store.campaign(2, 0, 100)
		store.campaign(3, 0, 2000)
		time.Sleep(10 * time.Second)
		r.finish()
		if n := store.counts(2); n[Accepted] != 100 {
			t.Errorf("the small campaign after 10 s: %v", n)
		}
		by := firstCalls(r.api.sends()[before+600:], 1200) // only 1 and 3 are left
		if by[1] < 500 || by[3] < 500 {
			t.Errorf("turns of two large campaigns: %v, want about equal", by)
		}
	})
}

// A higher priority goes first from the next claim on, and when it has
// nothing due the others do not wait for it.
func TestPriorityGoesFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newMemory(time.Millisecond, number(250, 0.2))
		store.campaign(1, 0, 100_000)
		r := startLane(t, store, &ledger{latency: 100 * time.Millisecond})
		time.Sleep(5 * time.Second)
		before := len(r.api.sends())
		store.campaign(2, 9, 400)
		time.Sleep(5 * time.Second)
		r.finish()
		if n := store.counts(2); n[Accepted] != 400 {
			t.Errorf("the urgent campaign after 5 s: %v", n)
		}
		// Up to a second until it is seen, then nothing but it.
		if by := firstCalls(r.api.sends()[before:], 700); by[2] < 380 {
			t.Errorf("of the next 700 calls %v", by)
		}
	})
}

func TestTurnsRotate(t *testing.T) {
	t.Parallel()
	var turns turns
	campaigns := []Campaign{
		{ID: 1, Zones: []int16{0}}, {ID: 2, Zones: []int16{0, 5}}, {ID: 3, Zones: []int16{0}}, {ID: 9, Priority: 1, Zones: []int16{0}},
	}
	rows := func(ids ...int64) (out []Recipient) {
		for _, id := range ids {
			out = append(out, Recipient{Campaign: id})
		}
		return out
	}
	for i, step := range []struct {
		want []int64
		got  []Recipient // of 2 asked for
	}{
		{[]int64{9, 1, 2, 2, 3}, rows(1, 1)}, // 9 was tried and empty; 2 and 3 were not reached
		{[]int64{9, 2, 2, 3, 1}, rows(9, 9)}, // nobody else was tried
		{[]int64{9, 2, 2, 3, 1}, rows(2, 2)},
		{[]int64{9, 3, 1, 2, 2}, rows(3)}, // fewer than asked: all were tried, and keep their order
		{[]int64{9, 1, 2, 2, 3}, rows(1, 1)},
	} {
		seq := int64(i + 1)
		slices := turns.slices(campaigns, seq, 2)
		var got []int64
		for _, s := range slices {
			got = append(got, s.Campaign)
			if s.Share != 2 {
				t.Errorf("share %d of 2", s.Share)
			}
		}
		if diff := cmp.Diff(step.want, got); diff != "" {
			t.Errorf("claim %d: %s", seq, diff)
		}
		turns.took(slices, seq, 2, step.got)
	}
}

// Each claim asks for no more than there are free senders, and an idle number
// is not asked in a loop.
func TestClaimsFollowDemand(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newMemory(time.Millisecond, number(100, 0.2))
		c := store.campaign(1, 0, 3000)
		for i := range c.rows {
			c.rows[i].suppressed = i < 1000
		}
		r := startLane(t, store, &ledger{latency: 250 * time.Millisecond})
		time.Sleep(6 * time.Second)
		// A thousand suppressed rows cost claims, not polls: 80 senders' worth at a time.
		if n := store.counts(1); n[Suppressed] != 1000 || n[Accepted] < 200 {
			t.Errorf("after 6 s %v", n)
		}
		time.Sleep(time.Minute)
		asked := store.claimed()
		time.Sleep(time.Minute)
		if polls := store.claimed() - asked; polls < 90 || polls > 150 {
			t.Errorf("%d claims in a minute with nothing due", polls)
		}
		r.finish()
		for _, a := range store.asks {
			if a.Free > r.lane.opts.MaxSenders || a.Free > 80 {
				t.Errorf("claim %d asked for %d rows", a.Seq, a.Free)
			}
		}
		r.conserved(t, 1)
	})
}

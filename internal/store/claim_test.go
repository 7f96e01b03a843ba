package store

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirhq/weir/engine"
)

func TestClaimTakesDueRowsAndBooksThem(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	c, first := l.campaign(3)
	due := scalar[time.Time](l, `SELECT min(due_at) FROM recipients`)
	rows := l.claim(2, c)
	want := []engine.Recipient{
		{ID: first, Campaign: c, Claim: 1, Attempt: 1, Due: due, Phone: "+5511900000001", Values: []string{"Ana"}},
		{ID: first + 1, Campaign: c, Claim: 1, Attempt: 1, Due: due, Phone: "+5511900000002", Values: []string{"Ana"}},
	}
	if diff := cmp.Diff(want, rows, cmp.Comparer(time.Time.Equal)); diff != "" {
		t.Errorf("claim (-want +got):\n%s", diff)
	}
	l.want(first, look{Status: "sending", Claim: 1, Attempt: 1})
	l.want(first+2, look{Status: "pending", Due: true})
	if got := scalar[[]int64](l, `SELECT ids FROM claims WHERE seq = $1`, l.seq); !slices.Equal(got, ids(rows)) {
		t.Errorf("booked %v, claimed %v", got, ids(rows))
	}
	l.recounted()
}

// A NULL limit is no limit in Postgres: the statement must not meet one, even
// from a caller that is not the Claim method.
func TestClaimNullLimits(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	c, _ := l.campaign(3)
	for _, nulls := range [][]any{
		{labNumber, l.lease.ID, "", []int64{c}, []int16{0}, []*int32{nil}, []int32{0}, false, 0.0, 3, 1},
		{labNumber, l.lease.ID, "", []int64{c}, []int16{0}, []int32{3}, []int32{0}, false, 0.0, nil, 2},
	} {
		if n := l.exec(claimSQL(t), nulls...); n != 0 {
			t.Errorf("a null limit let %d rows through", n)
		}
	}
}

// A probe is one row, however many are asked for.
func TestClaimProbe(t *testing.T) {
	t.Parallel()
	const token = "00000000-0000-0000-0000-00000000000a"
	for _, scope := range []string{"host", "number:" + labNumber} {
		l := newLab(t)
		c, _ := l.campaign(3)
		l.exec(`UPDATE breakers SET state = 'half_open', probe_token = $1, probe_until = now() + interval '1 min' WHERE scope = $2`, token, scope)
		ask := l.ask(3, c)
		ask.Probe = token
		if n := len(l.claimed(ask)); n != 1 {
			t.Errorf("the probe of %s claimed %d rows, want 1", scope, n)
		}
	}
}

// An opt-out that a claim finds settles the row, spends nothing, and is
// returned, so that the claimer does not take the claim for an empty one.
func TestClaimSuppressed(t *testing.T) {
	t.Parallel()
	for scope, hit := range map[string]bool{
		"all": true, "utility": true, "waba:" + labWABA: true, "number:" + labNumber: true,
		"marketing": false, "waba:1": false, "number:1": false,
	} {
		t.Run(scope, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			c, first := l.campaign(2)
			l.exec(`INSERT INTO suppressions (phone, scope) SELECT phone, $1 FROM recipient_params WHERE id = $2`, scope, first)
			l.exec(`INSERT INTO suppressions (phone, scope, until) SELECT phone, $1, now() FROM recipient_params WHERE id = $2`, scope, first+1)
			rows := l.claim(2, c)
			if len(rows) != 2 || rows[0].Suppressed != hit || rows[1].Suppressed {
				t.Fatalf("claim = %+v, want the first row suppressed: %v, the second (opt-out over): false", rows, hit)
			}
			want := look{Status: "sending", Claim: 1, Attempt: 1}
			if hit {
				want = look{Status: "suppressed", Claim: 1}
			}
			l.want(first, want)
			if booked := scalar[bool](l, `SELECT $1 = ANY (ids) FROM claims`, first); booked == hit {
				t.Errorf("booked: %v, suppressed: %v", booked, hit)
			}
			l.recounted()
		})
	}
}

func TestClaimOrder(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	low, _ := l.campaign(5)
	high, _ := l.campaign(5)
	l.exec(`UPDATE campaigns SET priority = 1 WHERE id = $1`, high)
	byCampaign := func(rows []engine.Recipient) map[int64]int {
		n := map[int64]int{}
		for _, r := range rows {
			n[r.Campaign]++
		}
		return n
	}
	if diff := cmp.Diff(map[int64]int{high: 4}, byCampaign(l.claim(4, low, high))); diff != "" {
		t.Errorf("higher priority first (-want +got):\n%s", diff)
	}
	l.exec(`UPDATE campaigns SET priority = 0`)
	ask := l.ask(3, low, high)
	ask.Slices[0].Share = 2
	if diff := cmp.Diff(map[int64]int{low: 2, high: 1}, byCampaign(l.claimed(ask))); diff != "" {
		t.Errorf("turns and shares (-want +got):\n%s", diff)
	}
	retry := scalar[int64](l, `UPDATE recipients SET due_at = now() WHERE id = (SELECT max(id) FROM recipients WHERE campaign_id = $1) RETURNING id`, low)
	if got := ids(l.claim(1, low)); !slices.Equal(got, []int64{retry}) {
		t.Errorf("claimed %v, want %d, which became due last", got, retry)
	}
}

func TestClaimNeverPasses500(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	c, _ := l.campaign(700)
	if n := len(l.claim(650, c)); n != 500 {
		t.Errorf("claimed %d rows, want 500", n)
	}
}

func TestClaimRacersAreDisjoint(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	c, _ := l.campaign(2000)
	var mu sync.Mutex
	taken := map[int64]int{}
	race(8, func(int) {
		for {
			mu.Lock()
			ask := l.ask(23, c)
			mu.Unlock()
			rows, err := l.Claim(t.Context(), ask)
			if err != nil || len(rows) == 0 {
				if err != nil {
					t.Error(err)
				}
				return
			}
			mu.Lock()
			for _, r := range rows {
				taken[r.ID]++
			}
			mu.Unlock()
		}
	})
	if len(taken) != 2000 {
		t.Errorf("%d rows taken, want 2000", len(taken))
	}
	for id, n := range taken {
		if n != 1 {
			t.Errorf("row %d taken %d times", id, n)
		}
	}
	l.recounted()
}

// race runs f in n goroutines at once.
func race(n int, f func(i int)) {
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { f(i) })
	}
	wg.Wait()
}

func TestClaimReturnsTheContextsError(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	c, _ := l.campaign(1)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.Claim(ctx, l.ask(1, c)); !errors.Is(err, context.Canceled) {
		t.Errorf("err = %v, want context.Canceled", err)
	}
}

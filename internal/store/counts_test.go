package store

import (
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weirhq/weir/engine"
)

func TestCountsStandThroughFoldsAndWriters(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	c, _ := l.campaign(1)
	var written atomic.Int64
	race(8, func(i int) {
		for n := range 40 {
			var err error
			if i < 3 {
				err = l.FoldCounts(t.Context())
			} else {
				_, err = l.pool.Exec(t.Context(), `INSERT INTO campaign_counts VALUES ($1, 'accepted', $2), ($1, 'sending', $3)`, c, n, -n)
				written.Add(int64(n))
			}
			if err != nil {
				t.Error(err)
			}
		}
	})
	l.exec(`INSERT INTO campaign_counts VALUES ($1, 'dead', 1), ($1, 'dead', -1)`, c)
	l.must(l.FoldCounts(t.Context()))
	got, err := l.Counts(t.Context(), c)
	l.must(err)
	want := map[engine.Status]int{engine.Pending: 1, engine.Accepted: int(written.Load()), engine.Sending: -int(written.Load())}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("counts (-want +got):\n%s", diff)
	}
	if n := scalar[int](l, `SELECT count(*) FROM campaign_counts`); n != 3 {
		t.Errorf("%d rows after a fold, want 3", n)
	}
}

func TestEnumIsEngineStatuses(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	var want []string
	for _, s := range engine.Statuses() {
		want = append(want, s.String())
	}
	if diff := cmp.Diff(want, scalar[[]string](l, `SELECT enum_range(NULL::recipient_status)::text[]`)); diff != "" {
		t.Errorf("the enum is not engine.Statuses() (-want +got):\n%s", diff)
	}
}

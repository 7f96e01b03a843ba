package store

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weirhq/weir/engine"
)

// Results and statuses of the same rows, in batches whose order is random when
// they are handed in, from eight writers at once: nothing deadlocks, nothing is
// lost, and all rows end where the greatest word puts them.
func TestWritersOfTheSameRows(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	c, first := l.campaign(300)
	rows := l.claim(300, c)
	said := []engine.Status{engine.Sent, engine.Delivered, engine.Failed}
	race(8, func(i int) {
		for round := range 12 {
			mixed := append([]engine.Recipient(nil), rows...)
			rand.Shuffle(len(mixed), func(a, b int) { mixed[a], mixed[b] = mixed[b], mixed[a] })
			var err error
			if (i+round)%2 == 0 {
				err = l.Record(t.Context(), l.lease, acceptAll(mixed), nil)
			} else {
				_, err = l.ApplyStatuses(t.Context(), sayAll(mixed, said[rand.IntN(3)]), nil)
			}
			if err != nil {
				t.Error(err)
			}
		}
	})
	_, err := l.ApplyStatuses(t.Context(), sayAll(rows, engine.Read), nil)
	l.must(err)
	l.want(first, look{Status: "read", Claim: 1, Attempt: 1, Message: message(first, 1)})
	if n := scalar[int](l, `SELECT count(*) FROM recipients WHERE status = 'read' AND accepted_at IS NOT NULL`); n != 300 {
		t.Errorf("%d rows read, want 300", n)
	}
	l.recounted()
	if n := l.deadlocks(); n != 0 {
		t.Errorf("Postgres broke %d deadlocks", n)
	}
}

// deadlocks is how many Postgres broke; the store's retries hide them. A
// session's count is sure to be in only when the session has ended.
func (l *lab) deadlocks() int {
	l.t.Helper()
	l.pool.Reset()
	for range 500 {
		if scalar[bool](l, `SELECT count(*) <= 2 OR pg_sleep(0.01) IS NULL FROM pg_stat_activity WHERE datname = current_database()`) {
			break // this session, and the lease pool's
		}
	}
	return scalar[int](l, `SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()`)
}

func acceptAll(rows []engine.Recipient) []engine.Result {
	var all []engine.Result
	for _, r := range rows {
		all = append(all, engine.Result{Recipient: r.ID, Campaign: r.Campaign, Claim: r.Claim, Status: engine.Accepted, MessageID: message(r.ID, r.Claim)})
	}
	return all
}

// sayAll is unfolded on purpose: its order is as the caller's.
func sayAll(rows []engine.Recipient, s engine.Status) []engine.StatusUpdate {
	var all []engine.StatusUpdate
	for _, r := range rows {
		all = append(all, engine.Fold([]engine.StatusUpdate{{
			Recipient: r.ID, Claim: r.Claim, MessageID: message(r.ID, r.Claim), Status: s, At: time.Now(),
		}})...)
	}
	return all
}

// Claims, give-backs, takeovers and the job that decides unknowns beside them.
func TestEveryWriterAtOnce(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	c, _ := l.campaign(400)
	l.exec(`UPDATE campaigns SET on_unknown = 'resend'`)
	l.exec(`INSERT INTO receivers (node, up_since) VALUES ('a', now() - interval '1 day')`)
	race(8, func(i int) {
		for round := range 15 {
			ask := engine.Ask{Lease: l.lease, Seq: int64(100*i + round), Free: 40, Slices: []engine.Slice{{Campaign: c, Share: 40}}}
			rows, err := l.Claim(t.Context(), ask)
			var results []engine.Result
			for n, r := range rows {
				s := []engine.Status{engine.Accepted, engine.Unknown, engine.Failed, engine.Pending}[n%4]
				results = append(results, engine.Result{Recipient: r.ID, Claim: r.Claim, Status: s, MessageID: message(r.ID, r.Claim)})
			}
			for _, e := range []error{
				err, second(l.GiveBack(t.Context(), l.lease, []int64{ask.Seq - int64(rand.IntN(3))})),
				l.Record(t.Context(), l.lease, results, []int64{ask.Seq}),
				second(l.ApplyStatuses(t.Context(), sayAll(rows, engine.Failed), nil)),
				second(l.ResolveUnknowns(t.Context(), 0)), l.FoldCounts(t.Context()),
			} {
				if e != nil {
					t.Error(e)
				}
			}
		}
	})
	l.recounted()
}

func second[T any](_ T, err error) error { return err }

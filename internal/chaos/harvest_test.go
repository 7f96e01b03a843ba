//go:build !race

package chaos

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weirhq/weir/internal/sim"
)

// harvest collects what the run left.
func (f *fleet) harvest(ctx context.Context) (*History, error) {
	f.run.Way, f.run.Slack, f.run.Ended = f.hiccups.way()+f.fault.way, f.hiccups.slack(), f.now()
	h := &History{Run: f.run}
	f.mu.Lock()
	h.Marks, h.Calls = f.marks, f.calls
	f.mu.Unlock()
	f.requests(h)
	if err := f.notes(ctx, f.pool, h); err != nil {
		return nil, err
	}
	if f.past != nil {
		h.remember(f.past)
	}
	if err := errors.Join(f.rows(ctx, h), f.logs(h)); err != nil {
		return nil, err
	}
	for i := range h.Campaigns {
		c := &h.Campaigns[i]
		if said, err := f.weir(ctx, "campaign", "verify", c.Name); err != nil {
			c.Unproven = fmt.Sprint(err, ": ", said)
		}
	}
	return h, nil
}

// since turns an instant of the machine's clock into one of the run's.
func (f *fleet) since(t time.Time) time.Duration { return t.Sub(f.run.Began) }

// instant reads a timestamp of the database; a missing one is never.
func (f *fleet) instant(t *time.Time) time.Duration {
	if t == nil {
		return 0
	}
	return f.since(*t)
}

func (f *fleet) requests(h *History) {
	for _, e := range f.platform.Ledger() {
		r := Request{
			Seq: e.Seq, At: f.since(time.Unix(0, e.Received)), Number: e.Number, To: e.To, Node: f.callers[e.Caller],
			Code: e.Code, Refused: e.Outcome == sim.Refused,
		}
		if e.Answered != 0 {
			r.Answered = f.since(time.Unix(0, e.Answered))
		}
		if e.WAMID != "" {
			r.Message = sim.HashPhone(e.WAMID)
		}
		r.Recipient, r.Claim, _ = parseCallback(e.Callback)
		h.Requests = append(h.Requests, r)
	}
	f.platform.mu.Lock()
	defer f.platform.mu.Unlock()
	for _, t := range f.platform.tries {
		try := Try{At: f.since(time.Unix(0, t.Began)), Over: f.since(time.Unix(0, t.Ended)), HTTP: t.HTTP}
		for _, told := range t.Told {
			try.Told = append(try.Told, Told{told.Seq, told.Status})
		}
		h.Tries = append(h.Tries, try)
	}
}

// notes reads what the triggers and the program wrote down on the way.
func (f *fleet) notes(ctx context.Context, pool *pgxpool.Pool, h *History) (err error) {
	var number, lease, holder, kind string
	var at, ready *time.Time
	var seq, id int64
	var claim int32
	var ids []int64
	var fences []int32
	h.Leases, err = list(ctx, pool, `SELECT number_id, lease_id::text, coalesce(holder, ''), kind, ready_at, at FROM lease_events ORDER BY id`,
		[]any{&number, &lease, &holder, &kind, &ready, &at}, func() Lease {
			return Lease{number, lease, holder, kind, f.instant(ready), f.instant(at)}
		})
	if err != nil {
		return err
	}
	h.Claims, err = list(ctx, pool, `SELECT number_id, lease_id::text, seq, at, ids, fences FROM chaos.claims ORDER BY at`,
		[]any{&number, &lease, &seq, &at, &ids, &fences}, func() Claim {
			return Claim{number, lease, seq, f.instant(at), append([]int64(nil), ids...), append([]int32(nil), fences...)}
		})
	if err != nil {
		return err
	}
	h.Doubts, err = list(ctx, pool, `SELECT recipient_id, claim, at FROM chaos.doubts ORDER BY at`,
		[]any{&id, &claim, &at}, func() Doubt { return Doubt{id, claim, f.instant(at)} })
	if err != nil {
		return err
	}
	h.Moves, err = list(ctx, pool, `SELECT campaign_id, was, state, at FROM chaos.moves ORDER BY n`,
		[]any{&id, &kind, &lease, &at}, func() Move { return Move{id, kind, lease, f.instant(at)} })
	return err
}

// rows reads how everything ended. Campaigns that were never started are none
// of the run's.
func (f *fleet) rows(ctx context.Context, h *History) (err error) {
	var c Campaign
	var started, finished *time.Time
	h.Campaigns, err = list(ctx, f.pool, `SELECT c.id, c.name, c.state, c.on_unknown, c.max_attempts, c.started_at, c.finished_at,
			i.rows_read, i.accepted, i.rejected, i.duplicate,
			(SELECT jsonb_object_agg(s, n) FROM (SELECT status::text AS s, sum(n) AS n FROM campaign_counts WHERE campaign_id = c.id GROUP BY status) k),
			(SELECT count(*) FROM claims x WHERE EXISTS (SELECT FROM recipients r WHERE r.id = ANY (x.ids) AND r.campaign_id = c.id)),
			(SELECT count(*) FROM unknowns u JOIN recipients r ON r.id = u.recipient_id WHERE r.campaign_id = c.id)
		FROM campaigns c JOIN campaign_imports i ON i.campaign_id = c.id WHERE c.state <> 'draft' ORDER BY c.id`,
		[]any{
			&c.ID, &c.Name, &c.State, &c.OnUnknown, &c.MaxAttempts, &started, &finished,
			&c.Read, &c.Accepted, &c.Rejected, &c.Duplicate, &c.Counts, &c.ClaimsLeft, &c.UnknownsLeft,
		}, func() Campaign {
			done := c
			done.Started, done.Finished = f.instant(started), f.instant(finished)
			c.Counts = nil
			return done
		})
	if err != nil {
		return err
	}
	var r Row
	var phone, message string
	h.Rows, err = list(ctx, f.pool, `SELECT r.id, r.campaign_id, p.phone, r.status::text, r.claim, r.attempt, coalesce(r.number_id, ''),
			coalesce(r.message_id, ''), coalesce(a.title, '')
		FROM recipients r JOIN recipient_params p ON p.id = r.id JOIN campaigns c ON c.id = r.campaign_id AND c.state <> 'draft'
		LEFT JOIN attempts a ON a.recipient_id = r.id AND a.claim = r.claim ORDER BY r.id`,
		[]any{&r.ID, &r.Campaign, &phone, &r.Status, &r.Claim, &r.Attempt, &r.Number, &message, &r.Reason}, func() Row {
			done := r
			if done.To = sim.HashPhone(phone); message != "" {
				done.Message = sim.HashPhone(message)
			}
			return done
		})
	return err
}

// remember adds what only a server that was left behind had noted.
func (h *History) remember(past *History) {
	join(&h.Leases, past.Leases, func(l Lease) any { return l }, func(l Lease) time.Duration { return l.At })
	join(&h.Moves, past.Moves, func(m Move) any { return m }, func(m Move) time.Duration { return m.At })
	join(&h.Doubts, past.Doubts, func(d Doubt) any { return d }, func(d Doubt) time.Duration { return d.At })
	type batch struct {
		lease string
		seq   int64
	}
	join(&h.Claims, past.Claims, func(c Claim) any { return batch{c.Lease, c.Seq} }, func(c Claim) time.Duration { return c.At })
}

func join[T any](list *[]T, more []T, key func(T) any, at func(T) time.Duration) {
	there := map[any]bool{}
	for _, v := range *list {
		there[key(v)] = true
	}
	for _, v := range more {
		if !there[key(v)] {
			*list = append(*list, v)
		}
	}
	slices.SortStableFunc(*list, func(a, b T) int { return cmp.Compare(at(a), at(b)) })
}

// list reads a query's rows; as makes a value of what was scanned into dest.
func list[T any](ctx context.Context, pool *pgxpool.Pool, query string, dest []any, as func() T) (all []T, err error) {
	rows, err := pool.Query(ctx, query)
	if err != nil {
		return nil, fmt.Errorf("read the run's database: %w", err)
	}
	_, err = pgx.ForEachRow(rows, dest, func() error {
		all = append(all, as())
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the run's database: %w", err)
	}
	return all, nil
}

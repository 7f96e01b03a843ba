package bench

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/weirhq/weir/engine"
	"github.com/weirhq/weir/internal/store"
)

// rows takes recipients through their life, one kind of statement at a time, as
// one lane would: so that each kind's price can be told.
func (b *Bench) rows(ctx context.Context) error {
	s := newSeries()
	for range b.opts.Rounds {
		numbers, err := b.numbers(ctx, 1, unpaced)
		if err != nil {
			return err
		}
		l := &life{Bench: b, series: s, numbers: numbers}
		for _, step := range []struct {
			name string
			do   func(context.Context, *clock) error
		}{
			{"import", l.load},
			{"claim", l.claim},
			{"record", l.record},
			{"sent", l.status(engine.Sent)},
			{"delivered", l.status(engine.Delivered)},
			{"read", l.status(engine.Read)},
		} {
			if err := l.measure(ctx, step.name, step.do); err != nil {
				return fmt.Errorf("%s: %w", step.name, err)
			}
		}
		s.add("whole life, Postgres CPU per 100 000", "s", l.cpu)
		s.add("whole life, WAL per recipient", "B", l.wal)
	}
	b.tell(Rows, s)
	return nil
}

// life is one campaign's recipients on their way.
type life struct {
	*Bench
	*series
	numbers  []store.CampaignNumber
	campaign int64
	lease    engine.LeaseID
	claimed  [][]engine.Recipient
	cpu, wal float64
}

// clock gathers how long each batch took.
type clock []time.Duration

func (c *clock) lap(f func() error) error {
	begun := time.Now()
	err := f()
	*c = append(*c, time.Since(begun))
	return err
}

// measure times a step and adds its figures.
func (l *life) measure(ctx context.Context, name string, do func(context.Context, *clock) error) error {
	if err := l.exec(ctx, `CHECKPOINT`); err != nil {
		return err
	}
	before, err := read(ctx, l.Pool())
	if err != nil {
		return err
	}
	var batches clock
	if err := do(ctx, &batches); err != nil {
		return err
	}
	after, err := read(ctx, l.Pool())
	if err != nil {
		return err
	}
	used, n := after.since(before), float64(l.opts.Rows)
	l.add(name, "rows/s", n/used.took.Seconds())
	if len(batches) > 1 {
		slices.Sort(batches)
		for _, p := range []int{50, 99} {
			at := batches[min(len(batches)*p/100, len(batches)-1)]
			l.add(name+", a batch of "+strconv.Itoa(batch)+", p"+strconv.Itoa(p), "ms", float64(at)/float64(time.Millisecond))
		}
	}
	if used.server > 0 {
		l.add(name+", Postgres CPU per 100 000", "s", used.server.Seconds()*100_000/n)
	}
	l.add(name+", WAL per recipient", "B", float64(used.wal)/n)
	l.cpu += used.server.Seconds() * 100_000 / n
	l.wal += float64(used.wal) / n
	return nil
}

func (l *life) load(ctx context.Context, _ *clock) (err error) {
	l.campaign, err = l.Bench.campaign(ctx, "rows", l.opts.Rows, l.numbers)
	return err
}

func (l *life) claim(ctx context.Context, batches *clock) error {
	grant, err := l.Acquire(ctx, engine.Bid{Node: "bench", Seen: engine.Candidate{Number: l.numbers[0].ID, Free: true}, TTL: time.Hour})
	if err != nil {
		return err
	}
	l.lease, l.claimed = grant.Lease, nil
	ask := engine.Ask{Lease: l.lease, Free: batch, Slices: []engine.Slice{{Campaign: l.campaign, Share: batch}}}
	for got := 0; got < l.opts.Rows; {
		ask.Seq++
		err := batches.lap(func() error {
			rows, err := l.Claim(ctx, ask)
			if len(rows) > 0 {
				l.claimed = append(l.claimed, rows)
			}
			if err == nil && len(rows) == 0 {
				err = fmt.Errorf("only %d of %d could be claimed", got, l.opts.Rows)
			}
			got += len(rows)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (l *life) record(ctx context.Context, batches *clock) error {
	for i, rows := range l.claimed {
		results := make([]engine.Result, len(rows))
		for j, r := range rows {
			results[j] = engine.Result{Recipient: r.ID, Campaign: r.Campaign, Claim: r.Claim, Seq: int64(i + 1), Status: engine.Accepted, MessageID: messageID(r.ID)}
		}
		sortByRecipient(results)
		if err := batches.lap(func() error { return l.Record(ctx, l.lease, results, []int64{int64(i + 1)}) }); err != nil {
			return err
		}
	}
	return nil
}

// sortByRecipient is what the engine's writer does before it writes.
func sortByRecipient(results []engine.Result) {
	slices.SortFunc(results, func(a, b engine.Result) int { return int(a.Recipient - b.Recipient) })
}

func (l *life) status(status engine.Status) func(context.Context, *clock) error {
	return func(ctx context.Context, batches *clock) error {
		for _, rows := range l.claimed {
			updates := make([]engine.StatusUpdate, len(rows))
			for i, r := range rows {
				updates[i] = engine.StatusUpdate{
					Recipient: r.ID, Claim: r.Claim, Number: l.lease.Number, Phone: r.Phone[1:], MessageID: messageID(r.ID), Status: status, At: time.Now(),
				}
			}
			updates = engine.Fold(updates)
			if err := batches.lap(func() error {
				got, err := l.ApplyStatuses(ctx, updates, nil)
				if err == nil && got.Matched != len(updates) {
					err = fmt.Errorf("%d of %d statuses found their recipient", got.Matched, len(updates))
				}
				return err
			}); err != nil {
				return err
			}
		}
		return nil
	}
}

func messageID(recipient int64) string {
	return "wamid.HBgNNTUxMTk4NzY1NDMyMRUCABEY" + strconv.FormatInt(recipient, 10)
}

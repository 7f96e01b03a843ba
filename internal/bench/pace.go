package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/weirhq/weir/engine"
	"github.com/weirhq/weir/internal/cloudapi"
)

const paceLatency = 50 * time.Millisecond

// pace sends from several numbers at once, each at its rate, and holds
// what the sink saw to it: the mean of the number that was farthest off, and the
// most that any number sent in any second.
func (b *Bench) pace(ctx context.Context) error {
	s := newSeries()
	for range b.opts.Rounds {
		for _, n := range []int{4, 20} {
			ledger, err := b.paced(ctx, n)
			if err != nil {
				return fmt.Errorf("%d numbers: %w", n, err)
			}
			off, most := 0.0, 0
			for _, times := range ledger {
				mean := float64(len(times)-1) / times[len(times)-1].Sub(times[0]).Seconds()
				off = max(off, mean/b.opts.paceRate-1, 1-mean/b.opts.paceRate)
				most = max(most, busiest(times))
			}
			name := fmt.Sprintf("%d numbers × %.0f a second, ", n, b.opts.paceRate)
			s.add(name+"farthest mean", "% off", 100*off)
			s.add(name+"busiest second", "% of the rate", 100*float64(most)/b.opts.paceRate)
		}
	}
	b.tell(Pace, s)
	return nil
}

// paced sends a campaign and returns when each number's messages arrived.
func (b *Bench) paced(ctx context.Context, n int) (map[string][]time.Time, error) {
	numbers, err := b.numbers(ctx, n, b.opts.paceRate+1) // so that a burst of one fits under the limit
	if err != nil {
		return nil, err
	}
	people := int(b.opts.paceRate*(b.opts.paceFor+30*time.Second).Seconds()) * n // enough for those that begin first
	if _, err := b.campaign(ctx, "pace", people, numbers); err != nil {
		return nil, err
	}
	var mu sync.Mutex
	ledger, begun := map[string][]time.Time{}, make(chan struct{})
	note := func(a arrival) {
		mu.Lock()
		defer mu.Unlock()
		if ledger[a.number] == nil && len(ledger) == n-1 {
			close(begun) // by the last of them
		}
		ledger[a.number] = append(ledger[a.number], a.at)
	}
	err = b.called(ctx, paceLatency, note, func(ctx context.Context, client *cloudapi.Client) error {
		node, err := engine.NewNode(engine.Options{Store: b.Store, Sender: client, ID: "bench", Logger: b.opts.Logger})
		if err != nil {
			return err
		}
		return during(ctx, node.Run, func(ctx context.Context) error {
			return errors.Join(wait(ctx, begun), wait(ctx, time.After(b.opts.paceFor)))
		})
	})
	mu.Lock()
	defer mu.Unlock()
	for _, times := range ledger {
		slices.SortFunc(times, time.Time.Compare)
	}
	return ledger, err
}

// wait ends with done, or with ctx.
func wait[T any](ctx context.Context, done <-chan T) error {
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// busiest is the most arrivals of any second.
func busiest(times []time.Time) (most int) {
	first := 0
	for i, at := range times {
		for at.Sub(times[first]) >= time.Second {
			first++
		}
		most = max(most, i-first+1)
	}
	return most
}

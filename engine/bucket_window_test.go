package engine

import (
	"context"
	"fmt"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// event is something that happens to a bucket while many wait on it.
type event struct {
	after time.Duration
	kind  string
	rate  float64
	pause time.Duration
}

// plan is one trial of the property below.
type plan struct {
	rate   float64
	burst  int
	events []event
	thinks []time.Duration // one waiter each: how long it does something else between tokens
}

func drawPlan(t *rapid.T) plan {
	p := plan{
		rate:  rapid.Float64Range(0.5, 300).Draw(t, "rate"),
		burst: rapid.IntRange(1, 10).Draw(t, "burst"),
	}
	p.events = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) event {
		return event{
			after: time.Duration(rapid.Int64Range(0, int64(3*time.Second)).Draw(t, "after")),
			kind:  rapid.SampledFrom([]string{"pause", "rate", "restart"}).Draw(t, "kind"),
			rate:  rapid.Float64Range(0.5, 300).Draw(t, "rate"),
			pause: time.Duration(rapid.Int64Range(0, int64(2*time.Second)).Draw(t, "pause")),
		}
	}), 0, 6).Draw(t, "events")
	p.thinks = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) time.Duration {
		return time.Duration(rapid.Int64Range(0, int64(time.Second)).Draw(t, "think"))
	}), 1, 20).Draw(t, "thinks")
	return p
}

// trial is a plan being played: the tokens as they come, and the rates and
// pauses as they were ordered.
type trial struct {
	plan
	mu     sync.Mutex
	tokens []time.Time
	paused [][2]time.Time
	turns  []event // with after = since the start: the rate from then on
}

func (tr *trial) wait(ctx context.Context, b *bucket, think time.Duration) {
	for b.wait(ctx, time.Now().Add(time.Hour)) == nil {
		tr.mu.Lock()
		tr.tokens = append(tr.tokens, time.Now())
		tr.mu.Unlock()
		pause(ctx, think)
	}
}

func (tr *trial) play() {
	var waiters sync.WaitGroup
	start, rate := time.Now(), tr.rate
	b := newBucket(rate, tr.burst, start)
	ctx, cancel := context.WithCancel(context.Background())
	begin := func() {
		for _, think := range tr.thinks {
			waiters.Go(func() { tr.wait(ctx, b, think) })
		}
	}
	begin()
	tr.turns = append(tr.turns, event{rate: rate})
	for _, e := range append(tr.events, event{after: time.Second}) {
		time.Sleep(e.after)
		switch e.kind {
		case "pause":
			b.pause(time.Now(), e.pause)
			tr.paused = append(tr.paused, [2]time.Time{time.Now(), time.Now().Add(e.pause)})
		case "rate":
			rate = e.rate
			b.set(rate, tr.burst, time.Now())
			tr.turns = append(tr.turns, event{after: time.Since(start), rate: rate})
		case "restart":
			cancel()
			waiters.Wait()
			ctx, cancel = context.WithCancel(context.Background())
			b = newBucket(rate, tr.burst, time.Now())
			begin()
			tr.paused = nil // a new owner reads the pause from the database
		}
	}
	cancel()
	waiters.Wait()
}

// allowed is the integral of the rate up to t.
func (tr *trial) allowed(start, t time.Time) float64 {
	sum, since := 0.0, t.Sub(start)
	for i, turn := range tr.turns {
		end := since
		if i+1 < len(tr.turns) {
			end = min(since, tr.turns[i+1].after)
		}
		if end > turn.after {
			sum += turn.rate * (end - turn.after).Seconds()
		}
	}
	return sum
}

func (tr *trial) check(start time.Time) error {
	least := math.Inf(1)
	for i, t := range tr.tokens {
		f := float64(i) - tr.allowed(start, t)
		least = min(least, f)
		if over := f - least + 1 - float64(tr.burst); over > 1e-6 {
			return fmt.Errorf("token %d at %v: a window holds %.4f more than burst + ∫rate", i, t.Sub(start), over)
		}
		for _, p := range tr.paused {
			if t.After(p[0]) && t.Before(p[1]) {
				return fmt.Errorf("token %d at %v in a pause", i, t.Sub(start))
			}
		}
	}
	return nil
}

// In any window: tokens ≤ burst + rate × its length, exactly, across pauses,
// changes of rate and restarts.
func TestBucketHoldsInEveryWindow(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		p := drawPlan(rt)
		var err error
		synctest.Test(t, func(*testing.T) {
			tr, start := &trial{plan: p}, time.Now()
			tr.play()
			err = tr.check(start)
		})
		if err != nil {
			rt.Fatal(err)
		}
	})
}

// When demand never ends the bucket gives exactly its rate.
func TestBucketGivesItsWholeRate(t *testing.T) {
	t.Parallel()
	for _, rate := range []float64{0.7, 80, 999, 1000} {
		synctest.Test(t, func(t *testing.T) {
			tr := &trial{plan: plan{rate: rate, burst: 1, thinks: make([]time.Duration, 5), events: []event{{after: 29 * time.Second}}}}
			tr.play()
			if got := float64(len(tr.tokens)); math.Abs(got-30*rate) > 1+rate/100 {
				t.Errorf("%v in 30 s, want %v a second", got, rate)
			}
		})
	}
}

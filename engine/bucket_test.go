package engine

import (
	"context"
	"errors"
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

func TestBucketStartsEmpty(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		b := newBucket(10, 5, start)
		if err := b.wait(t.Context(), start.Add(time.Hour)); err != nil || time.Since(start) != 100*time.Millisecond {
			t.Errorf("first token after %v, %v", time.Since(start), err)
		}
	})
}

// A pause gives nothing back at its end: neither tokens saved before it nor
// those that would have come during it.
func TestBucketIsEmptyAfterAPause(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		b := newBucket(10, 5, start)
		time.Sleep(5 * time.Second) // full
		b.pause(time.Now(), 5*time.Second)
		for i := range 10 {
			if err := b.wait(t.Context(), start.Add(time.Hour)); err != nil {
				t.Fatal(err)
			}
			if at, want := time.Since(start), 10*time.Second+time.Duration(i)*100*time.Millisecond; at != want {
				t.Errorf("token %d at %v, want %v", i, at, want)
			}
		}
	})
}

func TestBucketRefusesWhatComesTooLate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		b := newBucket(1, 1, start)
		b.pause(start, 10*time.Second)
		if err := b.wait(t.Context(), start.Add(2*time.Second)); !errors.Is(err, errLate) || time.Since(start) != 0 {
			t.Errorf("%v after %v, want %v at once", err, time.Since(start), errLate)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := b.wait(ctx, start.Add(time.Hour)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a canceled wait ends with %v", err)
		}
		if err := b.wait(t.Context(), start.Add(time.Hour)); err != nil || time.Since(start) != 10*time.Second {
			t.Errorf("token at %v, %v: refused waits took one", time.Since(start), err)
		}
	})
}

// A late wake-up takes the token of its own instant and delays no other; what
// is later than the slack does not come back.
func TestBucketForgivesALittleLateness(t *testing.T) {
	t.Parallel()
	start := time.Unix(1000, 0)
	ms := func(n int) time.Time { return start.Add(time.Duration(n) * time.Millisecond) }
	b := newBucket(100, 1, start)
	far := ms(1e6)
	for i, step := range []struct {
		arrived, now int
		rest         time.Duration
	}{
		{0, 9, time.Millisecond},       // token at 10
		{0, 15, 0},                     // 5 late
		{0, 19, time.Millisecond},      // the next still at 20
		{0, 20, 0},                     //
		{0, 400, 0},                    // 370 late: that of 375
		{0, 400, 0},                    // 385
		{0, 400, 0},                    // 395
		{0, 401, 4 * time.Millisecond}, // and on from there
		{600, 600, 0},                  // idle
		{600, 601, 9 * time.Millisecond},
	} {
		if rest, err := b.take(ms(step.arrived), ms(step.now), far); err != nil || rest != step.rest {
			t.Errorf("step %d: rest %v, %v, want %v", i, rest, err, step.rest)
		}
	}
}

func TestBucketWakesForANewRate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		b := newBucket(0.01, 1, start)
		time.AfterFunc(50*time.Second, func() { b.set(1, 1, time.Now()) }) // half a token has accrued
		if err := b.wait(t.Context(), start.Add(time.Hour)); err != nil || time.Since(start) != 50500*time.Millisecond {
			t.Errorf("token after %v, %v", time.Since(start), err)
		}
	})
}

func TestPace(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		n     Number
		rate  float64
		burst int
	}{
		{Number{Limit: 80}, 79, 1},
		{Number{Limit: 100, Headroom: 0.2}, 80, 1},
		{Number{Limit: 1000, Headroom: 0.2, Burst: 20}, 800, 20},
		{Number{Limit: 1000, Headroom: 0.2, Burst: 500}, 500, 25},
		{Number{}, 0, 1},
	} {
		if rate, burst := pace(tt.n); math.Abs(rate-tt.rate) > 1e-9 || burst != tt.burst || rate+float64(burst) > max(tt.n.Limit, 1) {
			t.Errorf("pace(%+v) = %v, %d, want %v, %d", tt.n, rate, burst, tt.rate, tt.burst)
		}
	}
}

func BenchmarkBucketTake(b *testing.B) {
	start := time.Now()
	bu := newBucket(1000, 1, start)
	now := start
	for b.Loop() {
		now = now.Add(time.Millisecond)
		if _, err := bu.take(now, now, now.Add(time.Hour)); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkBucketWait is the price of a token among many waiters, on the real
// clock: its rate is far beyond what it is asked to pace.
func BenchmarkBucketWait(b *testing.B) {
	bu := newBucket(1e9, 1, time.Now())
	far := time.Now().Add(24 * time.Hour)
	b.SetParallelism(50)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if bu.wait(context.Background(), far) != nil {
				return
			}
		}
	})
}

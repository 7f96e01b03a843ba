package engine

import (
	"context"
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"
)

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

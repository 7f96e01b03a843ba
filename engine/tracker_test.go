package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// commits is a StatusStore that takes a while and remembers its batches.
type commits struct {
	latency time.Duration
	refuse  int64 // a recipient whose data is refused
	err     error
	mu      sync.Mutex
	batches [][]StatusUpdate
	events  int
}

func (c *commits) ApplyStatuses(ctx context.Context, updates []StatusUpdate, events []Event) (Applied, error) {
	time.Sleep(c.latency)
	c.mu.Lock()
	defer c.mu.Unlock()
	if slices.ContainsFunc(updates, func(u StatusUpdate) bool { return c.refuse != 0 && u.Recipient == c.refuse }) {
		return Applied{}, fmt.Errorf("apply: %w", ErrRefused)
	}
	c.batches = append(c.batches, updates)
	c.events += len(events)
	return Applied{Matched: len(updates)}, c.err
}

func startTracker(t *testing.T, o TrackerOptions) (tr *Tracker, stop func()) {
	t.Helper()
	tr, err := NewTracker(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = tr.Run(ctx) })
	return tr, func() { cancel(); running.Wait() }
}

func about(id int64) []StatusUpdate {
	return []StatusUpdate{{Recipient: id, Claim: 1, MessageID: fmt.Sprint(id), Status: Sent, At: time.Unix(id, 0)}}
}

func TestTrackerCommitsInGroups(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &commits{latency: 5 * time.Millisecond}
		tr, stop := startTracker(t, TrackerOptions{Store: store})
		var waits sync.WaitGroup
		var mu sync.Mutex
		var took []time.Duration
		for i := range 3000 { // 3 000 a second for a second
			time.Sleep(time.Second / 3000)
			waits.Go(func() {
				start := time.Now()
				if err := tr.Submit(t.Context(), about(int64(i+1)), nil); err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				took = append(took, time.Since(start))
			})
		}
		waits.Wait()
		stop()
		slices.Sort(took)
		p50, worst := took[len(took)/2], took[len(took)-1]
		t.Logf("%d commits; p50 %v, worst %v", len(store.batches), p50, worst)
		if p50 > 50*time.Millisecond || worst > 50*time.Millisecond {
			t.Errorf("p50 %v, worst %v", p50, worst)
		}
		if len(store.batches) > 110 {
			t.Errorf("%d commits for 3 000 deliveries", len(store.batches))
		}
		store.check(t, 3000)
	})
}

// check fails unless all updates were committed, each batch in order.
func (c *commits) check(t *testing.T, want int) {
	t.Helper()
	total := 0
	for _, b := range c.batches {
		total += len(b)
		if !slices.IsSortedFunc(b, func(a, b StatusUpdate) int { return int(a.Recipient - b.Recipient) }) {
			t.Error("a batch is not sorted by recipient")
		}
	}
	if total != want {
		t.Errorf("%d of %d updates were committed", total, want)
	}
}

func TestTrackerAnswersAfterTheCommit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &commits{latency: time.Second}
		tr, stop := startTracker(t, TrackerOptions{Store: store})
		defer stop()
		done := make(chan error, 1)
		go func() { done <- tr.Submit(t.Context(), about(1), []Event{{Kind: "account_update"}}) }()
		time.Sleep(900 * time.Millisecond)
		select {
		case <-done:
			t.Error("answered before the commit")
		default:
		}
		if err := <-done; err != nil || store.events != 1 {
			t.Errorf("%v, %d events", err, store.events)
		}
	})
}

func TestTrackerIsBusyWhenFull(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]TrackerOptions{
		"count": {MaxItems: 3},
		"bytes": {MaxBytes: 1500},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				o.Store = &commits{latency: time.Minute}
				o.Timeout = time.Hour
				tr, stop := startTracker(t, o)
				var waits sync.WaitGroup
				submit := func(id int64) {
					waits.Go(func() {
						if err := tr.Submit(t.Context(), about(id), nil); err != nil {
							t.Error(err)
						}
					})
					time.Sleep(20 * time.Millisecond)
				}
				for id := range int64(4) { // one is being committed, three wait
					submit(id)
				}
				if err := tr.Submit(t.Context(), about(9), nil); !errors.Is(err, ErrBusy) {
					t.Errorf("full: %v", err)
				}
				waits.Wait() // drained, it takes more
				submit(10)
				stop()
				waits.Wait()
				if err := tr.Submit(t.Context(), about(11), nil); !errors.Is(err, ErrBusy) {
					t.Errorf("stopped: %v", err)
				}
			})
		})
	}
}

func TestTrackerPassesErrorsToEveryWaiter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &commits{err: errDown}
		tr, stop := startTracker(t, TrackerOptions{Store: store})
		var waits sync.WaitGroup
		for id := range int64(5) {
			waits.Go(func() {
				if err := tr.Submit(t.Context(), about(id), nil); !errors.Is(err, errDown) {
					t.Errorf("submission %d: %v", id, err)
				}
			})
		}
		waits.Wait()
		stop()
		if len(store.batches) != 1 {
			t.Errorf("%d commits, want one", len(store.batches))
		}
	})
}

// One delivery whose data Postgres refuses must not fail those it happens to
// be committed with: the platform repeats it for days.
func TestTrackerIsolatesARefusedDelivery(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tr, stop := startTracker(t, TrackerOptions{Store: &commits{refuse: 7}})
		var waits sync.WaitGroup
		for id := range int64(20) {
			waits.Go(func() {
				if err := tr.Submit(t.Context(), about(id), nil); errors.Is(err, ErrRefused) != (id == 7) {
					t.Errorf("submission %d: %v", id, err)
				}
			})
		}
		waits.Wait()
		stop()
	})
}

func TestTrackerDrains(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &commits{latency: time.Second}
		tr, stop := startTracker(t, TrackerOptions{Store: store, Batch: 2})
		var waits sync.WaitGroup
		for id := range int64(7) {
			waits.Go(func() {
				if err := tr.Submit(t.Context(), about(id+1), nil); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		stop()
		waits.Wait()
	})
}

// A delivery that is a batch by itself shares its commit with no other, and so
// not its failure either.
func TestTrackerCommitsALargeDeliveryAlone(t *testing.T) {
	t.Parallel()
	for _, at := range []int{0, 1, 2} { // it comes first, second, last
		synctest.Test(t, func(t *testing.T) {
			const large = 50
			tr, stop := startTracker(t, TrackerOptions{Store: tooMuch(large), Batch: large})
			defer stop()
			var got [3]error
			var waits sync.WaitGroup
			for i := range got {
				events := 1
				if i == at {
					events = large
				}
				waits.Go(func() { got[i] = tr.Submit(t.Context(), nil, make([]Event, events)) })
				synctest.Wait()
			}
			waits.Wait()
			for i, err := range got {
				if (err != nil) != (i == at) {
					t.Errorf("the large one at %d: delivery %d: %v", at, i, err)
				}
			}
		})
	}
}

// tooMuch is a StatusStore that cannot commit so many events, and takes a while.
type tooMuch int

func (n tooMuch) ApplyStatuses(_ context.Context, _ []StatusUpdate, events []Event) (Applied, error) {
	time.Sleep(time.Second)
	if len(events) >= int(n) {
		return Applied{}, context.DeadlineExceeded
	}
	return Applied{}, nil
}

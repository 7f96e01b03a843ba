package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

const (
	flushRows    = 500                    // a batch this large is written at once
	flushAfter   = 250 * time.Millisecond // else this long after its first result
	recordCall   = 5 * time.Second        // timeout of one write
	retryLeast   = 50 * time.Millisecond  // window of the first retry of a write; doubles
	retryMost    = time.Second            // small, so that recovery is quick
	refusedAfter = 5                      // failures in a row that heartbeats in between make the data's fault
	poisonEvery  = 30 * time.Second       // how often a refused result is tried again
)

// writer records the results of one lane, in order of id, in batches. It
// never drops a result: what cannot be written is tried again until the lane
// has ended and its last flush ran out of time, and the claim batches of what
// was not written stay in the database for the next owner to find.
//
// Its queue has no bound of its own because the claimer takes no row whose
// result it has no room for (outstanding).
type writer struct {
	store   Store
	lease   LeaseID
	reached func() time.Time // when the last heartbeat that got through was sent
	metrics *laneMetrics
	strain  *strain
	log     *slog.Logger

	mu      sync.Mutex
	queue   []Result
	open    map[int64]int // claim batch → results of it not yet recorded
	missing int           // claimed rows without a recorded result
	closing bool
	wake    chan struct{} // capacity 1: the queue has its first or its 500th result, or is closing

	poison  []Result // refused for their data, alone; touched only by run
	retryAt time.Time
}

func newWriter(l *lane) *writer {
	return &writer{
		store: l.opts.Store, lease: l.lease, metrics: l.metrics, strain: &l.strain, log: l.log,
		reached: l.trust.since,
		open:    make(map[int64]int), wake: make(chan struct{}, 1),
	}
}

// expect announces a claim batch of n rows, before any of its results.
func (w *writer) expect(seq int64, n int) {
	if n == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.open[seq] = n
	w.missing += n
	w.metrics.unrecorded.Set(float64(w.missing))
}

// add queues a result. It never blocks.
func (w *writer) add(r Result) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.queue = append(w.queue, r)
	if n := len(w.queue); n == 1 || n == flushRows {
		signal(w.wake)
	}
}

// outstanding is how many claimed rows have no recorded result.
func (w *writer) outstanding() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.missing
}

// close lets run end after the last flush.
func (w *writer) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closing = true
	signal(w.wake)
}

// run writes until it is closed and everything is written, or ctx, which
// bounds the last flush, ends.
func (w *writer) run(ctx context.Context) {
	for ctx.Err() == nil {
		batch, more := w.next(ctx)
		w.record(ctx, batch)
		w.retryPoison(ctx, !more)
		if !more {
			break
		}
	}
	if n := w.outstanding(); n > 0 {
		w.log.Error("results not recorded; the number's next owner will find their rows as unknown", "rows", n)
	}
}

// next waits for a batch: 500 results, or what there is 250 ms after the
// first, or at once when closing. more is false with the last one.
func (w *writer) next(ctx context.Context) (batch []Result, more bool) {
	var due <-chan time.Time
	for {
		n, closing := w.queued()
		if n >= flushRows || closing {
			batch = w.take()
			return batch, !closing || n > len(batch)
		}
		if n > 0 && due == nil {
			timer := time.NewTimer(flushAfter)
			defer timer.Stop()
			due = timer.C
		}
		select {
		case <-w.wake:
		case <-due:
			return w.take(), true
		case <-ctx.Done():
			return nil, false
		}
	}
}

func (w *writer) queued() (n int, closing bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.queue), w.closing
}

func (w *writer) take() []Result {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := min(len(w.queue), flushRows)
	batch := slices.Clone(w.queue[:n])
	w.queue = append(w.queue[:0], w.queue[n:]...)
	// Two batches that lock the same rows in different orders deadlock.
	slices.SortFunc(batch, func(a, b Result) int {
		return cmp.Or(cmp.Compare(a.Recipient, b.Recipient), cmp.Compare(a.Claim, b.Claim))
	})
	return batch
}

// record writes a batch, again and again until it is written. A batch that is
// refused for its data is halved until the row that is to blame stands alone.
func (w *writer) record(ctx context.Context, batch []Result) {
	start := time.Now()
	for failures := 0; len(batch) > 0; {
		err := w.try(ctx, batch)
		if err == nil {
			return
		}
		if ctx.Err() != nil {
			return // still counted in missing, which run reports
		}
		failures++
		if w.refused(err, failures, start) {
			w.split(ctx, batch, err)
			return
		}
		w.log.Warn("results not recorded yet; trying again", "rows", len(batch), "err", err)
		pause(ctx, time.Duration(rand.Float64()*window(retryLeast, retryMost, failures)))
	}
}

// refused tells a bad row from a bad connection: the store says so, or the
// same batch keeps failing while heartbeats do reach Postgres.
func (w *writer) refused(err error, failures int, since time.Time) bool {
	return errors.Is(err, ErrRefused) || (failures >= refusedAfter && w.reached().After(since))
}

func (w *writer) split(ctx context.Context, batch []Result, err error) {
	if len(batch) > 1 {
		w.record(ctx, batch[:len(batch)/2])
		w.record(ctx, batch[len(batch)/2:])
		return
	}
	r := batch[0]
	w.log.Error("result refused; it is kept and tried again, its row stays sending",
		"recipient", r.Recipient, "campaign", r.Campaign, "status", r.Status.String(), "err", err)
	w.poison = append(w.poison, r)
	w.retryAt = time.Now().Add(poisonEvery)
}

// retryPoison tries refused results once more, each alone.
func (w *writer) retryPoison(ctx context.Context, last bool) {
	if len(w.poison) == 0 || (!last && time.Now().Before(w.retryAt)) {
		return
	}
	w.retryAt = time.Now().Add(poisonEvery)
	w.poison = slices.DeleteFunc(w.poison, func(r Result) bool {
		return w.try(ctx, []Result{r}) == nil
	})
}

// try writes a batch once. A claim batch is named as done in the same call as
// its last result: the database forgets it only with everything known.
func (w *writer) try(ctx context.Context, batch []Result) error {
	done, counts := w.finished(batch)
	call, cancel := context.WithTimeout(ctx, recordCall)
	defer cancel()
	start := time.Now()
	err := w.store.Record(call, w.lease, batch, done)
	observe(w.metrics.record, start)
	w.strain.took(time.Since(start), err)
	if err != nil {
		return fmt.Errorf("record results: %w", err)
	}
	w.settle(batch, counts)
	return nil
}

// finished counts a batch by claim batch and lists those it completes.
func (w *writer) finished(batch []Result) (done []int64, counts map[int64]int) {
	counts = make(map[int64]int)
	for _, r := range batch {
		counts[r.Seq]++
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for seq, n := range counts {
		if w.open[seq] == n {
			done = append(done, seq)
		}
	}
	slices.Sort(done)
	return done, counts
}

// settle counts recorded results down.
func (w *writer) settle(batch []Result, counts map[int64]int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for seq, n := range counts {
		if w.open[seq] -= n; w.open[seq] == 0 {
			delete(w.open, seq)
		}
	}
	w.missing -= len(batch)
	w.metrics.unrecorded.Set(float64(w.missing))
	for _, r := range batch {
		w.metrics.results[r.Status].Inc()
	}
}

// pause sleeps for d or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// ErrBusy is Submit's answer when the queue is full or the tracker has
// stopped: nothing was kept, and the platform should deliver again later.
var ErrBusy = errors.New("status queue full")

// TrackerOptions configures a Tracker. Store is required.
type TrackerOptions struct {
	Store    StatusStore
	MaxItems int           // updates and events waiting for a commit; default 20 000
	MaxBytes int           // their size in memory; default 64 MiB
	Linger   time.Duration // how long the first of a group waits for company; default 10 ms
	Batch    int           // a group of this many updates and events does not wait; default 500
	Timeout  time.Duration // of one commit; default 5 s
	Registry prometheus.Registerer
	Logger   *slog.Logger
}

// Tracker makes many small webhook deliveries into few commits, and lets each
// delivery wait for the commit that holds it: what Submit answered nil is
// durable. It never reorders a status backward (Fold and the statement see to
// that), never keeps more than its bounds, and never answers before the commit.
type Tracker struct {
	opts    TrackerOptions
	metrics *trackerMetrics

	mu      sync.Mutex
	waiting []*submission
	items   int
	bytes   int
	closed  bool
	wake    chan struct{} // capacity 1: something waits, or a full batch does
}

// submission is one Submit call.
type submission struct {
	updates []StatusUpdate
	events  []Event
	done    chan error // capacity 1, so that the committer never waits for a caller that left
}

func (s *submission) items() int { return len(s.updates) + len(s.events) }

// bytes is about what a submission holds in memory.
func (s *submission) bytes() int {
	n := 0
	for _, u := range s.updates {
		n += 384 + len(u.Number) + len(u.Phone) + len(u.MessageID) + len(u.Title)
	}
	for _, e := range s.events {
		n += 128 + len(e.Kind) + len(e.Account) + len(e.Number) + len(e.Body)
	}
	return n
}

// NewTracker checks the options. Run must run for Submit to return.
func NewTracker(o TrackerOptions) (*Tracker, error) {
	if o.Store == nil {
		return nil, errors.New("tracker needs a store")
	}
	o.MaxItems = cmp.Or(o.MaxItems, 20_000)
	o.MaxBytes = cmp.Or(o.MaxBytes, 64<<20)
	o.Linger = cmp.Or(o.Linger, 10*time.Millisecond)
	o.Batch = cmp.Or(o.Batch, 500)
	o.Timeout = cmp.Or(o.Timeout, 5*time.Second)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if o.MaxItems < 0 || o.MaxBytes < 0 || o.Linger < 0 || o.Batch < 0 || o.Timeout < 0 {
		return nil, errors.New("tracker options must not be negative; zero means the default")
	}
	m, err := newTrackerMetrics(o.Registry)
	if err != nil {
		return nil, err
	}
	return &Tracker{opts: o, metrics: m, wake: make(chan struct{}, 1)}, nil
}

// Submit hands over what one webhook delivery said and blocks until it is
// committed. It returns ErrBusy when there is no room, ctx's error when ctx
// ends first (the commit may still happen, and a repeat changes nothing), or
// the commit's error. The slices belong to the tracker until it returns.
func (t *Tracker) Submit(ctx context.Context, updates []StatusUpdate, events []Event) error {
	s := &submission{updates: updates, events: events, done: make(chan error, 1)}
	if s.items() == 0 {
		return nil
	}
	if !t.admit(s) {
		t.metrics.busy.Inc()
		return ErrBusy
	}
	select {
	case err := <-s.done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// admit queues a submission if it fits. One that alone is larger than the
// bounds is let in when nothing else waits: it could never be delivered else.
func (t *Tracker) admit(s *submission) bool {
	size := s.bytes()
	t.mu.Lock()
	defer t.mu.Unlock()
	full := t.items+s.items() > t.opts.MaxItems || t.bytes+size > t.opts.MaxBytes
	if t.closed || (full && t.items > 0) {
		return false
	}
	wasEmpty := len(t.waiting) == 0
	t.waiting = append(t.waiting, s)
	t.items += s.items()
	t.bytes += size
	t.metrics.waiting.Set(float64(t.items))
	if wasEmpty || t.items >= t.opts.Batch {
		signal(t.wake)
	}
	return true
}

// Run commits until ctx ends, then commits what still waits and returns nil.
// Stop the HTTP server that calls Submit first.
func (t *Tracker) Run(ctx context.Context) error {
	for t.gather(ctx) {
		t.commit(ctx, t.take())
	}
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	for group := t.take(); len(group) > 0; group = t.take() {
		t.commit(ctx, group)
	}
	return nil
}

// gather waits for a first submission and then lingers for company; false
// when ctx ended.
func (t *Tracker) gather(ctx context.Context) bool {
	for {
		if n := t.pending(); n >= t.opts.Batch {
			return ctx.Err() == nil
		} else if n > 0 {
			break
		}
		select {
		case <-t.wake:
		case <-ctx.Done():
			return false
		}
	}
	linger := time.NewTimer(t.opts.Linger)
	defer linger.Stop()
	for t.pending() < t.opts.Batch {
		select {
		case <-t.wake:
		case <-linger.C:
			return true
		case <-ctx.Done():
			return false
		}
	}
	return true
}

func (t *Tracker) pending() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.items
}

// take removes whole submissions from the front, about a batch of them. One that
// is a batch by itself comes alone: what is too much for one commit must not take
// ordinary deliveries along.
func (t *Tracker) take() []*submission {
	t.mu.Lock()
	defer t.mu.Unlock()
	n, items := 0, 0
	for n < len(t.waiting) && items < t.opts.Batch {
		s := t.waiting[n]
		if n > 0 && s.items() >= t.opts.Batch {
			break
		}
		items += s.items()
		t.items -= s.items()
		t.bytes -= s.bytes()
		n++
	}
	group := t.waiting[:n:n]
	t.waiting = t.waiting[n:]
	t.metrics.waiting.Set(float64(t.items))
	return group
}

// commit applies a group in one statement and tells every waiter. A group
// that was refused for its data is halved until the one bad delivery stands
// alone: the platform repeats it for days, and it must not take others along.
func (t *Tracker) commit(ctx context.Context, group []*submission) {
	err := t.apply(ctx, group)
	if errors.Is(err, ErrRefused) && len(group) > 1 {
		half := len(group) / 2
		t.commit(ctx, group[:half])
		t.commit(ctx, group[half:])
		return
	}
	if err != nil {
		t.opts.Logger.Warn("statuses not committed; the platform will repeat them", "deliveries", len(group), "err", err)
	}
	for _, s := range group {
		s.done <- err
	}
}

func (t *Tracker) apply(ctx context.Context, group []*submission) error {
	var updates []StatusUpdate
	var events []Event
	for _, s := range group {
		updates = append(updates, s.updates...)
		events = append(events, s.events...)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), t.opts.Timeout)
	defer cancel()
	start := time.Now()
	_, err := t.opts.Store.ApplyStatuses(ctx, Fold(updates), events)
	observe(t.metrics.commit, start)
	if err != nil {
		return fmt.Errorf("apply statuses: %w", err)
	}
	return nil
}

// signal wakes the one reader of a channel of capacity 1, or leaves the wake-up
// that already waits there.
func signal(wake chan struct{}) {
	select {
	case wake <- struct{}{}:
	default:
	}
}

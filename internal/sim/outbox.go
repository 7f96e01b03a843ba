package sim

import (
	"math"
	"time"
)

// event is one status that is to be sent.
type event struct {
	at    int64 // ns; when it is due, and its timestamp
	ref   uint32
	step  uint8
	again bool // a duplicate of one already acknowledged
}

func (e event) due() int64 { return e.at }

// batch is one webhook request, kept until the receiver takes it.
type batch struct {
	at     int64 // ns; when to try (again)
	first  int64 // ns; the first try
	tries  int
	events []event
	raw    []byte // the body, of news; without events
	world  *world
}

func (b *batch) due() int64 { return b.at }

// outbox holds the statuses to come. A message has at most one event in it:
// the next status is queued when the one before it was acknowledged, which
// keeps them in order and the memory small. Its world's lock guards it.
type outbox struct {
	due     queue[event]
	retries queue[*batch]
	ready   []event // due, waiting for a batch to fill
	since   int64   // ns; when the first of ready came
	parked  []event // held back by a blackout
	seen    *[]*rule
	until   int64 // ns; when the first blackout that parked something ends

	counts WebhookCounts
}

// WebhookCounts tell how the statuses stand.
type WebhookCounts struct {
	Planned    int64 `json:"planned"`    // statuses that accepted messages will get
	Acked      int64 `json:"acked"`      // answered 200
	Dropped    int64 `json:"dropped"`    // lost on purpose
	GivenUp    int64 `json:"given_up"`   // refused for longer than RetryFor
	Pending    int64 `json:"pending"`    // Planned less the three above
	Duplicates int64 `json:"duplicates"` // second deliveries acknowledged
	Posts      int64 `json:"posts"`      // requests made, retries included
	Refusals   int64 `json:"refusals"`   // requests not answered 200
}

// schedule plans a message's statuses; answer is how long after its receipt
// the first status's delay begins.
func (w *world) schedule(ref int, rec *record, answer time.Duration) {
	w.out.counts.Planned += int64(len(rec.plan.steps()))
	at := rec.received
	if rec.flags&flagHeld != 0 || draw(rec.fate, saltEarly) >= w.opts.EarlyShare {
		at += int64(answer + w.opts.stepDelay(rec.fate, 0))
	}
	w.queue(event{at: at, ref: uint32(ref)})
}

// queue adds an event and wakes the dispatcher if it is now the next one.
func (w *world) queue(e event) {
	next, ok := w.out.due.next()
	w.out.due.push(e)
	if !ok || e.at < next {
		w.signal()
	}
}

// nextBatch returns a batch to send now, or how long to wait for one.
func (w *world) nextBatch() (*batch, time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now, o := w.now(), &w.out
	w.unpark(now)
	if at, ok := o.retries.next(); ok && at <= now {
		return o.retries.pop(), 0
	}
	for len(o.ready) < w.opts.BatchSize {
		if at, ok := o.due.next(); !ok || at > now {
			break
		}
		if e := o.due.pop(); w.passes(e, now) {
			if len(o.ready) == 0 {
				o.since = now
			}
			o.ready = append(o.ready, e)
		}
	}
	full := len(o.ready) == w.opts.BatchSize
	if full || len(o.ready) > 0 && now-o.since >= int64(w.opts.BatchInterval) {
		b := &batch{at: now, first: now, events: o.ready, world: w}
		o.ready = nil
		return b, 0
	}
	return nil, w.idle(now)
}

// idle is how long nothing will be due. Waking at most once a millisecond
// costs no accuracy that a receiver could see.
func (w *world) idle(now int64) time.Duration {
	at := now + int64(time.Hour)
	if next, ok := w.out.due.next(); ok {
		at = min(at, next)
	}
	if next, ok := w.out.retries.next(); ok {
		at = min(at, next)
	}
	if len(w.out.ready) > 0 {
		at = min(at, w.out.since+int64(w.opts.BatchInterval))
	}
	if len(w.out.parked) > 0 {
		at = min(at, w.out.until)
	}
	return max(time.Duration(at-now), time.Millisecond)
}

// passes applies the webhook faults to an event that is due.
func (w *world) passes(e event, now int64) bool {
	rules := w.rules.all()
	if len(rules) == 0 {
		return true
	}
	rec := w.book.at(int(e.ref))
	sub := subject{number: w.book.names[rec.number], to: phoneText(rec.phone), fate: rec.fate + uint64(e.step)}
	r := w.rules.pick(onWebhook, &sub, now)
	switch {
	case r == nil:
		return true
	case r.Kind == WebhookDrop:
		if !e.again {
			w.out.counts.Dropped++
			w.follow(e, now)
		}
	default:
		if len(w.out.parked) == 0 {
			w.out.until = math.MaxInt64
			w.out.seen = w.rules.list.Load()
		}
		w.out.parked = append(w.out.parked, e)
		if r.until != 0 {
			w.out.until = min(w.out.until, r.until)
		}
	}
	return false
}

// unpark puts held-back events into the queue again once a blackout may have
// ended; those that another one covers are parked anew.
func (w *world) unpark(now int64) {
	o := &w.out
	if len(o.parked) == 0 || now < o.until && o.seen == w.rules.list.Load() {
		return
	}
	for _, e := range o.parked {
		o.due.push(e)
	}
	o.parked = nil
}

// follow queues the status after e, if there is one.
func (w *world) follow(e event, now int64) {
	rec := w.book.at(int(e.ref))
	step := int(e.step) + 1
	if step >= len(rec.plan.steps()) {
		return
	}
	at := max(e.at+int64(w.opts.stepDelay(rec.fate, step)), now)
	w.queue(event{at: at, ref: e.ref, step: uint8(step)})
}

// acked notes that the receiver has taken a batch.
func (w *world) acked(b *batch) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.now()
	w.out.counts.Posts++
	for _, e := range b.events {
		rec := w.book.at(int(e.ref))
		if e.again {
			w.out.counts.Duplicates++
			continue
		}
		w.out.counts.Acked++
		rec.acked |= rec.plan.steps()[e.step]
		w.follow(e, now)
		if u := draw(rec.fate, saltTwice+uint64(e.step)); u < w.opts.DuplicateShare {
			late := Spread{Jitter: time.Second}.draw(rec.fate, saltTwice)
			w.queue(event{at: now + int64(late), ref: e.ref, step: e.step, again: true})
		}
	}
}

// refused queues a batch again, or gives it up: at once the first time, then
// after RetryBase, doubling up to RetryMost, for RetryFor.
func (w *world) refused(b *batch) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.now()
	w.out.counts.Posts++
	w.out.counts.Refusals++
	b.tries++
	wait := int64(0)
	if b.tries > 1 {
		wait = min(int64(w.opts.RetryBase)<<min(b.tries-2, 32), int64(w.opts.RetryMost))
	}
	if now+wait-b.first > int64(w.opts.RetryFor) {
		for _, e := range b.events {
			if !e.again {
				w.out.counts.GivenUp++
				w.follow(e, now)
			}
		}
		return
	}
	b.at = now + wait
	w.out.retries.push(b)
	w.signal()
}

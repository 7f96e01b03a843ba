package engine

import (
	"context"
	"errors"
	"sync"
	"time"
)

var errDown = errors.New("connection refused")

// memory is the Store as a model in memory: honest about fences, claims and
// due times, on the clock of its bubble.
type memory struct {
	mu        sync.Mutex
	latency   time.Duration            // of every call
	slow      map[string]time.Duration // of one kind of call, beyond latency
	down      bool                     // no call gets through
	numbers   map[string]*memNumber
	campaigns map[int64]*memCampaign
	claims    map[memClaim]*memBatch
	grants    int
	nodes     map[string]time.Time // when each was last seen
	apart     map[string]bool      // and whether it could not reach the platform
	breakers  map[string]*memBreaker
	reports   []memReport
	moves     []memMove
	cluster   string // which database this is
	confirmed string // the one that an operator has vouched for

	restraints []Restraint
	workReads  int
	records    int
	biggest    int     // largest batch of one Record
	unsorted   bool    // a batch was not in order of id
	doneEarly  []int64 // claim batches that were forgotten with rows still sending
	asks       []Ask   // every claim
	before     func(op string, v any) error
	after      func(op string, v any) error // the call has committed; its answer is lost
}

type memNumber struct {
	Number
	lease    LeaseID
	holder   string
	beats    int64
	expires  time.Time
	ready    time.Time
	released bool
	paused   time.Time
	learned  time.Time
}

type memCampaign struct {
	Campaign
	base    int64 // first recipient id
	rows    []memRow
	due     []int64 // ids to claim now, next last
	delayed []int64
	halted  bool
	until   time.Time // pauses
	closes  time.Time // its window; zero: never
	pausing bool      // and not halted yet
	version int64
	acked   Ack // the last one
}

// pause asks for a pause; nothing is claimed from here on.
func (c *memCampaign) pause() {
	if !c.halted && !c.pausing {
		c.pausing = true
		c.version++
	}
}

// closed reports whether a call that may be written as late as this would be
// out of its window.
func (c *memCampaign) closed(fresh time.Duration) bool {
	return !c.closes.IsZero() && !time.Now().Add(fresh).Before(c.closes)
}

// resume is an operator's.
func (c *memCampaign) resume() {
	c.halted, c.pausing = false, false
	c.version++
}

type memRow struct {
	status     Status
	claim      int32
	attempt    int
	due        time.Time
	messages   []string
	code       int
	suppressed bool
	peace      time.Time // leave the person alone until then
}

type memClaim struct {
	lease LeaseID
	seq   int64
}

type memBatch struct {
	ids    []int64
	fences []int32
	dues   []time.Time
}

func newMemory(latency time.Duration, numbers ...Number) *memory {
	m := &memory{
		latency: latency, numbers: make(map[string]*memNumber),
		campaigns: make(map[int64]*memCampaign), claims: make(map[memClaim]*memBatch),
		nodes: make(map[string]time.Time), apart: make(map[string]bool), cluster: "1.1", confirmed: "1.1",
		breakers: map[string]*memBreaker{HostScope: {}},
	}
	for _, n := range numbers {
		n.Enabled = true
		m.numbers[n.ID] = &memNumber{Number: n}
		m.breakers[NumberScope(n.ID)] = &memBreaker{}
	}
	return m
}

// campaign adds a running campaign of n recipients, due now.
func (m *memory) campaign(id int64, priority, n int) *memCampaign {
	c := &memCampaign{
		Campaign: Campaign{ID: id, Priority: priority, Retry: Retry{MaxAttempts: 3}, Zones: []int16{0}, Template: &Template{Name: "hello"}},
		base:     id * 10_000_000,
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range n {
		c.rows = append(c.rows, memRow{due: time.Now()})
		c.due = append(c.due, c.base+int64(n-1-i))
	}
	m.campaigns[id] = c
	return c
}

func (m *memory) row(id int64) *memRow {
	c := m.campaigns[id/10_000_000]
	return &c.rows[id-c.base]
}

// begin is the start of every call: it takes time, and may not get through.
func (m *memory) begin(ctx context.Context, op string, v any) error {
	m.mu.Lock()
	timer := time.NewTimer(m.latency + m.slow[op])
	m.mu.Unlock()
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	m.mu.Lock()
	if m.down {
		m.mu.Unlock()
		return errDown
	}
	if m.before != nil {
		if err := m.before(op, v); err != nil {
			m.mu.Unlock()
			return err
		}
	}
	return nil
}

// end is the end of every call that was done.
func (m *memory) end(op string, v any) error {
	defer m.mu.Unlock()
	if m.after != nil {
		return m.after(op, v)
	}
	return nil
}

func (m *memory) fenced(id LeaseID) bool {
	n := m.numbers[id.Number]
	now := time.Now()
	return n.lease != id || n.released || now.Before(n.ready) || !now.Before(n.expires)
}

func (m *memory) Work(ctx context.Context, id LeaseID) (Work, error) {
	if err := m.begin(ctx, "work", id); err != nil {
		return Work{}, err
	}
	m.workReads++
	n := m.numbers[id.Number]
	w := Work{Number: n.Number}
	w.Number.Paused = max(0, time.Until(n.paused))
	w.Number.Learned.Age = time.Since(n.learned)
	for _, c := range m.campaigns {
		if !c.halted && !c.pausing && !time.Now().Before(c.until) {
			w.Campaigns = append(w.Campaigns, c.Campaign)
		}
		if c.pausing && (c.acked.Lease != id || c.acked.Version != c.version) {
			w.Controls = append(w.Controls, Control{Campaign: c.ID, Version: c.version})
		}
	}
	return w, m.end("work", id)
}

func (m *memory) Restrain(ctx context.Context, r Restraint) error {
	if err := m.begin(ctx, "restrain", r); err != nil {
		return err
	}
	m.restraints = append(m.restraints, r)
	switch r.Kind {
	case PauseNumber:
		n := m.numbers[r.Number]
		n.paused = later(n.paused, time.Now().Add(r.For))
		if r.Learned.Rate > 0 {
			n.Learned, n.learned = r.Learned, time.Now()
		}
	case HaltNumber:
		m.numbers[r.Number].Enabled = false
	case HaltCampaign:
		c := m.campaigns[r.Campaign]
		for _, other := range m.campaigns { // of one account
			if other == c || r.Scope == ScopeTemplate && other.Template.Name == c.Template.Name {
				other.pause()
			}
		}
	case PauseCampaign:
		m.campaigns[r.Campaign].until = time.Now().Add(r.For)
	}
	return m.end("restrain", r)
}

// Acknowledge halts a campaign that pauses: here every campaign has one number.
func (m *memory) Acknowledge(ctx context.Context, a Ack) error {
	if err := m.begin(ctx, "acknowledge", a); err != nil {
		return err
	}
	if c := m.campaigns[a.Campaign]; c.pausing && c.version == a.Version && !m.fenced(a.Lease) {
		c.acked, c.pausing, c.halted = a, false, true
	}
	return m.end("acknowledge", a)
}

// change alters the model, or looks at it.
func (m *memory) change(f func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f()
}

// claimed is how many claims there were.
func (m *memory) claimed() (n int) {
	m.change(func() { n = len(m.asks) })
	return n
}

// counts is how many rows of a campaign have each status.
func (m *memory) counts(campaign int64) map[Status]int {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := make(map[Status]int)
	for _, r := range m.campaigns[campaign].rows {
		n[r.status]++
	}
	return n
}

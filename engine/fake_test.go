package engine

import (
	"context"
	"errors"
	"slices"
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
}

type memCampaign struct {
	Campaign
	base    int64 // first recipient id
	rows    []memRow
	due     []int64 // ids to claim now, next last
	delayed []int64
	halted  bool
}

type memRow struct {
	status     Status
	claim      int32
	attempt    int
	due        time.Time
	messages   []string
	code       int
	suppressed bool
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
	}
	for _, n := range numbers {
		n.Enabled = true
		m.numbers[n.ID] = &memNumber{Number: n}
	}
	return m
}

// campaign adds a running campaign of n recipients, due now.
func (m *memory) campaign(id int64, priority, n int) *memCampaign {
	c := &memCampaign{
		Campaign: Campaign{ID: id, Priority: priority, MaxAttempts: 3, Zones: []int16{0}, Template: &Template{Name: "hello"}},
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
	timer := time.NewTimer(m.latency + m.slow[op])
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
	for _, c := range m.campaigns {
		if !c.halted {
			w.Campaigns = append(w.Campaigns, c.Campaign)
		}
	}
	return w, m.end("work", id)
}

// Claim commits also when its caller has canceled it: the worst that a real
// one can do.
func (m *memory) Claim(ctx context.Context, ask Ask) ([]Recipient, error) {
	if err := m.begin(context.WithoutCancel(ctx), "claim", ask); err != nil {
		return nil, err
	}
	m.asks = append(m.asks, ask)
	n := m.numbers[ask.Lease.Number]
	var got []Recipient
	if !m.fenced(ask.Lease) && n.Enabled && !time.Now().Before(n.paused) {
		got = m.takeDue(ask)
	}
	return got, errors.Join(m.end("claim", ask), ctx.Err())
}

func (m *memory) takeDue(ask Ask) []Recipient {
	var got []Recipient
	batch := &memBatch{}
	for _, s := range ask.Slices {
		c := m.campaigns[s.Campaign]
		if c == nil || c.halted || !slices.Contains(c.Zones, s.Zone) {
			continue
		}
		c.delayed = slices.DeleteFunc(c.delayed, func(id int64) bool {
			due := !time.Now().Before(m.row(id).due)
			if due {
				c.due = append(c.due, id)
			}
			return due
		})
		for n := 0; n < s.Share && len(got) < ask.Free && len(c.due) > 0; n++ {
			id := c.due[len(c.due)-1]
			c.due = c.due[:len(c.due)-1]
			r := m.row(id)
			r.claim++
			out := Recipient{ID: id, Campaign: c.ID, Claim: r.claim, Attempt: r.attempt + 1, Due: r.due, Phone: "+1", Suppressed: r.suppressed}
			got = append(got, out)
			if r.suppressed {
				r.status = Suppressed
				continue
			}
			r.status, r.attempt = Sending, r.attempt+1
			batch.ids, batch.fences, batch.dues = append(batch.ids, id), append(batch.fences, r.claim), append(batch.dues, r.due)
		}
	}
	if len(batch.ids) > 0 {
		m.claims[memClaim{ask.Lease, ask.Seq}] = batch
	}
	return got
}

func (m *memory) GiveBack(ctx context.Context, id LeaseID, seqs []int64) (int, error) {
	if err := m.begin(ctx, "giveback", seqs); err != nil {
		return 0, err
	}
	n := 0
	for _, seq := range seqs {
		k := memClaim{id, seq}
		b := m.claims[k]
		if b == nil || m.numbers[id.Number].lease != id {
			continue
		}
		for i, rid := range b.ids {
			n += m.write(Result{Recipient: rid, Claim: b.fences[i], Status: Pending, Refund: true, KeepDue: true, Due: b.dues[i]})
		}
		delete(m.claims, k)
	}
	return n, m.end("giveback", seqs)
}

func (m *memory) Record(ctx context.Context, id LeaseID, results []Result, done []int64) error {
	if err := m.begin(ctx, "record", results); err != nil {
		return err
	}
	m.records++
	m.biggest = max(m.biggest, len(results))
	m.unsorted = m.unsorted || !slices.IsSortedFunc(results, func(a, b Result) int { return int(a.Recipient - b.Recipient) })
	for _, r := range results {
		m.write(r)
	}
	for _, seq := range done {
		k := memClaim{id, seq}
		b := m.claims[k]
		if b == nil || m.numbers[id.Number].lease != id {
			continue
		}
		for i, rid := range b.ids {
			if r := m.row(rid); r.status == Sending && r.claim == b.fences[i] {
				m.doneEarly = append(m.doneEarly, seq)
			}
		}
		delete(m.claims, k)
	}
	return m.end("record", results)
}

// write is one result, fenced by the row's claim unless it is a fact.
func (m *memory) write(r Result) int {
	row := m.row(r.Recipient)
	if r.Status == Accepted || r.Status == Held {
		row.messages = append(row.messages, r.MessageID)
		slices.Sort(row.messages)
		row.messages = slices.Compact(row.messages)
	}
	if row.claim != r.Claim || (row.status != Sending && row.status != Unknown) {
		return 0
	}
	row.status, row.code = r.Status, r.Code
	if r.Status != Pending {
		return 1
	}
	if r.Refund {
		row.attempt--
	}
	c := m.campaigns[r.Recipient/10_000_000]
	row.due = r.Due
	if !r.KeepDue {
		row.due = time.Now().Add(r.Delay)
	}
	c.delayed = append(c.delayed, r.Recipient)
	return 1
}

func (m *memory) Restrain(ctx context.Context, r Restraint) error {
	if err := m.begin(ctx, "restrain", r); err != nil {
		return err
	}
	m.restraints = append(m.restraints, r)
	switch r.Kind {
	case PauseNumber:
		m.numbers[r.Number].paused = later(m.numbers[r.Number].paused, time.Now().Add(r.For))
	case HaltNumber:
		m.numbers[r.Number].Enabled = false
	case HaltCampaign:
		m.campaigns[r.Campaign].halted = true
	}
	return m.end("restrain", r)
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

package engine

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"
)

const (
	reportEvery = 500 * time.Millisecond // between reports of what calls came to
	lookEvery   = time.Second            // between looks at the breakers when there is nothing to report
	reportStale = 5 * time.Second        // older than this, what calls came to says nothing of now
)

// permit is the one probe of a scope, while this node holds it.
type permit struct {
	scope, token string
	asked        time.Time // for it: nobody forced the breaker open then
	by           instant   // its call must be written before this
}

// board is a node's link to the breakers: it reports what the calls of all its
// lanes came to, tells them how things stand, and writes what probes came to.
// It decides nothing: Postgres judges, from every node's reports.
type board struct {
	store  Store
	node   string
	policy BreakerPolicy
	log    *slog.Logger
	wake   chan struct{} // capacity 1: something is worth a report at once
	host   *breaker
	out    *egress

	mu     sync.Mutex
	fuses  map[string]*fuse // by number
	probes []probed         // to be written
	looked time.Time        // when it was last asked how things stand

	// Touched by run alone.
	seq     int64
	minded  BreakerState // how the node's own breaker stood when the lanes were last told
	pending *Report      // sent, and not answered yet
	made    time.Time
}

// probed is what a probe came to, until it is written.
type probed struct {
	Probed
	until time.Time // then its permit has run out
}

func newBoard(o Options) *board {
	b := &board{
		store: o.Store, node: o.ID, policy: o.Breaker, log: o.Logger, wake: make(chan struct{}, 1),
		host: &breaker{policy: o.Breaker}, fuses: make(map[string]*fuse), seq: time.Now().UnixNano(),
		out: newEgress(o.Breaker.Failures, o.Ping, o.Logger),
	}
	b.out.moved = func() { signal(b.wake) }
	return b
}

// join links a lane's fuse; leave unlinks it.
func (b *board) join(f *fuse) {
	f.host, f.out, f.hurry, f.probed = b.host, b.out, func() { signal(b.wake) }, b.probed
	f.closings = b.host.settled(time.Now())
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fuses[f.number.lease.Number] = f
	b.looked = time.Time{}
	signal(b.wake)
}

func (b *board) leave(f *fuse) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if number := f.number.lease.Number; b.fuses[number] == f {
		delete(b.fuses, number)
	}
}

// run reports until ctx ends.
func (b *board) run(ctx context.Context) {
	var asking sync.WaitGroup
	asking.Go(func() { b.out.run(ctx) })
	defer asking.Wait()
	tick := time.NewTicker(reportEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-b.wake:
		case <-ctx.Done():
			b.settle(context.WithoutCancel(ctx)) // or the fleet waits for permits to run out
			return
		}
		b.mind()
		b.settle(ctx)
		b.report(ctx)
	}
}

// mind has the lanes look again when the node's own breaker has moved.
func (b *board) mind() {
	state := b.out.state()
	if state == b.minded {
		return
	}
	b.minded = state
	for _, f := range b.all() {
		f.changed()
	}
}

// report sends what there is to report, and takes up what it is told. When
// there is nothing, it looks: often while something is not closed.
func (b *board) report(ctx context.Context) {
	now := time.Now()
	fuses := b.all()
	if b.pending != nil && now.Sub(b.made) > reportStale {
		b.pending = nil
	}
	if b.pending == nil {
		b.pending, b.made = b.collect(fuses), now
	}
	if b.pending == nil && !b.curious(fuses, now) {
		return
	}
	told, err := b.ask(ctx, fuses)
	if err != nil {
		if ctx.Err() == nil {
			b.log.Warn("breakers not reached; trying again", "err", err)
		}
		return
	}
	b.pending = nil
	b.mu.Lock()
	b.looked = now
	b.mu.Unlock()
	b.tell(told, fuses, now)
}

func (b *board) ask(ctx context.Context, fuses []*fuse) ([]Breaker, error) {
	call, cancel := context.WithTimeout(ctx, controlCall)
	defer cancel()
	if b.pending != nil {
		return b.store.ReportBreakers(call, *b.pending)
	}
	scopes := make([]string, len(fuses))
	for i, f := range fuses {
		scopes[i] = NumberScope(f.number.lease.Number)
	}
	return b.store.Breakers(call, b.node, scopes)
}

// curious reports whether it is time to look at how things stand.
func (b *board) curious(fuses []*fuse, now time.Time) bool {
	calm, _ := b.host.view()
	calm = calm && b.out.passes(now)
	for _, f := range fuses {
		closed, _ := f.number.view()
		calm = calm && closed
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(fuses) > 0 && (!calm || now.Sub(b.looked) >= lookEvery)
}

// collect makes the next report, nil when there is nothing new to say. It names
// every lane's number, so that each is told how it stands.
func (b *board) collect(fuses []*fuse) *Report {
	t, news := b.host.take()
	tallies := []Tally{t}
	for _, f := range fuses {
		t, more := f.number.take()
		tallies, news = append(tallies, t), news || more
	}
	if !news {
		return nil
	}
	b.seq++
	return &Report{Node: b.node, Seq: b.seq, Policy: b.policy, Tallies: tallies}
}

func (b *board) all() []*fuse {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Collect(maps.Values(b.fuses))
}

// tell gives every fuse what it was told, and has the lanes act on it.
func (b *board) tell(told []Breaker, fuses []*fuse, asked time.Time) {
	now := time.Now()
	every := false
	for _, t := range told {
		if t.Scope == HostScope {
			every = b.tellOne(b.host, t, asked, now)
			if t.Others > 0 {
				b.out.heardOf(now.Add(-t.Others))
			}
		}
	}
	for _, f := range fuses {
		i := slices.IndexFunc(told, func(t Breaker) bool { return t.Scope == NumberScope(f.number.lease.Number) })
		changed := i >= 0 && b.tellOne(f.number, told[i], asked, now)
		if changed || every {
			f.changed()
		}
	}
}

func (b *board) tellOne(to *breaker, t Breaker, asked, now time.Time) (changed bool) {
	was, _ := to.view()
	changed = to.tell(t, asked, now)
	if closed, _ := to.view(); changed && closed != was {
		b.log.Warn("breaker moved", "scope", t.Scope, "state", t.State.String(), "forced", t.Forced)
	}
	return changed
}

// probed takes up what a probe came to, to be written at once.
func (b *board) probed(p *permit, end ProbeEnd) {
	if p.scope == LocalScope {
		b.out.returned()
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.probes = append(b.probes, probed{
		Probed{Scope: p.scope, Token: p.token, End: end, Policy: b.policy},
		time.Now().Add(time.Minute),
	})
	signal(b.wake)
}

// settle writes what probes came to. A word that cannot be written goes on
// being tried while its permit may last; then another probe is made.
func (b *board) settle(ctx context.Context) {
	b.mu.Lock()
	probes := slices.Clone(b.probes)
	b.mu.Unlock()
	for _, p := range probes {
		call, cancel := context.WithTimeout(ctx, controlCall)
		err := b.store.SettleProbe(call, p.Probed)
		cancel()
		if err != nil && time.Now().Before(p.until) {
			b.log.Warn("what a probe came to is not written yet; trying again", "scope", p.Scope, "err", err)
			continue
		}
		b.mu.Lock()
		b.probes = slices.DeleteFunc(b.probes, func(q probed) bool { return q == p })
		b.looked = time.Time{} // how does it stand now?
		b.mu.Unlock()
	}
}

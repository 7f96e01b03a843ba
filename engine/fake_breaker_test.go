package engine

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// memBreaker is a breakers row, memReport a row of breaker_reports, memMove of
// breaker_events.
type memBreaker struct {
	state       BreakerState
	since       time.Time
	cause       string
	openFor     time.Duration
	openUntil   time.Time
	token       string
	probeUntil  time.Time
	forcedUntil time.Time
	seq         int
}

type memReport struct {
	scope, node       string
	seq               int64
	at                time.Time
	samples, failures int
	streak            int
}

type memMove struct {
	scope  string
	at     time.Time
	state  BreakerState
	reason string
}

func (m *memory) move(scope string, to BreakerState, reason string) {
	b, now := m.breakers[scope], time.Now()
	if b.state != to {
		b.since = now
	}
	b.state = to
	b.seq++
	m.moves = append(m.moves, memMove{scope, now, to, reason})
}

// force is an operator's.
func (m *memory) force(scope string, to BreakerState, d time.Duration) {
	m.change(func() {
		b := m.breakers[scope]
		b.token, b.cause, b.openFor, b.forcedUntil, b.openUntil = "", "forced", 0, time.Now().Add(d), time.Now().Add(d)
		m.move(scope, to, "forced")
	})
}

func (m *memory) told(scope string) Breaker {
	b, now := m.breakers[scope], time.Now()
	t := Breaker{Scope: scope, State: b.state, Mark: fmt.Sprint("epoch.", b.seq), Forced: now.Before(b.forcedUntil)}
	if b.seq > 0 {
		t.Age = now.Sub(b.since)
	}
	switch b.state {
	case BreakerOpen:
		t.Wait = max(0, later(b.openUntil, b.forcedUntil).Sub(now))
	case BreakerHalfOpen:
		t.Wait = max(0, b.probeUntil.Sub(now))
	}
	return t
}

// toldHost is how the host stands, and when another node last did well.
func (m *memory) toldHost(node string) Breaker {
	t := m.told(HostScope)
	for _, r := range m.reports {
		if ago := time.Since(r.at); r.scope == HostScope && r.node != node && r.samples > r.failures && ago < 5*time.Second {
			t.Others = max(ago, 1)
		}
	}
	return t
}

func (m *memory) Breakers(ctx context.Context, node string, scopes []string) ([]Breaker, error) {
	if err := m.begin(ctx, "breakers", scopes); err != nil {
		return nil, err
	}
	all := []Breaker{m.toldHost(node)}
	for _, s := range scopes {
		all = append(all, m.told(s))
	}
	return all, m.end("breakers", scopes)
}

func (m *memory) ReportBreakers(ctx context.Context, r Report) ([]Breaker, error) {
	if err := m.begin(ctx, "report", r); err != nil {
		return nil, err
	}
	var scopes []string
	hostClosed := m.breakers[HostScope].state == BreakerClosed
	for _, t := range r.Tallies {
		scope := t.Scope()
		if scope != HostScope {
			scopes = append(scopes, scope)
			if n := m.numbers[t.Lease.Number]; !hostClosed || n.lease != t.Lease || n.released {
				continue
			}
		}
		m.keep(r, t)
		b := m.breakers[scope]
		reason := m.judge(r.Policy, t)
		if reason == "" || b.state != BreakerClosed || time.Now().Before(b.forcedUntil) {
			continue
		}
		hostClosed = hostClosed && scope != HostScope
		b.cause, b.openFor, b.openUntil = reason, r.Policy.Base, time.Now().Add(r.Policy.Base)
		m.move(scope, BreakerOpen, reason)
	}
	all := []Breaker{m.toldHost(r.Node)}
	for _, s := range scopes {
		all = append(all, m.told(s))
	}
	return all, m.end("report", r)
}

func (m *memory) keep(r Report, t Tally) {
	for _, p := range m.reports {
		if p.scope == t.Scope() && p.node == r.Node && p.seq == r.Seq {
			return
		}
	}
	if t.Samples > 0 {
		m.reports = append(m.reports, memReport{t.Scope(), r.Node, r.Seq, time.Now(), t.Samples, t.Failures, t.Streak})
	}
}

// judge is the reason to trip a scope, after a report has been kept.
func (m *memory) judge(p BreakerPolicy, t Tally) string {
	scope, now := t.Scope(), time.Now()
	last := map[string]memReport{}
	sums := map[string]memReport{}
	for _, r := range m.reports {
		if r.scope != scope || now.Sub(r.at) >= p.Window || !r.at.After(m.breakers[scope].since) ||
			scope != HostScope && !r.at.After(m.breakers[HostScope].since) {
			continue
		}
		sum := sums[r.node]
		sum.samples, sum.failures = sum.samples+r.samples, sum.failures+r.failures
		sums[r.node], last[r.node] = sum, r
	}
	var samples, failures, voters, streaks, often int
	for node, r := range last {
		if now.Sub(r.at) >= p.Abstain {
			continue
		}
		voters++
		sum := sums[node]
		samples, failures = samples+sum.samples, failures+sum.failures
		if r.streak >= p.Failures {
			streaks++
		}
		if float64(sum.failures) >= p.Share*float64(sum.samples) {
			often++
		}
	}
	share := samples >= p.Samples && float64(failures) >= p.Share*float64(samples)
	switch host := scope == HostScope; {
	case host && 2*streaks > voters, !host && t.Streak >= p.Failures:
		return "consecutive"
	case host && share && 2*often > voters, !host && share:
		return "ratio"
	case !host && t.Storm >= p.Throttles:
		return "throttled"
	}
	return ""
}

func (m *memory) TakePermit(ctx context.Context, ask PermitAsk) (string, error) {
	if err := m.begin(ctx, "permit", ask); err != nil {
		return "", err
	}
	b, now := m.breakers[ask.Scope], time.Now()
	n := m.numbers[ask.Lease.Number]
	own := NumberScope(n.ID)
	ready := b.state == BreakerOpen && !now.Before(b.openUntil) || b.state == BreakerHalfOpen && !now.Before(b.probeUntil)
	if m.fenced(ask.Lease) || !n.Enabled || now.Before(n.paused) || now.Before(b.forcedUntil) || !ready || !m.anyDue() ||
		ask.Scope != HostScope && (ask.Scope != own || m.breakers[HostScope].state != BreakerClosed) ||
		ask.Scope == HostScope && m.heldOpen(own) {
		return "", m.end("permit", ask)
	}
	reason := "probe"
	if b.state == BreakerHalfOpen {
		reason = "probe_expired"
	}
	m.grants++
	b.token, b.probeUntil = fmt.Sprint("token-", m.grants), now.Add(ask.For)
	m.move(ask.Scope, BreakerHalfOpen, reason)
	return b.token, m.end("permit", ask)
}

func (m *memory) heldOpen(scope string) bool {
	b := m.breakers[scope]
	return b.state == BreakerOpen && time.Now().Before(b.forcedUntil)
}

func (m *memory) anyDue() bool {
	for _, c := range m.campaigns {
		if c.halted {
			continue
		}
		if len(c.due) > 0 {
			return true
		}
		for _, id := range c.delayed {
			if !time.Now().Before(m.row(id).due) {
				return true
			}
		}
	}
	return false
}

func (m *memory) SettleProbe(ctx context.Context, p Probed) error {
	if err := m.begin(ctx, "probed", p); err != nil {
		return err
	}
	b, now := m.breakers[p.Scope], time.Now()
	if b.state != BreakerHalfOpen || b.token != p.Token || !now.Before(b.probeUntil) {
		return m.end("probed", p)
	}
	b.token = ""
	if p.End == ProbeAnswered || p.End == ProbeThrottled && b.cause != "throttled" {
		m.move(p.Scope, BreakerClosed, "probe_"+p.End.String())
		return m.end("probed", p)
	}
	b.openFor = max(b.openFor, p.Policy.Base)
	if p.End != ProbeUnused {
		b.openFor = min(2*b.openFor, p.Policy.Cap)
	}
	b.openUntil = now.Add(b.openFor)
	m.move(p.Scope, BreakerOpen, "probe_"+p.End.String())
	return m.end("probed", p)
}

// passes is the claim's gate: the host is judged first.
func (m *memory) passes(ask Ask) bool {
	own := NumberScope(ask.Lease.Number)
	if m.heldOpen(HostScope) || m.heldOpen(own) {
		return false
	}
	b := m.breakers[HostScope]
	if b.state == BreakerClosed {
		b = m.breakers[own]
	}
	return b.state == BreakerClosed || b.state == BreakerHalfOpen && b.token == ask.Probe && time.Now().Before(b.probeUntil)
}

// story is what a scope went through: state reason, state reason, …
func (m *memory) story(scope string) string {
	var all []string
	m.change(func() {
		for _, v := range m.moves {
			if v.scope == scope {
				all = append(all, v.state.String()+" "+v.reason)
			}
		}
	})
	return strings.Join(all, ", ")
}

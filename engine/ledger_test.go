package engine

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// ledger is the Sender: it takes a while, answers, and remembers every call.
type ledger struct {
	latency time.Duration
	answer  func(call int, m Message) Answer // nil accepts; called one at a time
	during  func(m Message)                  // before the request is written, as a slow dial

	mu    sync.Mutex
	calls []sent
}

type sent struct {
	at time.Time
	Message
}

func (l *ledger) Send(ctx context.Context, m Message) Answer {
	if l.during != nil {
		l.during(m)
	}
	if m.Fence() != nil {
		return Answer{Action: Release, Title: "fenced"}
	}
	l.mu.Lock()
	l.calls = append(l.calls, sent{time.Now(), m})
	n, wait := len(l.calls), l.latency
	l.mu.Unlock()
	pause(ctx, wait)
	if ctx.Err() != nil {
		return Answer{} // canceled: nobody knows
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.answer == nil {
		return accept(m)
	}
	return l.answer(n, m)
}

func accept(m Message) Answer {
	return Answer{Action: Accept, MessageID: fmt.Sprint("wamid.", m.Recipient, ".", m.Claim)}
}

// change alters what the answers depend on.
func (l *ledger) change(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f()
}

func (l *ledger) sends() []sent {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.calls)
}

// twice lists recipients that were called more than once.
func (l *ledger) twice() (ids []int64) {
	seen := make(map[int64]int)
	for _, s := range l.sends() {
		if seen[s.Recipient]++; seen[s.Recipient] == 2 {
			ids = append(ids, s.Recipient)
		}
	}
	return ids
}

// overshoot is the most by which any window of instants exceeds
// burst + rate × its length: at most 0 when the bound holds.
func overshoot(at []time.Time, rate float64, burst int) float64 {
	worst, least := -1e9, 1e18
	for i, t := range at {
		f := float64(i) - rate*t.Sub(at[0]).Seconds()
		least = min(least, f)
		worst = max(worst, f-least+1-float64(burst))
	}
	return worst
}

func instants(calls []sent) []time.Time {
	at := make([]time.Time, len(calls))
	for i, c := range calls {
		at[i] = c.at
	}
	return at
}

// logbook keeps what was logged.
type logbook struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *logbook) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logbook) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

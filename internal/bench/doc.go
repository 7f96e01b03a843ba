// Package bench hides how Weir's speed is measured so that the figures can be
// believed on any machine: what can be done in another way is taken beside that in
// the same run, the two in turn, and the median of the rounds is told.
//
// It promises to leave a server as it found it: everything happens in a database
// of its own, which is dropped at the end. It never calls Meta: what is sent goes
// to a sink on this machine, which answers as Meta does and checks nothing.
//
//	rows      the life of a recipient, statement by statement, in batches of 500
//	sends     an unpaced campaign, durable, beside: claims and results in memory,
//	          one River job a message, one UPDATE before and after each call, and
//	          the calls alone; and with every message's three statuses coming in
//	webhooks  one status a POST, beside net/http with encoding/json
//	pace      several numbers at their rate, by the sink's own times
package bench

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"
)

// Options say what is measured, and how long.
type Options struct {
	URL    string       // a Postgres, as postgres://…, whose user may create databases
	Rows   int          // recipients of each measurement; default 100 000
	Rounds int          // each figure is the median of so many; default 3
	Logger *slog.Logger // hears the engine and what is measured; default: nobody

	paceRate float64       // messages a second of each number; default 1 000
	paceFor  time.Duration // default 20 s
}

func (o Options) withDefaults() Options {
	o.Rows, o.Rounds = cmp.Or(o.Rows, 100_000), cmp.Or(o.Rounds, 3)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	o.paceRate, o.paceFor = cmp.Or(o.paceRate, 1000), cmp.Or(o.paceFor, 20*time.Second)
	return o
}

// Part is one of the things that can be measured.
type Part string

// The parts.
const (
	Rows     Part = "rows"
	Sends    Part = "sends"
	Webhooks Part = "webhooks"
	Pace     Part = "pace"
)

// Parts lists them in the order in which they are measured.
func Parts() []Part { return []Part{Rows, Sends, Webhooks, Pace} }

// Figure is one measured value: the median of its rounds.
type Figure struct {
	Part  Part    `json:"part"`
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
}

// Bench is a server to measure on.
type Bench struct {
	*scratch
	opts    Options
	figures []Figure
}

// Run measures the parts and returns what came out, in order. What it made on
// the server is gone when it returns.
func Run(ctx context.Context, o Options, parts ...Part) (figures []Figure, err error) {
	o = o.withDefaults()
	b := &Bench{opts: o}
	if b.scratch, err = openScratch(ctx, o.URL); err != nil {
		return nil, err
	}
	defer func() { err = b.close(ctx, err) }()
	for _, part := range parts {
		o.Logger.InfoContext(ctx, "measuring", "part", part)
		measure := map[Part]func(context.Context) error{Rows: b.rows, Sends: b.sends, Webhooks: b.webhooks, Pace: b.pace}[part]
		if measure == nil {
			return nil, fmt.Errorf("measure %q: no such part", part)
		}
		if err := measure(ctx); err != nil {
			return b.figures, fmt.Errorf("measure %s: %w", part, err)
		}
	}
	return b.figures, nil
}

// series gathers the rounds of a part's figures, in the order of their first.
type series struct {
	names  []string
	units  map[string]string
	rounds map[string][]float64
}

func newSeries() *series {
	return &series{units: map[string]string{}, rounds: map[string][]float64{}}
}

func (s *series) add(name, unit string, value float64) {
	if _, ok := s.units[name]; !ok {
		s.names, s.units[name] = append(s.names, name), unit
	}
	s.rounds[name] = append(s.rounds[name], value)
}

// tell makes each figure of its rounds' median.
func (b *Bench) tell(part Part, s *series) {
	for _, name := range s.names {
		b.figures = append(b.figures, Figure{Part: part, Name: name, Value: median(s.rounds[name]), Unit: s.units[name]})
	}
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

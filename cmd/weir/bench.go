package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"

	"github.com/weirhq/weir/internal/bench"
)

type benchCmd struct {
	Parts  []string `arg:"" optional:"" enum:"rows,sends,webhooks,pace" help:"What to measure: rows, sends, webhooks, pace. Default: all."`
	Rows   int      `default:"100000" help:"Recipients of each measurement."`
	Rounds int      `default:"3" help:"Each figure is the median of so many rounds."`
	JSON   bool     `help:"Print JSON."`
}

// Help shows an example.
func (benchCmd) Help() string {
	return `  weir bench                                   # on the private Postgres of this machine
  WEIR_DATABASE_URL=postgres://me@db/weir weir bench rows sends --rows 1000000

What will this Postgres sustain? Everything happens in a database of its own
beside yours, which is dropped at the end; nothing is sent to Meta. It takes the
server's whole strength for some minutes: not beside a campaign.`
}

func (c benchCmd) Run(ctx context.Context, s *session) (err error) {
	if c.Rows < 1000 || c.Rounds < 1 {
		return usagef("the bench needs at least 1000 rows and one round")
	}
	url, local, err := s.url(ctx)
	if err != nil {
		return err
	}
	if local != nil {
		defer func() { err = errors.Join(err, local.Close()) }()
	}
	parts := bench.Parts()
	if len(c.Parts) > 0 {
		parts = nil
		for _, name := range c.Parts {
			parts = append(parts, bench.Part(name))
		}
	}
	figures, err := bench.Run(ctx, bench.Options{URL: url, Rows: c.Rows, Rounds: c.Rounds, Logger: s.log}, parts...)
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(s.std.out, map[string]any{"cpus": runtime.NumCPU(), "rows": c.Rows, "rounds": c.Rounds, "figures": figures})
	}
	return c.print(s, figures)
}

func (c benchCmd) print(s *session, figures []bench.Figure) error {
	_, _ = fmt.Fprintf(s.std.err, "%d CPUs, %s recipients, medians of %d rounds\n", runtime.NumCPU(), group(int64(c.Rows)), c.Rounds)
	t := newTable(s.std.out, "PART", "WHAT", "VALUE", "UNIT")
	for _, f := range figures {
		t.row(string(f.Part), f.Name, value(f.Value), f.Unit)
	}
	return t.flush()
}

// value has as many digits as mean something.
func value(v float64) string {
	switch {
	case v >= 1000:
		return group(int64(v))
	case v >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	default:
		return strconv.FormatFloat(v, 'f', 2, 64)
	}
}

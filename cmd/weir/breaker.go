package main

import (
	"context"
	"fmt"
	"time"

	"github.com/weirhq/weir/engine"
	"github.com/weirhq/weir/internal/api"
	"github.com/weirhq/weir/internal/store"
)

type breakerCmd struct {
	List  breakerListCmd  `cmd:"" help:"Show how the breakers stand."`
	Open  breakerOpenCmd  `cmd:"" help:"Hold a breaker open for a time: nothing is sent, not even a probe."`
	Close breakerCloseCmd `cmd:"" help:"Hold a breaker closed for a time: go on, whatever the platform answers."`
}

type breakerListCmd struct {
	JSON bool `help:"Print JSON."`
}

// Help shows an example.
func (breakerListCmd) Help() string {
	return `  weir breaker list

host is the platform, for the whole fleet; number:ID is one number. ERRORS, P95
and P99 are of the calls of the last minute, of all nodes; OPENED counts the last
24 hours, MEAN is the time from opening to closing.`
}

func (c breakerListCmd) Run(ctx context.Context, s *session) error {
	return s.with(ctx, func(db *database) error {
		list, err := db.BreakerList(ctx)
		if err != nil {
			return err
		}
		if c.JSON {
			views := make([]api.Breaker, len(list))
			for i, b := range list {
				views[i] = api.BreakerOf(b)
			}
			return printJSON(s.std.out, views)
		}
		t := newTable(s.std.out, "BREAKER", "STATE", "SINCE", "WHY", "OPENED", "MEAN", "ERRORS", "P95", "P99")
		for _, b := range list {
			t.row(b.Scope, breakerState(b), stamp(b.Since), breakerWhy(b), fmt.Sprint(b.Openings), shortTime(b.MeanOpen),
				breakerErrors(b), shortTime(b.P95), shortTime(b.P99))
		}
		return t.flush()
	})
}

func breakerState(b store.BreakerInfo) string {
	if b.ForcedLeft > 0 {
		return fmt.Sprintf("%s, forced for %v", b.State, b.ForcedLeft.Round(time.Second))
	}
	return b.State.String()
}

func breakerWhy(b store.BreakerInfo) string {
	switch {
	case b.Note != "":
		return b.Reason + ": " + b.Note
	case b.Reason == "new":
		return ""
	case b.State != engine.BreakerClosed && b.Cause != b.Reason:
		return b.Cause + ", " + b.Reason
	default:
		return b.Reason
	}
}

func breakerErrors(b store.BreakerInfo) string {
	if b.Samples == 0 {
		return ""
	}
	return fmt.Sprintf("%.1f %% of %s", 100*float64(b.Failures)/float64(b.Samples), group(b.Samples))
}

// shortTime is a duration for people; "" for none.
func shortTime(d time.Duration) string {
	switch {
	case d == 0:
		return ""
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	default:
		return d.Round(100 * time.Millisecond).String()
	}
}

// force is what holds a breaker, one way or the other.
type force struct {
	Scope  string        `arg:"" help:"host (the platform, the whole fleet), or number:ID."`
	For    time.Duration `required:"" placeholder:"TIME" help:"For how long, at most 168h; then calls decide again."`
	Reason string        `required:"" help:"Why: what others will read."`
}

type breakerOpenCmd struct{ force }

// Help shows an example.
func (breakerOpenCmd) Help() string {
	return `  weir breaker open host --for 10m --reason "Meta announced maintenance"

Once the time is over one probe is sent, and its answer decides.`
}

func (c breakerOpenCmd) Run(ctx context.Context, s *session) error {
	return c.hold(ctx, s, engine.BreakerOpen)
}

type breakerCloseCmd struct{ force }

// Help shows an example.
func (breakerCloseCmd) Help() string {
	return `  weir breaker close number:106540352242922 --for 5m --reason "its errors are known"`
}

func (c breakerCloseCmd) Run(ctx context.Context, s *session) error {
	return c.hold(ctx, s, engine.BreakerClosed)
}

func (f force) hold(ctx context.Context, s *session, to engine.BreakerState) error {
	return s.with(ctx, func(db *database) error {
		if err := db.ForceBreaker(ctx, store.Force{Scope: f.Scope, State: to, For: f.For, Note: f.Reason, Who: who()}); err != nil {
			return err
		}
		_, err := fmt.Fprintf(s.std.err, "breaker %s is held %s for %v; nodes take that up within a second\n", f.Scope, to, f.For)
		return err
	})
}

package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/weirhq/weir/internal/store"
)

type stopCmd struct {
	confirmation
	All    bool   `help:"Everything: every campaign, on every number and node."`
	Reason string `placeholder:"TEXT" help:"Why, for those who look at it later."`
}

// Help says what it stops, and what it does not.
func (stopCmd) Help() string {
	return `  weir stop --all --reason "wrong price in the template"

Nothing is claimed anywhere from now on, and it returns once nothing more can go
out, as weir campaign pause does. It outlives restarts: no campaign starts, resumes
or is replayed until weir go. What webhooks say is recorded meanwhile. One campaign:
weir campaign pause. One number: weir number set ID --disable.`
}

func (c stopCmd) Run(ctx context.Context, s *session) error {
	if !c.All {
		return usagef("weir stop stops everything, and only when told so: weir stop --all (one campaign: weir campaign pause NAME; one number: weir number set ID --disable)")
	}
	if err := c.check(); err != nil {
		return err
	}
	return s.with(ctx, func(db *database) error {
		before, err := db.Stopped(ctx)
		if err != nil {
			return err
		}
		start := time.Now()
		if err := db.StopEverything(ctx, who(), c.Reason); err != nil {
			return err
		}
		w := waiter{confirmation: c.confirmation, db: db.Store, talk: s.std.err, what: "stop"}
		_, over, err := w.wait(ctx)
		if err != nil || !over {
			return err
		}
		stop, err := db.Stopped(ctx)
		switch {
		case err != nil:
			return err
		case !stop.Stands():
			return fmt.Errorf("everything goes on: somebody else has released it meanwhile")
		case before.Stands():
			_, err = fmt.Fprintf(s.std.err, "everything is stopped already, %s; weir go lets it go on\n", sinceWords(stop))
		default:
			_, err = fmt.Fprintf(s.std.err, "everything stopped in %.1f s, %d campaigns with it: nothing is sent; weir go lets them go on\n",
				time.Since(start).Seconds(), stop.Campaigns)
		}
		return err
	})
}

type goCmd struct{}

// Help shows an example.
func (goCmd) Help() string {
	return `  weir go

Ends weir stop --all. The campaigns that it paused go on where they stopped, and
those whose hour has come start. What was paused by hand stays paused.`
}

func (c goCmd) Run(ctx context.Context, s *session) error {
	return s.with(ctx, func(db *database) error {
		released, resumed, err := db.ReleaseEverything(ctx, who())
		switch {
		case err != nil:
			return err
		case !released:
			_, err = fmt.Fprintln(s.std.err, "nothing is stopped: weir campaign list shows what runs")
		default:
			_, err = fmt.Fprintf(s.std.err, "%d campaigns go on; weir campaign list shows them\n", resumed)
		}
		return err
	})
}

// sinceWords says since when, by whom and why everything is stopped.
func sinceWords(stop store.Stop) string {
	words := "since " + stamp(stop.Since) + " by " + stop.By
	if stop.Reason != "" {
		words += " (" + stop.Reason + ")"
	}
	return words
}

// stopWords is what is shown wherever somebody looks, "" when nothing is stopped.
func stopWords(stop store.Stop) string {
	if !stop.Stands() {
		return ""
	}
	return "EVERYTHING IS STOPPED " + sinceWords(stop) + ": weir go lets it go on"
}

// alarm says something as long as it is so, once a minute, and once when it is over.
type alarm struct {
	log  *slog.Logger
	told time.Time
}

func (a *alarm) tell(ctx context.Context, wrong bool, loud, over string) {
	switch {
	case !wrong && !a.told.IsZero():
		a.told = time.Time{}
		a.log.InfoContext(ctx, over)
	case wrong && time.Since(a.told) >= time.Minute:
		a.told = time.Now()
		a.log.ErrorContext(ctx, loud)
	}
}

// stands says, loudly and every minute, what keeps the whole fleet from sending:
// until then this node owns numbers and sends nothing.
func (n *node) stands(ctx context.Context) error {
	identity, stop := alarm{log: n.log}, alarm{log: n.log}
	tick := time.NewTicker(5 * time.Second)
	defer tick.Stop()
	for {
		// When these fail, the parts that need the database say so.
		if confirmed, err := n.db.Confirmed(ctx); err == nil {
			identity.tell(ctx, !confirmed, "NOTHING IS SENT: this database is not the one that an operator vouches for (a fail-over, or a restore); commits may be missing in it. "+
				"Run `weir database status`, see to what it says, then `weir database confirm`", "the database is confirmed: sending goes on")
		}
		if stopped, err := n.db.Stopped(ctx); err == nil {
			stop.tell(ctx, stopped.Stands(), "NOTHING IS SENT: everything is stopped "+sinceWords(stopped)+"; `weir go` lets it go on", "everything goes on: the stop is over")
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/weirhq/weir/engine"
	"github.com/weirhq/weir/internal/store"
)

// confirmation are the flags of what every lane must confirm.
type confirmation struct {
	NoWait  bool          `help:"Ask for it and leave; it is confirmed all the same."`
	Timeout time.Duration `default:"1m" help:"How long to wait for the confirmation."`
}

func (c confirmation) check() error {
	if c.Timeout <= 0 {
		return usagef("--timeout must be more than 0; --no-wait does not wait at all")
	}
	return nil
}

// took is how long the last pause or cancel of a campaign took, by Postgres's clock.
func took(c store.Campaign) string {
	return fmt.Sprintf("%.1f s", c.ConfirmedAt.Sub(c.ControlAt).Seconds())
}

// confirmEvery is how often a command that waits looks.
const confirmEvery = 100 * time.Millisecond

// waiter waits until a pause, a cancel or a stop of everything is confirmed. It confirms what it can
// by itself: with no node up there is nobody else to do it.
type waiter struct {
	confirmation
	db       *store.Store
	campaign store.Campaign // the zero one: all of them
	talk     io.Writer
	what     string // pause, cancel or stop

	awaited []string
}

// wait returns the campaign as it stands once it is confirmed; over is false
// when nobody was to wait for that. A database that is away meanwhile is waited for.
func (w *waiter) wait(ctx context.Context) (c store.Campaign, over bool, err error) {
	start, tick := time.Now(), time.NewTicker(confirmEvery)
	defer tick.Stop()
	waiting, cancel := context.WithTimeout(ctx, w.Timeout)
	defer cancel()
	for {
		c, err = w.look(waiting)
		w.draw("")
		asked := c.State == store.Pausing || c.State == store.Canceling
		switch {
		case err == nil && (!asked || !c.ConfirmedAt.IsZero()):
			return c, true, nil
		case w.NoWait:
			return c, false, w.left(err)
		}
		w.draw(fmt.Sprintf("%s of %s: %.1f s%s", w.what, w.name(), time.Since(start).Seconds(), w.whom()))
		select {
		case <-tick.C:
		case <-waiting.Done():
			return c, false, w.gaveUp(ctx, err)
		}
	}
}

// draw puts a line over the last one, where somebody looks.
func (w *waiter) draw(line string) {
	if !w.NoWait && isTerminal(w.talk) {
		_, _ = fmt.Fprint(w.talk, "\r\x1b[K", line)
	}
}

func (w *waiter) look(ctx context.Context) (store.Campaign, error) {
	_, awaited, err := w.db.ConfirmControls(ctx, engine.DefaultQuarantine)
	if err != nil {
		return w.campaign, err
	}
	w.awaited = nil
	for _, a := range awaited {
		if w.all() || a.Campaign == w.campaign.ID {
			w.awaited = append(w.awaited, fmt.Sprintf("number %s on node %s", a.Number, a.Holder))
		}
	}
	if len(w.awaited) == 0 {
		if ok, err := w.db.Confirmed(ctx); err == nil && !ok {
			w.awaited = []string{"somebody to vouch for the database (weir database status)"}
		}
	}
	if w.all() {
		return w.last(ctx)
	}
	return w.db.FindCampaign(ctx, strconv.FormatInt(w.campaign.ID, 10))
}

func (w *waiter) all() bool { return w.campaign.ID == 0 }

// last is a campaign that is still waited for, the zero one if there is none.
func (w *waiter) last(ctx context.Context) (store.Campaign, error) {
	asked, err := w.db.Campaigns(ctx, store.Pausing, store.Canceling)
	for _, c := range asked {
		if c.ConfirmedAt.IsZero() {
			return c, err
		}
	}
	return store.Campaign{}, err
}

// name is what the order is about.
func (w *waiter) name() string {
	if w.all() {
		return "everything"
	}
	return w.campaign.Name
}

// whom says who is waited for.
func (w *waiter) whom() string {
	if len(w.awaited) == 0 {
		return ""
	}
	return ", waiting for " + strings.Join(w.awaited, ", ")
}

// left says how an order that nobody waits for goes on.
func (w *waiter) left(err error) error {
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w.talk, "%s of %s is asked for%s; %s\n", w.what, w.name(), w.whom(), w.later())
	return err
}

// gaveUp says that an order stands, though its confirmation was not waited for.
func (w *waiter) gaveUp(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("interrupted: the %s of %s stands and goes on by itself; %s", w.what, w.name(), w.later())
	}
	text := fmt.Sprintf("the %s of %s is not confirmed after %v%s. It stands and goes on by itself; %s",
		w.what, w.name(), w.Timeout, w.whom(), w.later())
	if err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%s: %w", text, err)
	}
	return errors.New(text)
}

func (w *waiter) later() string {
	if w.all() {
		return "weir stop --all again waits for it"
	}
	return "weir campaign status " + shellWord(w.campaign.Name) + " shows when it is confirmed"
}

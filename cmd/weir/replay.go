package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/weirhq/weir/internal/store"
)

type deadReplayCmd struct {
	Campaign string `required:"" placeholder:"NAME" help:"Name or id of the campaign."`
	deadFilter
	DryRun     bool    `help:"Show the groups that would be sent to, and change nothing."`
	Force      bool    `help:"Also those whose message may have gone out already. It is on record who did it."`
	Rate       float64 `placeholder:"N" help:"Let N recipients a second become due, spread over time. Default: all at once, at the numbers' own pace."`
	MaxReplays int     `default:"3" help:"Replays of one recipient at most, ever."`
	ID         string  `name:"id" placeholder:"UUID" help:"Go on with the replay of this id, or repeat it: nobody is moved twice by it."`
	JSON       bool    `help:"Print JSON."`
}

// Help shows an example.
func (deadReplayCmd) Help() string {
	return `  weir dead replay --campaign spring --code 131053 --dry-run
  weir dead replay --campaign spring --status dead --rate 20

Prints the replay's id alone. Who is replayed waits to be sent to like everybody
else: the numbers' pace, opt-outs and pauses hold. A finished campaign runs
again. A replay that was cut short goes on when it is given with its --id.`
}

func (c deadReplayCmd) Run(ctx context.Context, s *session) error {
	filter, countries, err := c.read()
	switch {
	case err != nil:
		return err
	case !(c.Rate >= 0): // also NaN
		return usagef("--rate must be recipients per second, for example 20")
	case c.MaxReplays < 1:
		return usagef("--max-replays must be at least 1")
	}
	order := store.ReplayOrder{
		ID: c.ID, Filter: filter, Countries: countries.Of, Force: c.Force, MaxReplays: c.MaxReplays, Rate: c.Rate, Who: who(),
	}
	return s.with(ctx, func(db *database) error {
		campaign, err := db.FindCampaign(ctx, c.Campaign)
		if err != nil {
			return err
		}
		order.Campaign = campaign.ID
		if c.DryRun {
			return c.rehearse(ctx, s, db, order)
		}
		return c.replay(ctx, s, db, order)
	})
}

// rehearse shows what a replay would do.
func (c deadReplayCmd) rehearse(ctx context.Context, s *session, db *database, order store.ReplayOrder) error {
	campaign, err := db.CheckReplay(ctx, order.Campaign)
	if err != nil {
		return err
	}
	skipped := map[store.Skip]int64{}
	groups, err := store.GroupDead(db.DeadLetters(ctx, order.Campaign, order.Countries), func(l store.DeadLetter) bool {
		why := order.Skip(l)
		if order.Filter.Takes(l) && why != store.Taken {
			skipped[why]++
		}
		return order.Filter.Takes(l) && why == store.Taken
	})
	if err != nil {
		return err
	}
	views := deadViews(campaign, groups)
	if c.JSON {
		return printJSON(s.std.out, rehearsal{Groups: views, Skipped: skipped})
	}
	if len(views) > 0 {
		if err := printDead(s, views); err != nil {
			return err
		}
	}
	var n int64
	for _, v := range views {
		n += v.Rows
	}
	_, err = fmt.Fprintf(s.std.err, "%s recipients would be sent to again; nothing was changed\n", group(n))
	printSkipped(s, skipped)
	return err
}

// replay runs the order and says what came of it.
func (c deadReplayCmd) replay(ctx context.Context, s *session, db *database, order store.ReplayOrder) error {
	order, before, err := db.OpenReplay(ctx, order)
	if err != nil {
		return err
	}
	if !c.JSON { // before anything is moved, so that it is known when this is cut short
		if _, err := fmt.Fprintln(s.std.out, order.ID); err != nil {
			return err
		}
	}
	done, err := db.RunReplay(ctx, order)
	if err != nil {
		_, _ = fmt.Fprintf(s.std.err, "cut short after %s recipients: the same command with --id %s goes on\n", group(done.Moved), order.ID)
		return err
	}
	campaign, err := db.FindCampaign(ctx, c.Campaign)
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(s.std.out, replayed{ID: order.ID, Moved: done.Moved, Before: before, Skipped: done.Skipped, State: string(campaign.State)})
	}
	_, _ = fmt.Fprintf(s.std.err, "replay %s: %s recipients of campaign %s wait to be sent to again\n", order.ID, group(done.Moved), campaign.Name)
	if before > 0 {
		_, _ = fmt.Fprintf(s.std.err, "  %s more were moved by earlier runs of it\n", group(before))
	}
	printSkipped(s, done.Skipped)
	if done.Moved > 0 && (campaign.State == store.Paused || campaign.State == store.Pausing) {
		_, _ = fmt.Fprintf(s.std.err, "campaign %s is %s: weir campaign resume %s goes on\n", campaign.Name, campaign.State, shellWord(campaign.Name))
	}
	return s.warnStopped(ctx, db, campaign)
}

// rehearsal and replayed are for scripts: their fields are a promise.
type rehearsal struct {
	Groups  []deadView           `json:"groups"`
	Skipped map[store.Skip]int64 `json:"skipped"`
}

type replayed struct {
	ID      string               `json:"id"`
	Moved   int64                `json:"moved"`
	Before  int64                `json:"moved_before"`
	Skipped map[store.Skip]int64 `json:"skipped"`
	State   string               `json:"campaign_state"`
}

type replayView struct {
	ID       string          `json:"id"`
	Campaign string          `json:"campaign"`
	Filter   json.RawMessage `json:"filter"`
	Forced   bool            `json:"forced"`
	Who      string          `json:"who"`
	At       string          `json:"at"`
	Moved    int64           `json:"moved"`
	LastDue  string          `json:"last_due,omitempty"`
}

// printSkipped says who was left alone, and what to do about it.
func printSkipped(s *session, skipped map[store.Skip]int64) {
	for _, why := range []struct {
		skip store.Skip
		says string
	}{
		{store.SkipUnknown, "may have got the message already: only --force sends to them (weir dead close comes first for those still unknown)"},
		{store.SkipCapped, "have been replayed as often as is allowed: --max-replays allows more"},
		{store.SkipReplayed, "were sent to by this replay already, and failed again: a replay without --id takes them"},
		{store.SkipInHand, "are still in a node's hands: run it again in a minute"},
		{store.SkipChanged, "moved on meanwhile, by a webhook or another replay"},
	} {
		if n := skipped[why.skip]; n > 0 {
			_, _ = fmt.Fprintf(s.std.err, "  %s %s\n", group(n), why.says)
		}
	}
}

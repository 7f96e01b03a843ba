package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/weirhq/weir/engine"
	"github.com/weirhq/weir/internal/store"
)

type campaignCancelCmd struct {
	confirmation
	Name string `arg:"" help:"Name or id of the campaign."`
}

// Help says what a cancel is.
func (campaignCancelCmd) Help() string {
	return `  weir campaign cancel spring

For good: a canceled campaign can be neither started nor resumed nor replayed. It
returns once nothing more can go out and who was not sent to is canceled, and says
how to export those. What was sent stays, and its statuses go on coming in.`
}

func (c campaignCancelCmd) Run(ctx context.Context, s *session) error {
	if err := c.check(); err != nil {
		return err
	}
	return s.with(ctx, func(db *database) error {
		campaign, err := db.FindCampaign(ctx, c.Name)
		if err != nil {
			return err
		}
		if campaign.State == store.Canceled {
			_, err = fmt.Fprintf(s.std.err, "campaign %s is canceled already\n", campaign.Name)
			return err
		}
		if err := db.CancelCampaign(ctx, campaign.ID); err != nil {
			return err
		}
		w := waiter{confirmation: c.confirmation, db: db.Store, campaign: campaign, talk: s.std.err, what: "cancel"}
		campaign, over, err := w.wait(ctx)
		if err != nil || !over {
			return err
		}
		return cancelRest(ctx, db.Store, campaign, s.std.err)
	})
}

// lastResults is how long a lane may take to write what its last calls came to.
const lastResults = 3 * time.Second

// cancelRest cancels who waits, which nodes would do too (but with no node up
// nobody else is there), and says what came of it.
func cancelRest(ctx context.Context, db *store.Store, c store.Campaign, talk io.Writer) error {
	name := shellWord(c.Name)
	if _, err := fmt.Fprintf(talk, "campaign %s canceled in %s: nothing more is sent\n", c.Name, took(c)); err != nil {
		return err
	}
	counts, err := cancelWaiting(ctx, db, c.ID)
	if err != nil {
		return fmt.Errorf("who was not sent to is not all marked yet, nodes go on with it; weir campaign status %s shows when it is canceled: %w", name, err)
	}
	if n := counts[engine.Canceled]; n > 0 {
		_, err = fmt.Fprintf(talk, "%s were not sent to: weir campaign export %s --status canceled --params > unsent.csv\n", group(int64(n)), name)
	}
	if open := counts[engine.Pending] + counts[engine.Sending] + counts[engine.Unknown]; open > 0 && err == nil {
		_, err = fmt.Fprintf(talk, "%s outcomes are still open; the campaign is canceling until they are known: weir campaign watch %s\n", group(int64(open)), name)
	}
	return err
}

// cancelWaiting cancels who waits, and who is given back in the next moment.
func cancelWaiting(ctx context.Context, db *store.Store, id int64) (map[engine.Status]int, error) {
	for start := time.Now(); ; {
		over, err := db.FinishCampaign(ctx, id)
		if err != nil {
			return nil, err
		}
		counts, err := db.Counts(ctx, id)
		if err != nil || over || counts[engine.Pending]+counts[engine.Sending] == 0 || time.Since(start) > lastResults {
			return counts, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(confirmEvery):
		}
	}
}

package main

import (
	"context"
	"fmt"
	"io"

	"github.com/weirhq/weir/engine"
	"github.com/weirhq/weir/internal/store"
)

type campaignVerifyCmd struct {
	Name string `arg:"" help:"Name or id of the campaign."`
	JSON bool   `help:"Print JSON."`
}

// Help shows an example.
func (campaignVerifyCmd) Help() string {
	return `  weir campaign verify spring

Reads every row of the campaign in one snapshot and holds it to what Weir
promises. Exits 1 when a promise does not hold. It may run at any time.`
}

func (c campaignVerifyCmd) Run(ctx context.Context, s *session) error {
	return s.with(ctx, func(db *database) error {
		campaign, err := db.FindCampaign(ctx, c.Name)
		if err != nil {
			return err
		}
		v, err := db.Verify(ctx, campaign.ID)
		if err != nil {
			return err
		}
		if c.JSON {
			err = printJSON(s.std.out, verificationView(campaign, v))
		} else {
			printVerification(s.std.out, v)
		}
		if err == nil && !v.OK() {
			return errSilent
		}
		return err
	})
}

func verificationView(c store.Campaign, v store.Verification) map[string]any {
	statuses := map[string]int64{}
	for _, s := range engine.Statuses() {
		statuses[s.String()] = v.Statuses[s]
	}
	checks := make([]map[string]any, len(v.Checks))
	for i, check := range v.Checks {
		checks[i] = map[string]any{"name": check.Name, "says": check.Says, "ok": check.OK, "found": check.Found, "want": check.Want}
	}
	return map[string]any{
		"id": c.ID, "name": c.Name, "state": c.State, "ok": v.OK(), "checks": checks, "counts": statuses,
		"no_status_yet": v.Missing, "unknown": v.Waiting, "orphaned": v.Orphaned, "doubled_as_allowed": v.Doubled,
	}
}

func printVerification(w io.Writer, v store.Verification) {
	for _, c := range v.Checks {
		mark := "ok    "
		if !c.OK {
			mark = "BROKEN"
		}
		found := group(c.Found) + " of " + group(c.Want)
		if c.Want == 0 {
			found = "exceptions: " + group(c.Found)
		}
		_, _ = fmt.Fprintf(w, "%s  %s  (%s)\n", mark, c.Says, found)
		if !c.OK {
			_, _ = fmt.Fprintf(w, "        %s\n", c.Hint)
		}
	}
	for _, s := range engine.Statuses() {
		if n := v.Statuses[s]; n != 0 {
			_, _ = fmt.Fprintf(w, "        %-11s %s\n", s, group(n))
		}
	}
	for _, note := range []struct {
		n    int64
		says string
	}{
		{v.Missing, "accepted, and no status webhook about them has arrived yet"},
		{v.Waiting, "with an unknown outcome, still to be resolved by a webhook or the campaign's policy"},
		{v.Orphaned, "left by a dead node, taken up by the number's next owner"},
		{v.Doubled, "sent twice as the campaign's policy or an operator's replay allows"},
	} {
		if note.n > 0 {
			_, _ = fmt.Fprintf(w, "note    %s recipients %s\n", group(note.n), note.says)
		}
	}
}

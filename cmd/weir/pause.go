package main

import (
	"cmp"
	"context"
	"fmt"

	"github.com/weirhq/weir/internal/store"
)

type campaignPauseCmd struct {
	confirmation
	Name  string `arg:"" help:"Name or id of the campaign."`
	Until moment `placeholder:"TIME" help:"Go on by itself then, as 2026-12-01T09:00:00+01:00. Default: not before weir campaign resume."`
}

// Help says what a pause is worth.
func (campaignPauseCmd) Help() string {
	return `  weir campaign pause spring

Nothing more is claimed from now on. It returns once nothing more can go out: every
node has given back what it held and has the answers to what it had sent, or is
dead for so long that its last bytes have arrived. After that not one request is
made. weir campaign resume goes on where it stopped; with --until it goes on by
itself at that time, unless it is resumed, canceled or paused anew before.`
}

func (c campaignPauseCmd) Run(ctx context.Context, s *session) error {
	if err := cmp.Or(c.check(), c.Until.ahead("--until")); err != nil {
		return err
	}
	return s.with(ctx, func(db *database) error {
		campaign, err := db.FindCampaign(ctx, c.Name)
		if err != nil {
			return err
		}
		if campaign.State == store.Paused && !campaign.Stopped && campaign.ResumeAt.IsZero() && c.Until.IsZero() {
			_, err = fmt.Fprintf(s.std.err, "campaign %s is paused already: %s\n", campaign.Name, campaign.Reason)
			return err
		}
		if err := db.PauseCampaignUntil(ctx, campaign.ID, c.Until.Time); err != nil {
			return err
		}
		w := waiter{confirmation: c.confirmation, db: db.Store, campaign: campaign, talk: s.std.err, what: "pause"}
		campaign, over, err := w.wait(ctx)
		switch {
		case err != nil || !over:
			return err
		case campaign.State != store.Paused:
			return fmt.Errorf("campaign %s is %s: somebody else has moved it meanwhile", campaign.Name, campaign.State)
		}
		next := resumeCampaign(campaign.Name) + " goes on"
		if !campaign.ResumeAt.IsZero() {
			next = "it goes on by itself at " + stamp(campaign.ResumeAt)
		}
		_, err = fmt.Fprintf(s.std.err, "campaign %s paused in %s: nothing more is sent; %s\n", campaign.Name, took(campaign), next)
		return err
	})
}

type campaignResumeCmd struct {
	graph
	Name     string `arg:"" help:"Name or id of the campaign."`
	NoVerify bool   `help:"Do not ask Meta about the template."`
}

// Help shows an example.
func (campaignResumeCmd) Help() string {
	return `  weir campaign resume spring

Goes on with a campaign that was paused, or that has stopped by itself once what
stopped it is mended (weir campaign status says what). Nobody is sent to twice.`
}

func (c campaignResumeCmd) Run(ctx context.Context, s *session) error {
	return s.with(ctx, func(db *database) error {
		campaign, err := db.FindCampaign(ctx, c.Name)
		if err != nil {
			return err
		}
		if err := s.verifyTemplate(ctx, db, c.graph, c.NoVerify, campaign); err != nil {
			return err
		}
		got, err := db.ResumeCampaign(ctx, campaign.ID)
		if err != nil {
			return err
		}
		return s.started(ctx, db, campaign, got)
	})
}

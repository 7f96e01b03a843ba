package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/weirhq/weir/engine"
	"github.com/weirhq/weir/internal/jobs"
	"github.com/weirhq/weir/internal/store"
)

type campaignCmd struct {
	Create campaignCreateCmd `cmd:"" help:"Make a campaign from a CSV file. Prints its id."`
	Test   campaignTestCmd   `cmd:"" help:"Send one message of a campaign to your own phone."`
	Start  campaignStartCmd  `cmd:"" help:"Start a campaign, now or at a time."`
	Pause  campaignPauseCmd  `cmd:"" help:"Stop a campaign for now, and wait until nothing more goes out."`
	Resume campaignResumeCmd `cmd:"" help:"Go on with a campaign that was paused or has stopped by itself."`
	Cancel campaignCancelCmd `cmd:"" help:"End a campaign for good, and wait until nothing more goes out."`
	Status campaignStatusCmd `cmd:"" help:"Show how far a campaign is."`
	Watch  campaignWatchCmd  `cmd:"" help:"Follow a campaign until it is over."`
	List   campaignListCmd   `cmd:"" help:"List campaigns."`
	Policy campaignPolicyCmd `cmd:"" help:"Show what an answer does to a campaign's recipients: attempts, waits, unknown outcomes."`
	Export campaignExportCmd `cmd:"" help:"Write who got what, as CSV."`
	Verify campaignVerifyCmd `cmd:"" help:"Prove from the rows that nobody was lost or doubled."`
	Report campaignReportCmd `cmd:"" help:"What a campaign came to: kept at its end, as it stands before."`
	Drop   campaignDropCmd   `cmd:"" help:"Remove a campaign that has not been started."`
}

type campaignStartCmd struct {
	graph
	Name     string `arg:"" help:"Name or id of the campaign."`
	At       moment `placeholder:"TIME" help:"When, as 2026-12-01T09:00:00+01:00. Default: what create said, else now."`
	Now      bool   `help:"Now, whatever create said."`
	NoVerify bool   `help:"Do not ask Meta about the template."`
}

// Help shows an example.
func (campaignStartCmd) Help() string {
	return "  weir campaign start spring --at 2026-12-01T09:00:00+01:00"
}

func (c campaignStartCmd) Run(ctx context.Context, s *session) error {
	if c.Now && !c.At.IsZero() {
		return usagef("say --now or --at, not both")
	}
	if err := c.At.ahead("--at"); err != nil {
		return err
	}
	return s.with(ctx, func(db *database) error {
		campaign, err := db.FindCampaign(ctx, c.Name)
		if err != nil {
			return err
		}
		if err := s.verifyTemplate(ctx, db, c.graph, c.NoVerify, campaign); err != nil {
			return err
		}
		if !c.At.IsZero() {
			if err := db.SetStart(ctx, campaign.ID, c.At.Time); err != nil {
				return err
			}
		}
		return s.start(ctx, db, campaign, c.Now)
	})
}

// verifyTemplate asks Meta whether the campaign's template can be sent, unless
// it was told not to.
func (s *session) verifyTemplate(ctx context.Context, db *database, g graph, skip bool, c store.Campaign) error {
	if skip {
		return nil
	}
	client, err := g.client(ctx, db.Store, s.log, nil)
	if err != nil {
		return err
	}
	defer client.Close()
	check := templateCheck{client: client, store: db.Store, warn: s.std.err}
	_, err = check.run(ctx, c.CampaignSpec)
	return err
}

// start starts a campaign and says what came of it; now overrides the time it
// was made for.
func (s *session) start(ctx context.Context, db *database, c store.Campaign, now bool) error {
	got, err := db.StartCampaign(ctx, c.ID, now)
	if err != nil {
		return err
	}
	return s.started(ctx, db, c, got)
}

// started makes the jobs of a campaign that runs now, or will, and says so.
func (s *session) started(ctx context.Context, db *database, c store.Campaign, got store.Started) error {
	w := s.std.err
	at := time.Now()
	if got.State == store.Scheduled {
		at = got.StartAt
	}
	if err := jobs.Schedule(ctx, db.Pool(), c.ID, at); err != nil {
		return err
	}
	heard, err := db.WebhookHeard(ctx)
	if err != nil {
		return err
	}
	if heard.IsZero() {
		_, _ = fmt.Fprintln(w, "NO WEBHOOK HAS EVER ARRIVED HERE. Without webhooks nothing gets beyond accepted, and an unknown outcome stays unknown: "+
			"subscribe the field messages in Meta's app dashboard to https://YOUR.HOST/webhooks/whatsapp.")
	}
	if err := s.warnStopped(ctx, db, c); err != nil {
		return err
	}
	if err := s.sayClosed(ctx, db, c); err != nil {
		return err
	}
	switch {
	case got.State == store.Scheduled:
		_, err = fmt.Fprintf(w, "campaign %s will start at %s\n", c.Name, stamp(got.StartAt))
	case got.Was == store.Running:
		_, err = fmt.Fprintf(w, "campaign %s is running already\n", c.Name)
	default:
		_, err = fmt.Fprintf(w, "campaign %s is running: follow it with weir campaign watch %s\n", c.Name, shellWord(c.Name))
	}
	return err
}

// warnStopped says which of a campaign's numbers will not send, and what to do.
func (s *session) warnStopped(ctx context.Context, db *database, c store.Campaign) error {
	for _, n := range c.Numbers {
		number, err := db.FindNumber(ctx, n.ID)
		if err != nil {
			return err
		}
		if !number.Enabled {
			_, _ = fmt.Fprintf(s.std.err, "number %s is stopped and will not send (%s): mend that, then %s\n", n.ID, number.StopReason, enableNumber(n.ID))
		}
	}
	return nil
}

type campaignListCmd struct {
	JSON bool `help:"Print JSON."`
}

func (c campaignListCmd) Run(ctx context.Context, s *session) error {
	return s.with(ctx, func(db *database) error {
		campaigns, err := db.Campaigns(ctx)
		if err != nil {
			return err
		}
		stop, err := db.Stopped(ctx)
		if err != nil {
			return err
		}
		if c.JSON {
			views := make([]campaignView, len(campaigns))
			for i, campaign := range campaigns {
				views[i] = viewOf(campaign, nil)
				views[i].EverythingStopped = stop.Stands()
			}
			return printJSON(s.std.out, views)
		}
		if words := stopWords(stop); words != "" {
			_, _ = fmt.Fprintln(s.std.err, words)
		}
		t := newTable(s.std.out, "ID", "NAME", "STATE", "RECIPIENTS", "TEMPLATE", "STARTED", "REASON")
		for _, campaign := range campaigns {
			t.row(fmt.Sprint(campaign.ID), campaign.Name, string(campaign.State), group(campaign.Import.Accepted),
				campaign.Template.Name+"/"+campaign.Template.Language, stamp(campaign.StartedAt), campaign.Reason)
		}
		return t.flush()
	})
}

type campaignStatusCmd struct {
	Name string `arg:"" help:"Name or id of the campaign."`
	JSON bool   `help:"Print JSON: id, state, counts by status and more."`
}

// Help shows an example.
func (campaignStatusCmd) Help() string {
	return "  weir campaign status spring --json | jq .counts.delivered"
}

func (c campaignStatusCmd) Run(ctx context.Context, s *session) error {
	return s.with(ctx, func(db *database) error {
		campaign, err := db.FindCampaign(ctx, c.Name)
		if err != nil {
			return err
		}
		p, err := (&looker{store: db.Store}).at(ctx, campaign)
		if err != nil {
			return err
		}
		if c.JSON {
			return printJSON(s.std.out, p.view())
		}
		_, err = io.WriteString(s.std.out, strings.Join(p.lines(time.Now()), "\n")+"\n")
		return err
	})
}

// campaignView is a campaign for scripts: its fields are a promise.
type campaignView struct {
	ID         int64            `json:"id"`
	Name       string           `json:"name"`
	State      string           `json:"state"`
	Reason     string           `json:"reason,omitempty"`
	Paused     float64          `json:"paused_seconds,omitempty"` // running: how much longer nothing is claimed
	Template   string           `json:"template"`
	Language   string           `json:"language"`
	Category   string           `json:"category"`
	Numbers    []string         `json:"numbers"` // its primaries
	Fallback   *fallbackView    `json:"fallback,omitempty"`
	Recipients int64            `json:"recipients"`
	Counts     map[string]int64 `json:"counts,omitempty"`
	Suppressed map[string]int64 `json:"suppressed,omitempty"` // by reason: opted_out, said_stop, not_on_whatsapp, frequency_cap
	Duplicates *int64           `json:"duplicates,omitempty"` // messages accepted beside the one that a recipient shows
	Rows       rowsView         `json:"rows"`
	Window     *windowView      `json:"window,omitempty"`
	Zones      []zoneView       `json:"zones,omitempty"` // with a window: who waits where, and until when
	StartAt    string           `json:"start_at,omitempty"`
	StartedAt  string           `json:"started_at,omitempty"`
	FinishedAt string           `json:"finished_at,omitempty"`

	// Meta's last word on the template, by webhook.
	TemplateSaid   string `json:"template_said,omitempty"`
	TemplateSaidAt string `json:"template_said_at,omitempty"`

	DatabaseConfirmed *bool `json:"database_confirmed,omitempty"` // false: nothing moves until weir database confirm

	EverythingStopped bool `json:"everything_stopped,omitempty"` // nothing moves until weir go

	Waits []string `json:"waits,omitempty"` // running: why nobody who waits can be sent to now

	// Of the last pause, resume or cancel; confirmed: from when on nothing more went out.
	ControlAt   string `json:"control_at,omitempty"`
	ConfirmedAt string `json:"confirmed_at,omitempty"`
	ResumeAt    string `json:"resume_at,omitempty"` // paused: when it goes on by itself
}

type rowsView struct {
	Read      int64 `json:"read"`
	Accepted  int64 `json:"accepted"`
	Rejected  int64 `json:"rejected"`
	Duplicate int64 `json:"duplicate"`
	Defaulted int64 `json:"default_country"`
}

func viewOf(c store.Campaign, counts map[engine.Status]int) campaignView {
	v := campaignView{
		ID: c.ID, Name: c.Name, State: string(c.State), Reason: c.Reason, Paused: c.Paused.Seconds(), Template: c.Template.Name, Language: c.Template.Language,
		Category: string(c.Template.Category), Recipients: c.Import.Accepted,
		Rows:    rowsView{c.Import.Read, c.Import.Accepted, c.Import.Rejected, c.Import.Duplicate, c.Import.Defaulted},
		StartAt: stamp(c.StartAt), StartedAt: stamp(c.StartedAt), FinishedAt: stamp(c.FinishedAt),
		ControlAt: stamp(c.ControlAt), ConfirmedAt: stamp(c.ConfirmedAt), ResumeAt: stamp(c.ResumeAt),
		TemplateSaid: c.TemplateSaid.Word, TemplateSaidAt: stamp(c.TemplateSaid.At),
		Window: viewOfWindow(c.Window),
	}
	v.Numbers, v.Fallback = senders(c.CampaignSpec, false), fallbackOf(c)
	if counts != nil {
		v.Counts = map[string]int64{}
		for _, s := range engine.Statuses() {
			v.Counts[s.String()] = int64(counts[s])
		}
	}
	return v
}

type campaignDropCmd struct {
	Name string `arg:"" help:"Name or id of the campaign."`
}

func (c campaignDropCmd) Run(ctx context.Context, s *session) error {
	return s.with(ctx, func(db *database) error {
		campaign, err := db.FindCampaign(ctx, c.Name)
		if err != nil {
			return err
		}
		if err := db.DropCampaign(ctx, campaign.ID); err != nil {
			return err
		}
		_, err = fmt.Fprintf(s.std.err, "campaign %s and its %s recipients are gone\n", campaign.Name, group(campaign.Import.Accepted))
		return err
	})
}

package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/weirhq/weir/engine"
	"github.com/weirhq/weir/internal/store"
)

type campaignReportCmd struct {
	Name string `arg:"" help:"Name or id of the campaign."`
	Now  bool   `help:"Count anew: statuses go on coming in after the end."`
	JSON bool   `help:"Print JSON."`
}

// Help shows an example.
func (campaignReportCmd) Help() string {
	return `  weir campaign report spring

What a campaign came to, counted from its rows: the file, every status, failures
with what to do, duplicates, who is not heard of yet, each number's mean rate, the
pauses, and the checks of weir campaign verify. It is kept when the campaign ends,
and shown as of then; of one that still runs it is shown as it stands.`
}

// reportView is a report for scripts: its fields are a promise.
type reportView struct {
	store.Report
	Failures []failureView `json:"failures"`
}

type failureView struct {
	store.ReportFailure
	Advice string `json:"advice,omitempty"`
}

func (c campaignReportCmd) Run(ctx context.Context, s *session) error {
	return s.with(ctx, func(db *database) error {
		campaign, err := db.FindCampaign(ctx, c.Name)
		if err != nil {
			return err
		}
		r, err := c.report(ctx, db.Store, campaign)
		if err != nil {
			return err
		}
		view := reportView{Report: r, Failures: []failureView{}}
		for _, f := range r.Failures {
			view.Failures = append(view.Failures, failureView{f, adviceOn(f.Code, f.Title)})
		}
		if c.JSON {
			return printJSON(s.std.out, view)
		}
		_, err = io.WriteString(s.std.out, strings.Join(view.lines(), "\n")+"\n")
		return err
	})
}

// report is the kept one of a campaign that is over, unless it is to be counted
// anew; one that no node has written yet is written now.
func (c campaignReportCmd) report(ctx context.Context, db *store.Store, campaign store.Campaign) (store.Report, error) {
	if c.Now || !campaign.State.Over() {
		return db.Report(ctx, campaign.ID)
	}
	if _, err := db.KeepReport(ctx, campaign.ID); err != nil {
		return store.Report{}, err
	}
	r, kept, err := db.KeptReport(ctx, campaign.ID)
	if err != nil || kept {
		return r, err
	}
	return db.Report(ctx, campaign.ID) // it has been opened anew meanwhile
}

func (v reportView) lines() []string {
	lines := []string{
		v.headline(),
		fmt.Sprintf("file       %s rows read · %s accepted · %s rejected · %s duplicate", group(v.Rows.Read), group(v.Rows.Accepted), group(v.Rows.Rejected), group(v.Rows.Duplicate)),
		statusLine(func(s engine.Status) int64 { return v.Statuses[s.String()] }),
	}
	if len(v.LeftOut) > 0 {
		lines = append(lines, "left out   "+leftOut(v.LeftOut))
	}
	for _, f := range v.Failures {
		line := fmt.Sprintf("%-10s %s × %s", f.Status, group(f.Recipients), f.Title)
		if f.Code != 0 {
			line = fmt.Sprintf("%-10s %s × %d %s", f.Status, group(f.Recipients), f.Code, f.Title)
		}
		if f.Advice != "" {
			line += ": " + f.Advice
		}
		lines = append(lines, line)
	}
	lines = append(lines, "duplicates "+group(v.Duplicates))
	if v.Unheard > 0 {
		lines = append(lines, fmt.Sprintf("unheard    %s were accepted, and no status webhook about them has come (%s held by Meta): weir campaign report --now counts anew", group(v.Unheard), group(v.Statuses[engine.Held.String()])))
	}
	if v.Unknown > 0 {
		lines = append(lines, fmt.Sprintf("unknown    %s outcomes are open", group(v.Unknown)))
	}
	for _, n := range v.Numbers {
		lines = append(lines, fmt.Sprintf("number     %s  %s accepted, %.1f per second from %s to %s", n.ID, group(n.Accepted), n.Rate, stamp(n.First), stamp(n.Last)))
	}
	return append(append(lines, v.pauses()...), v.checks()...)
}

func (v reportView) headline() string {
	head := fmt.Sprintf("campaign %s (id %d)  %s", v.Name, v.ID, v.State)
	took := time.Duration(v.Seconds * float64(time.Second)).Round(time.Second).String()
	switch {
	case v.Final && v.FinishedAt != nil && v.StartedAt != nil:
		head += " at " + stamp(*v.FinishedAt) + " after " + took + "; counted at " + stamp(v.At)
	case v.Final:
		head += "; counted at " + stamp(v.At)
	case v.StartedAt != nil:
		head += ": NOT OVER, as it stands at " + stamp(v.At) + ", " + took + " after its start"
	default:
		head += ": NOT STARTED, as it stands at " + stamp(v.At)
	}
	return head
}

func (v reportView) pauses() (lines []string) {
	for _, p := range v.Pauses {
		line := fmt.Sprintf("%-10s %s: silent after %.1f s", p.Kind, stamp(p.AskedAt), p.ConfirmedAt.Sub(p.AskedAt).Seconds())
		if p.EndedAt != nil {
			line += ", for " + p.EndedAt.Sub(p.ConfirmedAt).Round(time.Second).String()
		}
		if p.Reason != "" {
			line += " (" + p.Reason + ")"
		}
		lines = append(lines, line)
	}
	return lines
}

func (v reportView) checks() []string {
	held, broken := 0, []string{}
	for _, c := range v.Checks {
		if c.OK {
			held++
			continue
		}
		broken = append(broken, fmt.Sprintf("BROKEN     %s (found %s, want %s): %s", c.Says, group(c.Found), group(c.Want), c.Hint))
	}
	return append([]string{fmt.Sprintf("checks     %d of %d hold", held, len(v.Checks))}, broken...)
}

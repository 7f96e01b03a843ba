package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/weirhq/weir/internal/store"
)

type campaignWatchCmd struct {
	Name  string        `arg:"" help:"Name or id of the campaign."`
	Every time.Duration `default:"1s" help:"How often to look."`
}

// Help shows an example.
func (campaignWatchCmd) Help() string {
	return "  weir campaign watch spring\n\nExits 0 when the campaign has finished, 1 when something stopped it, or it was canceled."
}

func (c campaignWatchCmd) Run(ctx context.Context, s *session) error {
	if c.Every < 100*time.Millisecond {
		return usagef("--every must be at least 100ms")
	}
	return s.with(ctx, func(db *database) error {
		end, err := s.watch(ctx, db.Store, c.Name, c.Every)
		if err != nil {
			return err
		}
		switch end {
		case store.Finished:
			return nil
		case store.Draft:
			return fmt.Errorf("it has not been started: weir campaign start %s", shellWord(c.Name))
		default:
			return errSilent // the last look says why
		}
	})
}

// watch shows a campaign until it is over or stands still, and returns the
// state it ended in. On a terminal it redraws, elsewhere it prints a line a
// look.
func (s *session) watch(ctx context.Context, db *store.Store, ref string, every time.Duration) (store.CampaignState, error) {
	campaign, err := db.FindCampaign(ctx, ref)
	if err != nil {
		return "", err
	}
	ref = strconv.FormatInt(campaign.ID, 10)
	screen := screen{w: s.std.out, live: isTerminal(s.std.out)}
	looks := looker{store: db}
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		if campaign, err = db.FindCampaign(ctx, ref); err != nil {
			return "", err
		}
		p, err := looks.at(ctx, campaign)
		if err != nil {
			return "", err
		}
		over := !moving(campaign.State)
		screen.draw(p, over)
		if over {
			return campaign.State, nil
		}
		select {
		case <-ctx.Done():
			return campaign.State, ctx.Err()
		case <-ticker.C:
		}
	}
}

// moving reports whether a campaign in that state goes on to another by itself.
func moving(state store.CampaignState) bool {
	switch state {
	case store.Scheduled, store.Running, store.Pausing, store.Canceling:
		return true
	default:
		return false
	}
}

// screen is where looks are drawn, each over the last.
type screen struct {
	w     io.Writer
	live  bool
	drawn int
}

func (s *screen) draw(p *progress, last bool) {
	lines := p.lines(p.at)
	if !s.live && !last {
		line := fmt.Sprintf("%s  %s  %s  %s", p.at.Format(time.TimeOnly), p.campaign.State, strings.TrimPrefix(p.bar(), "progress   "), p.statuses())
		if p.held() {
			line += "  stopped: " + notConfirmed
		}
		if words := stopWords(p.stop); words != "" {
			line += "  " + words
		}
		for _, why := range p.waits() {
			line += "  waits: " + why
		}
		if p.standsIn() {
			line += "  the fallback stands in"
		}
		_, _ = fmt.Fprintln(s.w, line)
		return
	}
	if s.drawn > 0 {
		_, _ = fmt.Fprintf(s.w, "\x1b[%dA\x1b[J", s.drawn)
	}
	s.drawn = len(lines)
	if !s.live {
		s.drawn = 0
	}
	_, _ = io.WriteString(s.w, strings.Join(lines, "\n")+"\n")
}

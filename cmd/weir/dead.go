package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/user"
	"strconv"
	"strings"
	"time"

	"github.com/weirhq/weir/engine"
	"github.com/weirhq/weir/internal/audience"
	"github.com/weirhq/weir/internal/cloudapi"
	"github.com/weirhq/weir/internal/store"
)

type deadCmd struct {
	List    deadListCmd    `cmd:"" help:"Show dead letters in groups: who failed or was given up, why, and what to do."`
	Replay  deadReplayCmd  `cmd:"" help:"Send dead letters of a campaign anew."`
	Replays deadReplaysCmd `cmd:"" help:"List the replays there have been."`
	Close   deadCloseCmd   `cmd:"" help:"Give up unknown outcomes that a campaign holds for you."`
}

// deadFilter are the flags that choose among dead letters.
type deadFilter struct {
	Code    *int   `help:"Only those with this error code; 0: those without one."`
	Number  string `placeholder:"ID" help:"Only those last sent from this number."`
	Country string `placeholder:"CC" help:"Only phones of this country, for example BR."`
	Status  string `enum:",dead,failed" default:"" placeholder:"STATUS" help:"Only dead (Weir gave up) or failed (Meta's word)."`
}

// read checks the flags.
func (f deadFilter) read() (store.DeadFilter, *audience.Countries, error) {
	countries, err := audience.NewCountries()
	if err != nil {
		return store.DeadFilter{}, nil, fmt.Errorf("read numbering plans: %w", err)
	}
	filter := store.DeadFilter{Code: f.Code, Number: f.Number, Country: strings.ToUpper(f.Country), Status: f.Status}
	if filter.Country != "" && !countries.Known(filter.Country) {
		return filter, nil, usagef("--country %s: there is no such country: use two letters of ISO 3166, such as BR, DE or GB", f.Country)
	}
	return filter, countries, nil
}

type deadListCmd struct {
	Campaign string `placeholder:"NAME" help:"Name or id of one campaign. Default: all."`
	deadFilter
	JSON bool `help:"Print JSON."`
}

// Help shows an example.
func (deadListCmd) Help() string {
	return `  weir dead list --campaign spring

Failed: Meta's word. Dead: Weir gave up; the reason says why. Unknown: nobody
knows whether the message went out, and the campaign holds it for you.`
}

func (c deadListCmd) Run(ctx context.Context, s *session) error {
	filter, countries, err := c.read()
	if err != nil {
		return err
	}
	return s.with(ctx, func(db *database) error {
		campaigns, err := chosenCampaigns(ctx, db.Store, c.Campaign)
		if err != nil {
			return err
		}
		views := []deadView{}
		for _, campaign := range campaigns {
			groups, err := store.GroupDead(db.DeadLetters(ctx, campaign.ID, countries.Of), filter.Takes)
			if err != nil {
				return err
			}
			views = append(views, deadViews(campaign, groups)...)
		}
		if c.JSON {
			return printJSON(s.std.out, views)
		}
		if len(views) == 0 {
			_, err := fmt.Fprintln(s.std.err, "no dead letters")
			return err
		}
		return printDead(s, views)
	})
}

// chosenCampaigns are the one that is named, or all.
func chosenCampaigns(ctx context.Context, s *store.Store, ref string) ([]store.Campaign, error) {
	if ref == "" {
		return s.Campaigns(ctx)
	}
	c, err := s.FindCampaign(ctx, ref)
	return []store.Campaign{c}, err
}

// deadView is a group of dead letters for scripts: its fields are a promise.
type deadView struct {
	Campaign   string `json:"campaign"`
	CampaignID int64  `json:"campaign_id"`
	Template   string `json:"template"`
	Language   string `json:"language"`
	Status     string `json:"status"`
	Code       int    `json:"code,omitempty"`
	Reason     string `json:"reason,omitempty"`
	Title      string `json:"title"`
	Country    string `json:"country,omitempty"`
	Number     string `json:"number,omitempty"`
	Rows       int64  `json:"rows"`
	FirstAt    string `json:"first_at"`
	LastAt     string `json:"last_at"`
	Line       int64  `json:"example_line"`
	Advice     string `json:"advice,omitempty"`
}

func deadViews(c store.Campaign, groups []store.DeadGroup) []deadView {
	views := make([]deadView, len(groups))
	for i, g := range groups {
		views[i] = deadView{
			Campaign: c.Name, CampaignID: c.ID, Template: c.Template.Name, Language: c.Template.Language,
			Status: g.Status.String(), Code: g.Code, Reason: g.Reason, Title: deadTitle(g.DeadKey), Country: g.Country, Number: g.Number,
			Rows: g.Rows, FirstAt: stamp(g.First), LastAt: stamp(g.Last), Line: g.Line, Advice: deadAdvice(g.DeadKey),
		}
	}
	return views
}

// deadTitle is what a group came to, in words.
func deadTitle(k store.DeadKey) string {
	title := cloudapi.Title(k.Code)
	if k.Code == 0 {
		title = ""
	}
	switch {
	case k.Reason == "":
		return cmp.Or(title, "an error that Meta does not list")
	case title == "":
		return k.Reason
	default:
		return k.Reason + ": " + title
	}
}

// deadAdvice is what to do about a group.
func deadAdvice(k store.DeadKey) string {
	if k.Status == engine.Unknown {
		return "nobody knows whether it arrived: find out, then weir dead close"
	}
	return adviceOn(k.Code, k.Reason)
}

func printDead(s *session, views []deadView) error {
	t := newTable(s.std.out, "CAMPAIGN", "STATUS", "CODE", "TEMPLATE", "COUNTRY", "NUMBER", "ROWS", "FIRST", "LAST", "LINE", "WHAT", "ADVICE")
	for _, v := range views {
		code := ""
		if v.Code != 0 {
			code = strconv.Itoa(v.Code)
		}
		t.row(v.Campaign, v.Status, code, v.Template, v.Country, v.Number, group(v.Rows), v.FirstAt, v.LastAt, strconv.FormatInt(v.Line, 10), v.Title, v.Advice)
	}
	return t.flush()
}

type deadReplaysCmd struct {
	Campaign string `placeholder:"NAME" help:"Name or id of one campaign. Default: all."`
	JSON     bool   `help:"Print JSON."`
}

// Help shows an example.
func (deadReplaysCmd) Help() string { return "  weir dead replays --campaign spring" }

func (c deadReplaysCmd) Run(ctx context.Context, s *session) error {
	return s.with(ctx, func(db *database) error {
		id := int64(0)
		if c.Campaign != "" {
			campaign, err := db.FindCampaign(ctx, c.Campaign)
			if err != nil {
				return err
			}
			id = campaign.ID
		}
		replays, err := db.Replays(ctx, id)
		if err != nil {
			return err
		}
		views := make([]replayView, len(replays))
		for i, r := range replays {
			views[i] = replayView{ID: r.ID, Campaign: r.Campaign, Filter: r.Filter, Forced: r.Forced, Who: r.Who, At: stamp(r.At), Moved: r.Moved, LastDue: stamp(r.LastDue)}
		}
		if c.JSON {
			return printJSON(s.std.out, views)
		}
		t := newTable(s.std.out, "ID", "CAMPAIGN", "AT", "WHO", "MOVED", "FORCED", "LAST DUE", "FILTER")
		for _, v := range views {
			t.row(v.ID, v.Campaign, v.At, v.Who, group(v.Moved), strconv.FormatBool(v.Forced), v.LastDue, string(v.Filter))
		}
		return t.flush()
	})
}

type deadCloseCmd struct {
	Campaign string        `required:"" placeholder:"NAME" help:"Name or id of the campaign."`
	Number   string        `placeholder:"ID" help:"Only those sent from this number."`
	Phone    string        `placeholder:"PHONE" help:"Only this person, in international form."`
	Older    time.Duration `env:"WEIR_UNKNOWN_WINDOW" default:"30m" help:"Only those unknown for this long: a webhook may still come for the others."`
}

// Help says what it does.
func (deadCloseCmd) Help() string {
	return `  weir dead close --campaign spring --older 2h

For campaigns made with --on-unknown hold. Whoever is closed is dead, reason
closed_by_operator; a webhook that comes later still counts. weir dead replay
--force sends to them again. It is on record who did it.`
}

func (c deadCloseCmd) Run(ctx context.Context, s *session) error {
	order := store.CloseOrder{Number: c.Number, Older: c.Older, Who: who()}
	if c.Phone != "" {
		phone, err := audience.ParsePhone(c.Phone, "")
		if err != nil {
			return usagef("--phone: %v", err)
		}
		order.Phone = phone
	}
	return s.with(ctx, func(db *database) error {
		campaign, err := db.FindCampaign(ctx, c.Campaign)
		if err != nil {
			return err
		}
		order.Campaign = campaign.ID
		n, err := db.CloseUnknowns(ctx, order)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(s.std.err, "campaign %s: %s unknown outcomes closed; weir dead list --campaign %s shows them\n", campaign.Name, group(int64(n)), shellWord(campaign.Name))
		return err
	})
}

// who is the person at the keyboard, for the record.
func who() string {
	name := "unknown"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	if host, err := os.Hostname(); err == nil {
		name += "@" + host
	}
	return name
}

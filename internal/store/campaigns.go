package store

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/weirhq/weir/engine"
	"github.com/weirhq/weir/internal/store/db"
)

// CampaignState is where a campaign stands in its life.
type CampaignState string

// The states. A campaign is importing until its file is in, a draft until it
// is started, and only a running one is claimed from. It is pausing, or
// canceling, until nothing of it can go out any more.
const (
	Importing CampaignState = "importing"
	Draft     CampaignState = "draft"
	Scheduled CampaignState = "scheduled"
	Running   CampaignState = "running"
	Pausing   CampaignState = "pausing"
	Paused    CampaignState = "paused"
	Canceling CampaignState = "canceling"
	Canceled  CampaignState = "canceled"
	Finished  CampaignState = "finished"
)

// CampaignNumber is a number that sends for a campaign.
type CampaignNumber struct {
	ID       string
	Fallback bool // takes over when no primary number can send
}

// CampaignSpec is a campaign as its operator asks for it.
type CampaignSpec struct {
	Name         string // unique; not digits alone, those are ids
	Template     engine.Template
	Columns      []string // names of every recipient's values, in order
	Numbers      []CampaignNumber
	Priority     int              // higher first; equal ones take equal turns
	StartAt      time.Time        // zero: when it is started
	ExpireAt     time.Time        // nothing is sent from here on; zero: never
	OnUnknown    engine.OnUnknown // default UnknownFails
	engine.Retry                  // MaxAttempts 1 to 100, 0 = 5; Jitter default FullJitter
	// Of marketing alone. AbsentDays: whom any campaign's message did not reach
	// since, because they are not on WhatsApp, is left out; 0 to 365. Cap: whoever
	// had that many messages of any marketing campaign in CapDays is left out; 0: no cap.
	AbsentDays   int
	Cap, CapDays int
	Fallback     Fallback
	// Window is when it may be sent; nil: at any time. What its people's zones are
	// comes with the import, unless it names one for all.
	Window *SendWindow
}

// Campaign is a campaign as it stands.
type Campaign struct {
	CampaignSpec
	ID         int64
	State      CampaignState
	Reason     string        // why it stands still, when something stopped it
	Paused     time.Duration // Running: how much longer it is not claimed from, on the database's clock
	CreatedAt  time.Time
	StartedAt  time.Time // zero: never
	FinishedAt time.Time // zero: not yet
	// ControlAt is when its last pause, resume or cancel was asked for, and
	// ConfirmedAt from when on nothing could go out any more; zero: not yet.
	ControlAt, ConfirmedAt time.Time
	ResumeAt               time.Time // Pausing or Paused: when it goes on by itself; zero: when told to
	Stopped                bool      // Pausing or Paused: with everything else, and it goes on with that
	Import                 Imported
	TemplateSaid           TemplateSaid
}

// CreateCampaign makes a campaign without recipients, in state importing, and
// returns its id. It answers ErrExists when the name is in use, and ErrRefused
// for a number nobody added or a setting that makes no sense.
func (s *Store) CreateCampaign(ctx context.Context, c CampaignSpec) (int64, error) {
	c.OnUnknown = cmp.Or(c.OnUnknown, engine.UnknownFails)
	c.MaxAttempts = cmp.Or(c.MaxAttempts, 5)
	c.Jitter = cmp.Or(c.Jitter, engine.FullJitter)
	c.Fallback.Wait = cmp.Or(c.Fallback.Wait, FallbackWait)
	c.Template.Category = cmp.Or(c.Template.Category, engine.Marketing)
	if err := c.check(); err != nil {
		return 0, err
	}
	params, err := json.Marshal(append([]engine.Param{}, c.Template.Params...))
	if err != nil {
		return 0, fmt.Errorf("encode template parameters: %w", err)
	}
	p := &db.CreateCampaignParams{
		Name: c.Name, Template: c.Template.Name, Language: c.Template.Language, Category: string(c.Template.Category),
		Params: params, Columns: append([]string{}, c.Columns...), Priority: int32(c.Priority),
		StartAt: instant(c.StartAt), ExpireAt: instant(c.ExpireAt), OnUnknown: string(c.OnUnknown),
		MaxAttempts: int32(c.MaxAttempts), Jitter: string(c.Jitter),
		AbsentDays: int32(c.AbsentDays), CapMessages: int32(c.Cap), CapDays: int32(c.CapDays),
		FallbackWaitSeconds: c.Fallback.Wait.Seconds(), FallbackAfter: int32(c.Fallback.After),
	}
	if err := windowed(p, c.Window); err != nil {
		return 0, err
	}
	for _, n := range c.Numbers {
		p.Numbers = append(p.Numbers, n.ID)
		p.Roles = append(p.Roles, role(n.Fallback))
	}
	ids, err := s.q.CreateCampaign(ctx, s.pool, p)
	switch {
	case sqlState(err) == "23503":
		return 0, s.unknownNumbers(ctx, p.Numbers)
	case err != nil:
		return 0, fmt.Errorf("create campaign: %w", err)
	case len(ids) == 0:
		return 0, s.nameInUse(ctx, c.Name)
	}
	return ids[0], nil
}

func role(fallback bool) string {
	if fallback {
		return "fallback"
	}
	return "primary"
}

func (c CampaignSpec) check() error {
	switch {
	case c.Name == "" || c.Name != strings.TrimSpace(c.Name) || len(c.Name) > 200 || strings.ContainsFunc(c.Name, unicode.IsControl):
		return refuse(ErrRefused, "a campaign's name must have 1 to 200 characters, and no space at its ends nor a line break in it")
	case strings.Trim(c.Name, "0123456789") == "":
		return refuse(ErrRefused, "a campaign's name must not be digits alone, it would read as an id: call it campaign-%s, for example", c.Name)
	case c.Template.Name == "" || c.Template.Language == "":
		return refuse(ErrRefused, "a campaign needs a template and its language, for example order_ready and en_US")
	case c.Priority != int(int32(c.Priority)):
		return refuse(ErrRefused, "the priority must fit in 32 bits: 0 is usual, 1 goes before it")
	case c.MaxAttempts < 1 || c.MaxAttempts > 100:
		return refuse(ErrRefused, "max attempts must be from 1 to 100")
	case !c.StartAt.IsZero() && !c.ExpireAt.IsZero() && !c.ExpireAt.After(c.StartAt):
		return refuse(ErrRefused, "the campaign would expire before it starts: move one of the two times")
	case len(c.Numbers) == 0:
		return refuse(ErrRefused, "a campaign needs at least one number to send from: number list shows them")
	}
	switch c.Template.Category {
	case engine.Marketing, engine.Utility, engine.Authentication:
	default:
		return refuse(ErrRefused, "the category must be marketing, utility or authentication")
	}
	return c.checkPolicies()
}

func (c CampaignSpec) checkPolicies() error {
	switch c.OnUnknown {
	case engine.UnknownFails, engine.UnknownResends, engine.UnknownHolds:
	default:
		return refuse(ErrRefused, "the policy for unknown outcomes must be fail, resend or hold")
	}
	switch c.Jitter {
	case engine.FullJitter, engine.DecorrelatedJitter:
	default:
		return refuse(ErrRefused, "the jitter of retries must be full or decorrelated")
	}
	return c.checkSparing()
}

func (c CampaignSpec) checkSparing() error {
	switch {
	case c.AbsentDays < 0 || c.AbsentDays > 365:
		return refuse(ErrRefused, "the days for which persons are left out who are not on WhatsApp must be from 0 to 365")
	case (c.Cap == 0) != (c.CapDays == 0) || c.Cap < 0 || c.Cap > 100 || c.CapDays < 0 || c.CapDays > 365:
		return refuse(ErrRefused, "a cap is 1 to 100 messages in 1 to 365 days")
	case c.Cap > 0 && c.Template.Category != engine.Marketing:
		return refuse(ErrRefused, "a cap counts marketing, and this campaign is %s: leave the cap out", c.Template.Category)
	}
	if err := c.checkWindow(); err != nil {
		return err
	}
	return c.checkBindings()
}

func (c CampaignSpec) checkBindings() error {
	for _, p := range c.Template.Params {
		if p.Column >= len(c.Columns) {
			return refuse(ErrRefused, "parameter %s takes column %d, and there are only %d", p.Target, p.Column+1, len(c.Columns))
		}
	}
	return c.checkNumbers()
}

func (s *Store) unknownNumbers(ctx context.Context, ids []string) error {
	unknown, err := s.q.UnknownNumbers(ctx, s.pool, ids)
	if err != nil {
		return fmt.Errorf("look for unknown numbers: %w", err)
	}
	return refuse(ErrRefused, "there is no number %s here: number list shows those there are, number add makes one", strings.Join(unknown, ", "))
}

func (s *Store) nameInUse(ctx context.Context, name string) error {
	c, err := s.FindCampaign(ctx, name)
	if err != nil {
		return err
	}
	next := "choose another name"
	switch {
	case c.State == Importing && c.Reason != "":
		next = "a drop of it was cut short: drop it again, or choose another name"
	case c.State == Importing:
		next = "import the same file again to go on where it stopped, or drop it"
	case c.State == Draft:
		next = "start it, or drop it to begin anew"
	}
	return refuse(ErrExists, "the name %q is in use by campaign %d, which is %s: %s", name, c.ID, c.State, next)
}

// FindCampaign finds a campaign by its name or its id, or answers ErrNotFound.
func (s *Store) FindCampaign(ctx context.Context, ref string) (Campaign, error) {
	id, err := strconv.ParseInt(ref, 10, 64)
	if err != nil {
		id = 0 // not an id: no campaign has it
	}
	if ref == "" {
		return Campaign{}, refuse(ErrNotFound, "name a campaign: campaign list shows them")
	}
	found, err := s.campaigns(ctx, &db.CampaignsParams{Ref: ref, ID: id, States: []string{}})
	if err != nil {
		return Campaign{}, err
	}
	if len(found) == 0 {
		return Campaign{}, refuse(ErrNotFound, "there is no campaign %q: campaign list shows those there are", ref)
	}
	return found[0], nil
}

// Campaigns lists campaigns, newest first: those in one of the states, or all
// when none is given.
func (s *Store) Campaigns(ctx context.Context, states ...CampaignState) ([]Campaign, error) {
	names := make([]string, len(states))
	for i, state := range states {
		names[i] = string(state)
	}
	return s.campaigns(ctx, &db.CampaignsParams{States: names})
}

func (s *Store) campaigns(ctx context.Context, which *db.CampaignsParams) ([]Campaign, error) {
	rows, err := s.q.Campaigns(ctx, s.pool, which)
	if err != nil {
		return nil, fmt.Errorf("read campaigns: %w", err)
	}
	campaigns := make([]Campaign, len(rows))
	for i, r := range rows {
		if campaigns[i], err = campaign(r); err != nil {
			return nil, err
		}
	}
	return campaigns, nil
}

func campaign(r db.CampaignsRow) (Campaign, error) {
	c := Campaign{
		CampaignSpec: CampaignSpec{
			Name: r.Name, Columns: r.Columns, Priority: int(r.Priority), StartAt: r.StartAt.Time, ExpireAt: r.ExpireAt.Time,
			OnUnknown: engine.OnUnknown(r.OnUnknown), Retry: engine.Retry{MaxAttempts: int(r.MaxAttempts), Jitter: engine.Jitter(r.Jitter)},
			AbsentDays: int(r.AbsentDays), Cap: int(r.CapMessages), CapDays: int(r.CapDays),
			Template: engine.Template{Name: r.Template, Language: r.Language, Category: engine.Category(r.Category)},
			Fallback: Fallback{Wait: duration(r.FallbackWaitSeconds), After: int(r.FallbackAfter)},
		},
		ID: r.ID, State: CampaignState(r.State), Reason: r.StateReason, Paused: duration(r.PausedSeconds),
		CreatedAt: r.CreatedAt.Time, StartedAt: r.StartedAt.Time, FinishedAt: r.FinishedAt.Time,
		ControlAt: r.ControlAt.Time, ConfirmedAt: r.ConfirmedAt.Time, Stopped: r.Stopped, ResumeAt: r.ResumeAt.Time,
		Import: Imported{
			File: r.File, Read: r.RowsRead, Accepted: r.Accepted, Rejected: r.Rejected, Duplicate: r.Duplicate,
			Defaulted: r.Defaulted, Done: r.DoneAt.Valid,
		},
	}
	c.TemplateSaid = TemplateSaid{Word: r.TemplateSaid, Go: r.TemplateBears == engine.BearsGo.String(), At: r.TemplateSaidAt.Time}
	for i, id := range r.Numbers {
		c.Numbers = append(c.Numbers, CampaignNumber{ID: id, Fallback: r.Roles[i] == role(true)})
	}
	var err error
	if c.Window, err = sendWindow(r.SendWindow); err != nil {
		return Campaign{}, fmt.Errorf("read campaign %d: %w", r.ID, err)
	}
	if err := json.Unmarshal(r.Params, &c.Template.Params); err != nil {
		return Campaign{}, fmt.Errorf("decode template parameters of campaign %d: %w", r.ID, err)
	}
	return c, nil
}

// instant is null for the zero time.
func instant(t time.Time) pgtype.Timestamptz {
	return pgtype.Timestamptz{Time: t, Valid: !t.IsZero()}
}

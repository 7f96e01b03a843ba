package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weirhq/weir/engine"
	"github.com/weirhq/weir/internal/audience"
	"github.com/weirhq/weir/internal/cloudapi"
	"github.com/weirhq/weir/internal/store"
)

type explainCmd struct {
	Phone          string `arg:"" help:"The person's phone, in international form."`
	DefaultCountry string `placeholder:"CC" help:"Country of a phone without a country code, for example BR."`
	JSON           bool   `help:"Print JSON."`
}

// Help shows an example.
func (explainCmd) Help() string {
	return `  weir explain +14155550123

Everything on record about one person, over all campaigns: what was tried, what
Meta said, what holds it back now and until when, opt-outs, and webhooks that
matched nothing. It is people's data: mind where it goes.`
}

func (c explainCmd) Run(ctx context.Context, s *session) error {
	phone, err := audience.ParsePhone(c.Phone, c.DefaultCountry)
	if err != nil {
		return usagef("%v", err)
	}
	return s.with(ctx, func(db *database) error {
		person, err := db.Explain(ctx, phone)
		if err != nil {
			return err
		}
		v := explainView{Phone: phone, Timeline: happened(person), Now: standing(person)}
		if c.JSON {
			return printJSON(s.std.out, v)
		}
		return v.print(s)
	})
}

// explainView is a person for scripts: its fields are a promise.
type explainView struct {
	Phone    string         `json:"phone"`
	Timeline []eventView    `json:"timeline"`
	Now      []standingView `json:"now"`
}

type eventView struct {
	At        string `json:"at"`
	Campaign  string `json:"campaign,omitempty"`
	What      string `json:"what"`
	MessageID string `json:"message_id,omitempty"`

	at time.Time
}

// standingView is where a person stands in one campaign.
type standingView struct {
	Campaign   string   `json:"campaign"`
	CampaignID int64    `json:"campaign_id"`
	State      string   `json:"campaign_state"`
	Phone      string   `json:"phone"` // as the file had it
	Line       int64    `json:"line"`
	Status     string   `json:"status"`
	Attempts   int      `json:"attempts"`
	Replays    int      `json:"replays"`
	Number     string   `json:"number,omitempty"`
	MessageID  string   `json:"message_id,omitempty"`
	Waits      []string `json:"waits,omitempty"` // what has to come before it moves on
}

func (v explainView) print(s *session) error {
	t := newTable(s.std.out, "TIME", "CAMPAIGN", "WHAT")
	for _, e := range v.Timeline {
		t.row(e.At, e.Campaign, e.What)
	}
	for _, n := range v.Now {
		what := n.Status
		if len(n.Waits) > 0 {
			what += ": " + strings.Join(n.Waits, "; ")
		}
		t.row("now", n.Campaign, what)
	}
	return t.flush()
}

// happened is what happened, oldest first.
func happened(p store.Person) []eventView {
	events := []eventView{}
	add := func(at time.Time, campaign, what, message string) {
		if !at.IsZero() {
			events = append(events, eventView{At: stamp(at), Campaign: campaign, What: what, MessageID: message, at: at})
		}
	}
	for _, r := range p.Rows {
		add(r.CreatedAt, r.Campaign, fmt.Sprintf("in the audience: line %d of %s", r.Line, r.File), "")
		add(r.StartedAt, r.Campaign, "campaign started", "")
		for _, a := range r.Attempts {
			add(a.At, r.Campaign, attemptWords(a, r), a.MessageID)
		}
		if r.Replay != nil {
			add(r.Replay.At, r.Campaign, replayWords(r), "")
		}
		add(r.ClaimedAt, r.Campaign, "claimed for number "+r.Number, "")
		add(r.UnknownSince, r.Campaign, "unknown: a call was made and nobody knows what came of it", "")
		add(r.AcceptedAt, r.Campaign, "accepted from "+senderWords(r), r.MessageID)
		add(r.SentAt, r.Campaign, "sent", r.MessageID)
		add(r.DeliveredAt, r.Campaign, "delivered", r.MessageID)
		add(r.ReadAt, r.Campaign, "read", r.MessageID)
		add(r.FailedAt, r.Campaign, "failed: Meta's word", r.MessageID)
	}
	for _, o := range p.Suppressions {
		add(o.At, "", suppressionWords(o), "")
		add(o.LiftedAt, "", liftedWords(o), "")
	}
	for _, u := range p.Unmatched {
		add(u.At, "", unmatchedWords(u), u.MessageID)
	}
	slices.SortStableFunc(events, func(a, b eventView) int { return a.at.Compare(b.at) })
	return events
}

func attemptWords(a store.Attempt, r store.PersonRow) string {
	from := fmt.Sprintf("claim %d from number %s: ", a.Claim, a.Number)
	said := inWords(a.Code, a.Title, "")
	switch {
	case a.Code == 0 && leftOutWords[a.Title] != "":
		return from + "not sent: " + leftOutWords[a.Title]
	case a.MessageID != "" && !a.Failed && a.MessageID != r.MessageID:
		return from + "DUPLICATE: this message was accepted too, beside the one that is shown"
	case a.Failed:
		return from + "failed: " + said
	case a.Title == store.ReasonUnknown:
		return from + "no word of it came; the campaign's policy decided (" + a.Title + ")"
	case a.Title == store.ReasonClosed:
		return from + "given up by an operator (" + a.Title + ")"
	case a.Title == engine.ReasonUnserved:
		return from + "not sent: " + said
	default:
		return from + "answered " + said
	}
}

func replayWords(r store.PersonRow) string {
	words := fmt.Sprintf("replayed by %s (%s), time %d", r.Replay.Who, r.Replay.ID, r.Replays)
	if r.Replay.Forced {
		words += ", forced"
	}
	return words
}

func suppressionWords(o store.Suppression) string {
	words := map[store.SuppressionKind]string{
		store.OptOut: "opted out: ", store.SaidStop: "said stop: ", store.Wait: "to be left in peace for a time: ",
		store.Absent: "not on WhatsApp, left out by each campaign for its --absent-days (30 unless it says otherwise): ",
	}[o.Kind] + o.Scope
	if o.Reason != "" {
		words += ", " + reasonWords(o.Reason)
	}
	switch {
	case !o.LiftedAt.IsZero():
		return words + " (lifted since)"
	case o.Until.IsZero() || o.Kind == store.Absent: // a campaign's days end before
		return words
	case o.Holds:
		return words + ", until " + stamp(o.Until)
	default:
		return words + ", until " + stamp(o.Until) + " (over)"
	}
}

// liftedWords says who took a suppression back.
func liftedWords(o store.Suppression) string {
	was := o
	was.LiftedAt, was.Until = time.Time{}, time.Time{}
	switch {
	case o.LiftedBy != "":
		return "lifted by " + o.LiftedBy + ": " + suppressionWords(was)
	case o.Kind == store.SaidStop:
		return "said start: " + o.Scope
	default:
		return "wants marketing again, as Meta says: " + o.Scope
	}
}

// reasonWords adds our words to what is Meta's code alone.
func reasonWords(reason string) string {
	if code, err := strconv.Atoi(reason); err == nil {
		return strings.TrimSpace(reason + " " + cloudapi.Title(code))
	}
	return reason
}

func unmatchedWords(u store.Unmatched) string {
	words := "webhook that matched nothing: " + u.Status
	if u.Code != 0 {
		words += fmt.Sprintf(" %d %s", u.Code, u.Title)
	}
	return words + ", to number " + u.Number + "; next tried " + stamp(u.RetryAt)
}

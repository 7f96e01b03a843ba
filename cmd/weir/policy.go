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

type campaignPolicyCmd struct {
	Name          string        `arg:"" help:"Name or id of the campaign."`
	UnknownWindow time.Duration `env:"WEIR_UNKNOWN_WINDOW" default:"30m" help:"What the nodes run with."`
	JSON          bool          `help:"Print JSON."`
}

// Help shows an example.
func (campaignPolicyCmd) Help() string {
	return `  weir campaign policy spring

What each kind of answer does to a recipient of this campaign, how often it is
tried and how long it waits in between.`
}

func (c campaignPolicyCmd) Run(ctx context.Context, s *session) error {
	return s.with(ctx, func(db *database) error {
		campaign, err := db.FindCampaign(ctx, c.Name)
		if err != nil {
			return err
		}
		p := policyOf(campaign, engine.Policy{}, c.UnknownWindow)
		if c.JSON {
			return printJSON(s.std.out, p)
		}
		return p.print(s.std.out)
	})
}

// policyView is a campaign's effective policy for scripts: its fields are a
// promise.
type policyView struct {
	Campaign      string        `json:"campaign"`
	MaxAttempts   int           `json:"max_attempts"`
	Jitter        string        `json:"jitter"`
	BaseSeconds   float64       `json:"base_seconds"`
	CapSeconds    float64       `json:"cap_seconds"`
	Waits         []waitView    `json:"waits"`
	OnUnknown     string        `json:"on_unknown"`
	WindowSeconds float64       `json:"unknown_window_seconds"`
	ExpireAt      string        `json:"expire_at,omitempty"`
	AbsentDays    int           `json:"absent_days"`
	CapMessages   int           `json:"cap_messages,omitempty"`
	CapDays       int           `json:"cap_days,omitempty"`
	Fallback      *fallbackView `json:"fallback,omitempty"`
	Answers       []answerView  `json:"answers"`
}

// waitView is the least and the most that a recipient waits after an attempt,
// beyond what the platform asks for.
type waitView struct {
	Attempt      int     `json:"attempt"`
	LeastSeconds float64 `json:"least_seconds"`
	MostSeconds  float64 `json:"most_seconds"`
}

type answerView struct {
	Answer string `json:"answer"`
	Does   string `json:"does"`
}

func policyOf(c store.Campaign, p engine.Policy, window time.Duration) policyView {
	p = p.WithDefaults()
	v := policyView{
		Campaign: c.Name, MaxAttempts: c.MaxAttempts, Jitter: string(c.Jitter), BaseSeconds: p.Base.Seconds(), CapSeconds: p.Cap.Seconds(),
		OnUnknown: string(c.OnUnknown), WindowSeconds: window.Seconds(), ExpireAt: stamp(c.ExpireAt), Answers: answersOf(p),
		Fallback: fallbackOf(c),
	}
	if c.Template.Category == engine.Marketing {
		v.AbsentDays, v.CapMessages, v.CapDays = c.AbsentDays, c.Cap, c.CapDays
	}
	for attempt := 1; attempt < c.MaxAttempts; attempt++ {
		least, most := p.Waits(c.Jitter, attempt)
		v.Waits = append(v.Waits, waitView{attempt, least.Seconds(), most.Seconds()})
	}
	return v
}

// answersOf says what every action does, in the order in which an operator
// meets them.
func answersOf(p engine.Policy) []answerView {
	b := engine.BreakerPolicy{}.WithDefaults()
	return []answerView{
		{"accepted", "the recipient is accepted, or held while Meta assesses the template's quality; status webhooks move it on"},
		{"throttled", fmt.Sprintf("the number (its account, its app) pauses for up to %v, doubling to %v while it goes on; then it goes on at nine tenths of what was accepted and climbs back; the recipient goes back, nothing is spent", p.PauseBase, p.PauseCap)},
		{"later", "this recipient waits as above, after what Meta asked for; an attempt is spent, unless this pair of number and person was throttled"},
		{"enough marketing", "Meta's cap for this person: no campaign of the account sends them marketing for a day, then this one tries once more; else dead, or failed by webhook"},
		{"refused", fmt.Sprintf("this recipient is failed, with Meta's code; %d answers in a row that look like the campaign's fault (parameters, media, country) stop the campaign, and who was under way then waits", p.Suspects)},
		{"template cannot be sent", "every running campaign that sends it from this account stops until you mend it and resume them, or pauses for ten minutes where it is still syncing; nothing is spent"},
		{"number cannot send", "the number (its account, its app) stops until you mend it and enable it again; nothing is spent"},
		{"fails after acceptance", fmt.Sprintf("as the code says, by its status webhook; %d messages in a row, or %d that look like the campaign's fault, with none that went through meanwhile stop the campaign", engine.FailedInRow, p.Suspects)},
		{"no answer", "unknown: a call was made and nobody knows what came of it; never sent again blindly"},
		{"no call made", "the recipient goes back as if nothing had been tried"},
		{"platform in trouble", fmt.Sprintf("after %d such answers in a row the breaker opens: nothing goes out but one probe after %v, then after twice as long each time, up to %v; nothing is spent meanwhile", b.Failures, b.Base, b.Cap)},
	}
}

func (v policyView) print(w io.Writer) error {
	lines := []string{
		"campaign   " + v.Campaign,
		fmt.Sprintf("attempts   %d at most, then dead (%s)", v.MaxAttempts, engine.ReasonAttempts),
		"waits      " + v.waits(),
		"unknown    " + v.unknown(),
	}
	if v.ExpireAt == "" {
		lines = append(lines, "expires    never")
	} else {
		lines = append(lines, "expires    at "+v.ExpireAt+": whoever waits then is not sent to")
	}
	lines = append(lines, "left out   "+v.leavesOut())
	if v.Fallback != nil {
		lines = append(lines, "fallback   "+v.Fallback.words())
	}
	for _, a := range v.Answers {
		lines = append(lines, fmt.Sprintf("%-23s  %s", a.Answer, a.Does))
	}
	if _, err := io.WriteString(w, strings.Join(lines, "\n")+"\n"); err != nil {
		return fmt.Errorf("print policy: %w", err)
	}
	return nil
}

// shownWaits is how many waits people are shown; scripts get all.
const shownWaits = 6

func (v policyView) waits() string {
	if len(v.Waits) == 0 {
		return "none: there is no second attempt"
	}
	var each []string
	for _, w := range v.Waits[:min(len(v.Waits), shownWaits)] {
		each = append(each, fmt.Sprintf("%v–%v", seconds(w.LeastSeconds), seconds(w.MostSeconds)))
	}
	if len(v.Waits) > shownWaits {
		each = append(each, "…")
	}
	return fmt.Sprintf("%s jitter, never over %v: %s", v.Jitter, seconds(v.CapSeconds), strings.Join(each, ", "))
}

func (v policyView) leavesOut() string {
	words := "who has opted out"
	if v.AbsentDays > 0 {
		words += fmt.Sprintf("; who was not on WhatsApp in the last %d days", v.AbsentDays)
	}
	if v.CapMessages > 0 {
		words += fmt.Sprintf("; who has had %d marketing messages in %d days", v.CapMessages, v.CapDays)
	}
	return words
}

func (v policyView) unknown() string {
	after := fmt.Sprintf(" after %v of healthy webhook time without word of it", seconds(v.WindowSeconds))
	switch engine.OnUnknown(v.OnUnknown) {
	case engine.UnknownResends:
		return "resend" + after + ": it may arrive twice"
	case engine.UnknownHolds:
		return "hold: waits for a webhook or for you, however long"
	default:
		return "fail: dead (unknown_outcome)" + after
	}
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

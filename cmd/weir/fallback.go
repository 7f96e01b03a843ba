package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weirhq/weir/internal/store"
)

// fallbacks are the flags of a campaign's fallback numbers.
type fallbacks struct {
	FallbackNumber []string      `placeholder:"ID" help:"Numbers that stand in when none of the others has been able to send for a while."`
	FallbackWait   time.Duration `placeholder:"DURATION" help:"How long that is, from 1s to 24h. Default: 60s."`
	FallbackAfter  int           `placeholder:"N" help:"Also let fallback numbers try whom N attempts did not reach."`
}

// check finds what makes no sense together, whatever the database holds.
func (f fallbacks) check(primaries []string) error {
	for _, id := range f.FallbackNumber {
		if slices.Contains(primaries, id) {
			return usagef("number %s is named by --number and by --fallback-number: a fallback number must be another than those it stands in for", id)
		}
	}
	if len(f.FallbackNumber) == 0 && (f.FallbackWait != 0 || f.FallbackAfter != 0) {
		return usagef("--fallback-wait and --fallback-after need a --fallback-number to wait and to try")
	}
	return nil
}

// join adds them to a campaign.
func (f fallbacks) join(spec *store.CampaignSpec) {
	for _, id := range f.FallbackNumber {
		spec.Numbers = append(spec.Numbers, store.CampaignNumber{ID: id, Fallback: true})
	}
	spec.Fallback = store.Fallback{Wait: f.FallbackWait, After: f.FallbackAfter}
}

// senders are a campaign's primary numbers, or its fallback numbers, by id.
func senders(c store.CampaignSpec, fallback bool) (ids []string) {
	for _, n := range c.Numbers {
		if n.Fallback == fallback {
			ids = append(ids, n.ID)
		}
	}
	slices.Sort(ids)
	return ids
}

// fallbackView is a campaign's fallback numbers for scripts.
type fallbackView struct {
	Numbers     []string `json:"numbers"`
	WaitSeconds float64  `json:"wait_seconds"`
	After       int      `json:"after_attempts,omitempty"`
	StandsIn    *bool    `json:"stands_in,omitempty"` // now
	Why         string   `json:"why,omitempty"`       // which primaries are away, and why
}

// fallbackOf is nil for a campaign without fallback numbers.
func fallbackOf(c store.Campaign) *fallbackView {
	ids := senders(c.CampaignSpec, true)
	if len(ids) == 0 {
		return nil
	}
	return &fallbackView{Numbers: ids, WaitSeconds: c.Fallback.Wait.Seconds(), After: c.Fallback.After}
}

// words say when the fallback numbers send.
func (v fallbackView) words() string {
	words := fmt.Sprintf("%s once no primary has been able to send for %v, until one is", strings.Join(v.Numbers, ", "), seconds(v.WaitSeconds))
	if v.After > 0 {
		words += fmt.Sprintf("; and in any case whom %d attempts did not reach", v.After)
	}
	return words
}

// standsIn reports whether the fallback numbers send for the primaries.
func (p *progress) standsIn() bool {
	return p.campaign.State == store.Running && slices.ContainsFunc(p.paces, func(n store.NumberPace) bool { return n.StandsIn })
}

// primariesAway says which primaries cannot send, and why.
func (p *progress) primariesAway() string {
	var away []string
	for _, n := range p.paces {
		if !n.Fallback && n.Away > 0 {
			away = append(away, fmt.Sprintf("%s %s, for %v", n.ID, n.Why, n.Away.Round(time.Second)))
		}
	}
	return strings.Join(away, "; ")
}

// part is the part that a number has, in a campaign with fallback numbers.
func (p *progress) part(n store.NumberPace) string {
	switch {
	case n.Fallback && p.campaign.State != store.Running:
		return "  fallback"
	case n.StandsIn:
		return "  fallback: stands in, because " + p.primariesAway()
	case n.Fallback && p.campaign.Fallback.After > 0:
		return fmt.Sprintf("  fallback: stands by, and tries whom %d attempts did not reach", p.campaign.Fallback.After)
	case n.Fallback:
		return "  fallback: stands by"
	case n.Away > 0 && n.Enabled && n.Paused == 0:
		return "  " + n.Why + " for " + n.Away.Round(time.Second).String()
	default:
		return ""
	}
}

// needed reports whether a number has anything to send of the campaign.
func (p *progress) needed(n store.NumberPace) bool {
	return !n.Fallback || n.StandsIn || p.campaign.Fallback.After > 0
}

// standsBy says what a fallback number waits for.
func standsBy(n store.Sender) string {
	words := fmt.Sprintf("fallback number %s stands by: it takes over once no primary has been able to send for %v", n.ID, n.Wait)
	if n.Floor > 0 {
		words += fmt.Sprintf(", and tries whom %d attempts did not reach", n.Floor)
	}
	return words
}

// senderWords names the number that a recipient has been sent from.
func senderWords(r store.PersonRow) string {
	if slices.ContainsFunc(r.Senders, func(n store.Sender) bool { return n.ID == r.Number && n.Fallback }) {
		return "fallback number " + r.Number
	}
	return "number " + r.Number
}

package main

import (
	"slices"
	"strings"
	"time"

	"github.com/weirhq/weir/engine"
	"github.com/weirhq/weir/internal/store"
)

// waits says why nobody who waits in a running campaign is claimed now, in the
// words that weir explain has for one of them; nothing when somebody can be. A
// stop of everything and a database nobody vouches for are told apart from it.
func (p *progress) waits() []string {
	if !p.anybody() {
		return nil
	}
	c := p.campaign
	row := store.PersonRow{State: c.State, StateReason: c.Reason, StartAt: c.StartAt, ExpireAt: c.ExpireAt}
	if c.Paused > 0 {
		row.PausedUntil = p.asked.Add(c.Paused)
	}
	why := campaignHolds(row, p.asked)
	if p.shut() {
		for _, line := range closedLines(p.zones) {
			why = append(why, strings.Join(strings.Fields(line), " "))
		}
	}
	return append(why, p.sendersWait()...)
}

// anybody reports whether the campaign runs and somebody waits to be sent to.
func (p *progress) anybody() bool {
	return p.campaign.State == store.Running && p.counts[engine.Pending] > 0
}

// sendersWait is the part of waits that is the numbers'.
func (p *progress) sendersWait() []string {
	if !p.anybody() {
		return nil
	}
	row := store.PersonRow{Senders: p.senders}
	if p.shut() {
		row.Senders = asOwned(row.Senders)
	}
	_, held := sendersHold(row, p.asked)
	return held
}

// eta is how long the rest takes at the configured rate of the numbers that can
// send; 0 when nothing can go.
func (p *progress) eta() time.Duration {
	if !p.anybody() || p.stop.Stands() || !p.confirmed || len(p.waits()) > 0 {
		return 0
	}
	var rate float64
	for _, n := range p.paces {
		if p.sends(n.ID) {
			rate += n.Rate()
		}
	}
	if rate <= 0 {
		return 0
	}
	left := p.counts[engine.Pending] + p.counts[engine.Sending]
	return time.Duration(float64(left) / rate * float64(time.Second)).Round(time.Second)
}

// sends reports whether a number can send, or only pauses: a pause for a throttle
// lasts for seconds, and the time left would jump with each.
func (p *progress) sends(id string) bool {
	i := slices.IndexFunc(p.senders, func(n store.Sender) bool { return n.ID == id })
	if i < 0 {
		return false
	}
	n := p.senders[i]
	n.PausedUntil = time.Time{}
	return senderHolds(n, 0, p.asked) == ""
}

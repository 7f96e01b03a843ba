package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weirhq/weir/engine"
	"github.com/weirhq/weir/internal/store"
)

// paceWindow is how far back a number's pace is measured.
const paceWindow = 5 * time.Second

// progress is one look at a campaign.
type progress struct {
	campaign store.Campaign
	counts   map[engine.Status]int
	errors   []store.CodeCount
	leftOut  map[string]int64  // the suppressed, by reason
	zones    []store.ZoneGroup // of a campaign with a window: who waits where
	doubled  int64             // messages accepted beside the one that a recipient shows
	paces    []store.NumberPace
	rates    []float64 // of paces, messages per second; nil on a first look
	at       time.Time
	senders  []store.Sender // the campaign's numbers, and what holds each back
	asked    time.Time      // the database's, of senders

	confirmed bool // the database: on another than the operator's nothing moves
	stop      store.Stop
}

// errorsEvery is how often errors are counted, unless that takes long: at
// millions of failures it is work, and they do not change the picture from one
// second to the next. It may take up errorsShare of the time.
const (
	errorsEvery = 10 * time.Second
	errorsShare = 0.02
)

// looker looks at a campaign again and again.
type looker struct {
	store  *store.Store
	errors []store.CodeCount
	left   map[string]int64
	zones  []store.ZoneGroup
	due    time.Time   // when errors are counted again
	past   []*progress // the looks of the last paceWindow
}

func (l *looker) at(ctx context.Context, c store.Campaign) (*progress, error) {
	p := &progress{campaign: c, at: time.Now()}
	var err error
	if p.counts, err = l.store.Counts(ctx, c.ID); err != nil {
		return nil, err
	}
	if !moving(c.State) || !p.at.Before(l.due) {
		if l.errors, err = l.store.ErrorsByCode(ctx, c.ID); err != nil {
			return nil, err
		}
		if l.left, err = l.store.SuppressedByReason(ctx, c.ID); err != nil {
			return nil, err
		}
		if l.zones, err = l.store.ZoneGroups(ctx, c.ID); err != nil {
			return nil, err
		}
		l.due = countAgain(p.at, time.Now())
	}
	p.errors, p.leftOut, p.zones = l.errors, l.left, l.zones
	if p.doubled, err = l.store.Duplicates(ctx, c.ID); err != nil {
		return nil, err
	}
	if p.paces, err = l.store.Pace(ctx, c.ID); err != nil {
		return nil, err
	}
	if p.senders, p.asked, err = l.store.Senders(ctx, c.ID); err != nil {
		return nil, err
	}
	if p.confirmed, err = l.store.Confirmed(ctx); err != nil {
		return nil, err
	}
	if p.stop, err = l.store.Stopped(ctx); err != nil {
		return nil, err
	}
	for len(l.past) > 1 && p.at.Sub(l.past[0].at) > paceWindow {
		l.past = l.past[1:]
	}
	if len(l.past) > 0 {
		p.rates = p.since(l.past[0])
	}
	l.past = append(l.past, p)
	return p, nil
}

// countAgain is when errors are counted again that were counted from start to end.
func countAgain(start, end time.Time) time.Time {
	took := float64(end.Sub(start))
	return start.Add(max(errorsEvery, time.Duration(took/errorsShare)))
}

// since is what each number's calls have brought in per second since another
// look.
func (p *progress) since(before *progress) []float64 {
	rates := make([]float64, len(p.paces))
	for i, n := range p.paces {
		if i < len(before.paces) && before.paces[i].ID == n.ID {
			rates[i] = float64(n.Accepted-before.paces[i].Accepted) / p.at.Sub(before.at).Seconds()
		}
	}
	return rates
}

func (p *progress) total() int64 { return p.campaign.Import.Accepted }

// givenUp are the ends of those that a campaign never came to.
var givenUp = [...]engine.Status{engine.Canceled, engine.Expired}

// done are the recipients that the campaign has come to and that need nothing
// more from us.
func (p *progress) done() (n int64) {
	for s, count := range p.counts {
		if s.Settled() && !slices.Contains(givenUp[:], s) {
			n += int64(count)
		}
	}
	return n
}

// view shows the look to scripts.
func (p *progress) view() campaignView {
	v := viewOf(p.campaign, p.counts)
	v.Zones = viewOfZones(p.zones)
	v.Duplicates, v.DatabaseConfirmed, v.Suppressed = &p.doubled, &p.confirmed, p.leftOut
	v.EverythingStopped, v.Waits = p.stop.Stands(), p.waits()
	if v.Fallback != nil {
		stands := p.standsIn()
		v.Fallback.StandsIn, v.Fallback.Why = &stands, p.primariesAway()
	}
	return v
}

// lines shows the look to people.
func (p *progress) lines(now time.Time) []string {
	c := p.campaign
	lines := []string{headline(c, now)}
	if words := stopWords(p.stop); words != "" && !c.State.Over() {
		lines = append(lines, words)
	}
	if stands := campaignStands(c); stands != "" {
		lines = append(lines, stands)
	}
	if said := templateSaid(c); said != "" {
		lines = append(lines, "template   "+said)
	}
	if c.Window != nil {
		lines = append(lines, "window     "+windowWords(c.Window))
		lines = append(lines, closedLines(p.zones)...)
	}
	if p.held() {
		lines = append(lines, "stopped:   "+notConfirmed)
	}
	held := p.sendersWait()
	for _, why := range held {
		lines = append(lines, "waits      "+why)
	}
	lines = append(lines, p.bar())
	lines = append(lines, p.statuses())
	for i := range p.paces {
		lines = append(lines, p.pace(i, len(held) > 0))
	}
	if n := p.counts[engine.Unknown]; n > 0 {
		lines = append(lines, fmt.Sprintf("unknown    %s wait for their status webhooks; those never heard of end by --on-unknown %s", group(int64(n)), c.OnUnknown))
	}
	if len(p.leftOut) > 0 {
		lines = append(lines, "left out   "+leftOut(p.leftOut))
	}
	if p.doubled > 0 {
		lines = append(lines, fmt.Sprintf("duplicates %s messages went out beside the one that a recipient shows: campaign export says whose", group(p.doubled)))
	}
	return append(lines, p.errorLines()...)
}

// headline is what a campaign does, and since when.
func headline(c store.Campaign, now time.Time) string {
	head := fmt.Sprintf("campaign %s (id %d)  %s", c.Name, c.ID, c.State)
	switch {
	case c.State == store.Scheduled:
		head += " for " + stamp(c.StartAt)
	case c.State == store.Running && !c.StartedAt.IsZero():
		head += " for " + now.Sub(c.StartedAt).Round(time.Second).String()
	case c.State == store.Pausing || c.State == store.Canceling && c.ConfirmedAt.IsZero():
		head += " for " + now.Sub(c.ControlAt).Round(100*time.Millisecond).String() + ": nothing more is claimed; what is on its way is waited for"
	case c.State == store.Canceling:
		head += ": nothing more is sent; the last outcomes are waited for"
	case c.State == store.Paused && !c.ConfirmedAt.IsZero():
		head += " since " + stamp(c.ConfirmedAt) + ", " + took(c) + " after it was asked for"
	case c.State == store.Canceled:
		head += " at " + stamp(c.FinishedAt)
	case c.State == store.Finished:
		head += " at " + stamp(c.FinishedAt) + " after " + c.FinishedAt.Sub(c.StartedAt).Round(time.Second).String()
	}
	return head
}

// templateSaid is Meta's last word on the template by webhook. One that came
// after a campaign was stopped and lets it be sent again is what to resume for.
func templateSaid(c store.Campaign) string {
	t := c.TemplateSaid
	if t.Word == "" {
		return ""
	}
	said := "Meta says " + t.Word + " since " + stamp(t.At)
	if t.Go && !t.At.Before(c.ControlAt.Truncate(time.Second)) && (c.State == store.Pausing || c.State == store.Paused) {
		said += fmt.Sprintf(": it may be sent again, weir campaign resume %d", c.ID)
	}
	return said
}

const notConfirmed = "the database is not the one that was vouched for, and nothing is sent: weir database status"

// held says that it is the database's identity that holds the campaign up.
func (p *progress) held() bool { return !p.confirmed && moving(p.campaign.State) }

func (p *progress) bar() string {
	const width = 30
	done, share := p.done(), 0.0
	if p.total() > 0 {
		share = float64(done) / float64(p.total())
	}
	full := int(share * width)
	line := fmt.Sprintf("progress   %s%s %5.1f %%  %s of %s", strings.Repeat("█", full), strings.Repeat("░", width-full), share*100, group(done), group(p.total()))
	for _, s := range givenUp {
		if n := p.counts[s]; n > 0 {
			line += fmt.Sprintf("  %s %s: not sent to", group(int64(n)), s)
		}
	}
	if eta := p.eta(); eta > 0 {
		line += "  " + eta.String() + " left at the configured rate"
	}
	return line
}

func (p *progress) statuses() string {
	return statusLine(func(s engine.Status) int64 { return int64(p.counts[s]) })
}

// statusLine is how many recipients have come how far.
func statusLine(count func(engine.Status) int64) string {
	var parts []string
	for _, s := range engine.Statuses() {
		if n := count(s); n != 0 {
			parts = append(parts, s.String()+" "+group(n))
		}
	}
	return "statuses   " + strings.Join(parts, " · ")
}

// pace is a number's line; said: a line above it has what holds all of them up.
func (p *progress) pace(i int, said bool) string {
	n := p.paces[i]
	line := fmt.Sprintf("number     %s  %.4g per second configured", n.ID, n.Rate())
	if p.campaign.State == store.Running && p.rates != nil {
		line = fmt.Sprintf("number     %s  %.1f of %.4g per second", n.ID, p.rates[i], n.Rate())
	}
	line += p.part(n)
	switch {
	case said:
	case !n.Enabled:
		line += "  stopped: " + n.StopReason + " (then " + enableNumber(n.ID) + ")"
	case n.Paused > 0:
		line += "  paused for " + n.Paused.Round(time.Second).String()
	case p.campaign.State == store.Running && !n.Owned && p.needed(n) && !p.shut():
		line += "  no node owns it: is weir serve running? (a restart after a kill waits about 14 s)"
	}
	return line
}

func (p *progress) errorLines() (lines []string) {
	for _, e := range p.errors {
		line := fmt.Sprintf("answers    %d  %s × %s", e.Code, group(e.Attempts), e.Title)
		if e.Code == 0 {
			line = fmt.Sprintf("error      %s × %s", group(e.Attempts), e.Title)
		}
		if advice := adviceOn(e.Code, e.Title); advice != "" {
			line += ": " + advice
		}
		lines = append(lines, line)
	}
	return lines
}

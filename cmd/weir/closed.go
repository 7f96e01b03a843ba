package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weirhq/weir/internal/store"
)

// closedMost is how many openings a status tells of.
const closedMost = 5

// closedLines say who waits for which opening, the next one first.
func closedLines(groups []store.ZoneGroup) (lines []string) {
	at := map[time.Time][]store.ZoneGroup{}
	for _, g := range groups {
		if !g.Open && g.Waiting > 0 {
			at[g.Opens.UTC()] = append(at[g.Opens.UTC()], g)
		}
	}
	openings := make([]time.Time, 0, len(at))
	for opens := range at {
		openings = append(openings, opens)
	}
	slices.SortFunc(openings, time.Time.Compare)
	for i, opens := range openings {
		waiting, zones := together(at[opens])
		switch {
		case i == closedMost:
			lines = append(lines, "closed     and later for others: --json names all")
			return lines
		case opens.IsZero():
			lines = append(lines, fmt.Sprintf("closed     for %s waiting in %s: no opening is known. Weir looks a month ahead; if there should be one, is weir serve running?", group(waiting), zones))
		default:
			lines = append(lines, fmt.Sprintf("closed     until %s for %s waiting in %s", stamp(opens), group(waiting), zones))
		}
	}
	return lines
}

// sayClosed says for whom a campaign that was just started is closed now.
func (s *session) sayClosed(ctx context.Context, db *database, c store.Campaign) error {
	if c.Window == nil {
		return nil
	}
	if err := db.RefreshWindows(ctx); err != nil {
		return err
	}
	groups, err := db.ZoneGroups(ctx, c.ID)
	if err != nil {
		return err
	}
	for _, line := range closedLines(groups) {
		_, _ = fmt.Fprintln(s.std.err, line)
	}
	return nil
}

// together counts who waits in some groups, and names a few of their zones.
func together(groups []store.ZoneGroup) (waiting int64, zones string) {
	var names []string
	for _, g := range groups {
		waiting += g.Waiting
		names = append(names, zoneName(g.TZ))
	}
	const some = 3
	if len(names) > some {
		return waiting, strings.Join(names[:some], ", ") + fmt.Sprintf(" and %d more", len(names)-some)
	}
	return waiting, strings.Join(names, ", ")
}

// zoneName shortens the list of those that a number may be in.
func zoneName(tz string) string {
	names := strings.Split(tz, ",")
	if len(names) > 2 {
		return fmt.Sprintf("%s (or %d others)", names[0], len(names)-1)
	}
	return strings.Join(names, " or ")
}

// shut reports whether a campaign has a window that is open for nobody who waits.
func (p *progress) shut() bool {
	return len(p.zones) > 0 && !slices.ContainsFunc(p.zones, func(g store.ZoneGroup) bool { return g.Open && g.Waiting > 0 })
}

// windowView is a campaign's window for scripts.
type windowView struct {
	From     string   `json:"from"` // local time, as 09:00
	To       string   `json:"to"`
	Days     []string `json:"days"`
	TZ       string   `json:"tz"` // recipient, column:NAME or a zone
	Holidays []string `json:"holidays,omitempty"`
}

// zoneView is who waits in the same time zones.
type zoneView struct {
	Zones    []string `json:"zones"` // open while it is in all of them
	Waiting  int64    `json:"waiting"`
	Open     bool     `json:"open"`
	OpensAt  string   `json:"opens_at,omitempty"` // since when, or when next; missing: no opening is known
	ClosesAt string   `json:"closes_at,omitempty"`
}

func viewOfWindow(w *store.SendWindow) *windowView {
	if w == nil {
		return nil
	}
	return &windowView{
		From: clockOf(w.From), To: clockOf(w.To), Days: strings.Split(daysWords(w.Days), ", "), TZ: w.TZ, Holidays: w.Holidays,
	}
}

func viewOfZones(groups []store.ZoneGroup) (views []zoneView) {
	for _, g := range groups {
		views = append(views, zoneView{
			Zones: strings.Split(g.TZ, ","), Waiting: g.Waiting, Open: g.Open, OpensAt: stamp(g.Opens), ClosesAt: stamp(g.Closes),
		})
	}
	return views
}

package engine

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Window is when a campaign may be sent, by the wall clock of a zone: from a
// minute of the day to another, on some days of the week, and never on a holiday.
// Its zero value is never open.
type Window struct {
	From     int      `json:"from"` // minutes of the local day: open from here on
	To       int      `json:"to"`   // closed from here on; 0 ≤ From < To ≤ 1440
	Days     Days     `json:"days"`
	Holidays []string `json:"holidays,omitempty"` // local dates, as 2026-12-25, in order
}

// Days is a set of days of the week.
type Days uint8

// EveryDay is all seven.
const EveryDay Days = 1<<7 - 1

// With is the set and a day.
func (d Days) With(day time.Weekday) Days { return d | 1<<day }

// Has reports whether a day is in the set.
func (d Days) Has(day time.Weekday) bool { return d&(1<<day) != 0 }

// Check says what is wrong with a window, if anything.
func (w Window) Check() error {
	switch {
	case w.From < 0 || w.To > minutesOfDay || w.From >= w.To:
		return fmt.Errorf("a window opens before it closes, on one day: from 00:00 to 24:00 at most")
	case w.Days&EveryDay == 0:
		return fmt.Errorf("a window needs a day of the week on which it opens")
	}
	for _, day := range w.Holidays {
		if _, err := time.Parse(time.DateOnly, day); err != nil {
			return fmt.Errorf("%q is no date: write a holiday as 2026-12-25", day)
		}
	}
	if !slices.IsSorted(w.Holidays) {
		return fmt.Errorf("the holidays are not in order")
	}
	return nil
}

const (
	minutesOfDay = 24 * 60

	// An opening is looked for this far ahead. One that is further away is found
	// when it has come nearer.
	windowAhead = 31 * 24 * time.Hour
	// An interval ends within this of the day that it is asked on, or that it
	// begins on, however long the window stays open: whoever keeps the intervals
	// must be alive.
	windowLongest = 48 * time.Hour
)

// Open is the interval in which the window is open in all of the zones: the one
// that holds now, or the next one. It is open from opens on, and closed from
// closes on. Both are whole where the clocks are: in an hour that a zone leaves
// out nothing opens, and one that it repeats counts twice. An interval that began
// before the UTC day before now's is told from there, one that lasts longer than
// two UTC days is told in parts; so that whoever asks twice on one day is
// answered alike. ok is false when nothing opens within 31 days, or there is no
// zone.
func (w Window) Open(zones []*time.Location, now time.Time) (opens, closes time.Time, ok bool) {
	const day = 24 * time.Hour
	t := now.UTC().Truncate(day).Add(-day)
	for end := now.Add(windowAhead); t.Before(end); {
		open, until := w.at(zones, t)
		if !open {
			t = until
			continue
		}
		opens = t
		last := later(now, opens).UTC().Truncate(day).Add(windowLongest)
		for ; open && t.Before(last); open, until = w.at(zones, t) {
			t = until
		}
		if closes = t; closes.After(last) {
			closes = last
		}
		if closes.After(now) {
			return opens, closes, true
		}
	}
	return time.Time{}, time.Time{}, false
}

// at reports whether all zones are open at t, and until when at least that stays
// so.
func (w Window) at(zones []*time.Location, t time.Time) (open bool, until time.Time) {
	open = len(zones) > 0
	until = t.Add(windowAhead)
	for _, zone := range zones {
		o, u := w.in(zone, t)
		switch {
		case open && !o: // the first that is closed
			open, until = false, u
		case open && u.Before(until), !open && !o && u.After(until):
			until = u
		}
	}
	return open, until
}

// in is the same for one zone. Between two changes of its offset the wall clock
// runs as any other does, so that the next boundary is a subtraction away.
func (w Window) in(zone *time.Location, t time.Time) (open bool, until time.Time) {
	local := t.In(zone)
	hour, minute, second := local.Clock()
	since := time.Duration(hour)*time.Hour + time.Duration(minute)*time.Minute + time.Duration(second)*time.Second +
		time.Duration(local.Nanosecond())
	from, to := time.Duration(w.From)*time.Minute, time.Duration(w.To)*time.Minute
	next := 24 * time.Hour
	if w.Days.Has(local.Weekday()) && !w.holiday(local) {
		switch open = from <= since && since < to; {
		case open:
			next = to
		case since < from:
			next = from
		}
	}
	until = t.Add(next - since)
	if _, change := local.ZoneBounds(); !change.IsZero() && change.Before(until) {
		until = change
	}
	return open, until.In(time.UTC)
}

func (w Window) holiday(local time.Time) bool {
	if len(w.Holidays) == 0 {
		return false
	}
	_, found := slices.BinarySearch(w.Holidays, local.Format(time.DateOnly))
	return found
}

// Zones loads the zones of a comma-separated list of IANA names, such as
// America/Chicago,America/New_York. What this machine happens to call local is
// none.
func Zones(names string) ([]*time.Location, error) {
	var zones []*time.Location
	for name := range strings.SplitSeq(names, ",") {
		if area, _, ok := strings.Cut(name, "/"); name != "UTC" && (!ok || area == "posix" || area == "right") {
			return nil, fmt.Errorf("%q is no time zone: write its IANA name, for example America/Sao_Paulo", name)
		}
		zone, err := time.LoadLocation(name)
		if err != nil {
			return nil, fmt.Errorf("%q is no time zone: write its IANA name, for example America/Sao_Paulo", name)
		}
		zones = append(zones, zone)
	}
	return zones, nil
}

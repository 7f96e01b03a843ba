package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weirhq/weir/engine"
	"github.com/weirhq/weir/internal/audience"
	"github.com/weirhq/weir/internal/store"
)

// windowFlags are the hours at which a campaign may be sent.
type windowFlags struct {
	Window   string `placeholder:"HH:MM-HH:MM" help:"Send at these hours only, as 09:00-20:00; who is left waits for the next opening. none: at any time. Default: 08:00-21:00 for marketing, else none."`
	Days     string `placeholder:"DAYS" help:"With a window: on these days only, as mon-fri or mon,wed,fri-sun. Default: every day."`
	TZ       string `name:"tz" placeholder:"recipient|ZONE|column:NAME" help:"With a window: by whose clock. recipient (the default): the zones that the phone number may be in, all of them at once; a zone, as America/Sao_Paulo; or a column of the file that names each person's."`
	Holidays string `type:"existingfile" placeholder:"FILE" help:"With a window: not on these days either, one date a line, as 2026-12-25; what follows # is a remark."`
}

const (
	noWindow        = "none"
	marketingWindow = "08:00-21:00"
)

// of is the window of a campaign of a category; nil: none.
func (f windowFlags) of(category engine.Category) (*store.SendWindow, error) {
	w, err := f.read()
	switch {
	case err != nil || f.Window == noWindow:
		return nil, err
	case f.Window == "" && category != engine.Marketing && f.restricted():
		return nil, usagef("--days, --tz and --holidays say more about a window, and a campaign of category %s has none by itself: add --window 09:00-20:00", category)
	case f.Window == "" && category != engine.Marketing:
		return nil, nil
	}
	return w, nil
}

func (f windowFlags) restricted() bool { return f.Days != "" || f.TZ != "" || f.Holidays != "" }

// read understands the flags, whether or not they will be needed.
func (f windowFlags) read() (*store.SendWindow, error) {
	if f.Window == noWindow {
		if f.restricted() {
			return nil, usagef("--window none is at any time: leave out --days, --tz and --holidays, or write the hours, as --window 09:00-20:00")
		}
		return nil, nil
	}
	w := store.SendWindow{TZ: store.TZRecipient, Window: engine.Window{Days: engine.EveryDay}}
	if f.TZ != "" {
		w.TZ = f.TZ
	}
	hours := marketingWindow
	if f.Window != "" {
		hours = f.Window
	}
	var errs [3]error
	w.From, w.To, errs[0] = parseHours(hours)
	if f.Days != "" {
		w.Days, errs[1] = parseDays(f.Days)
	}
	if f.Holidays != "" {
		w.Holidays, errs[2] = readHolidays(f.Holidays)
	}
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	return &w, checkTZ(w)
}

func checkTZ(w store.SendWindow) error {
	if column, ok := strings.CutPrefix(w.TZ, store.TZColumn); ok && strings.TrimSpace(column) == "" {
		return usagef("--tz column: lacks the column's name, for example --tz column:timezone")
	}
	if w.PerRecipient() {
		return nil
	}
	if _, err := engine.Zones(w.TZ); err != nil {
		return usagef("--tz: %v; or recipient, or column:NAME", err)
	}
	return nil
}

// parseHours reads 09:00-20:00 into minutes of the day.
func parseHours(text string) (from, to int, err error) {
	begin, end, ok := strings.Cut(text, "-")
	from, okFrom := minuteOf(begin)
	to, okTo := minuteOf(end)
	switch {
	case !ok || !okFrom || !okTo:
		return 0, 0, usagef("--window %s: write the hours as 09:00-20:00, of 24; or none", text)
	case from >= to:
		return 0, 0, usagef("--window %s: a window opens before it closes, on one day: 00:00-24:00 is the longest", text)
	}
	return from, to, nil
}

func minuteOf(text string) (int, bool) {
	if text == "24:00" {
		return 24 * 60, true
	}
	at, err := time.Parse("15:04", text)
	return at.Hour()*60 + at.Minute(), err == nil
}

// clockOf writes a minute of the day as minuteOf reads it.
func clockOf(minute int) string { return fmt.Sprintf("%02d:%02d", minute/60, minute%60) }

var dayNames = [...]string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}

// parseDays reads mon-fri,sun; a range may go over the weekend.
func parseDays(text string) (days engine.Days, err error) {
	for part := range strings.SplitSeq(strings.ToLower(text), ",") {
		first, last, ranged := strings.Cut(part, "-")
		if !ranged {
			last = first
		}
		a, b := slices.Index(dayNames[:], first), slices.Index(dayNames[:], last)
		if a < 0 || b < 0 {
			return 0, usagef("--days %s: write days as mon-fri or mon,wed,sat", text)
		}
		for ; a != b; a = (a + 1) % 7 {
			days = days.With(time.Weekday(a))
		}
		days = days.With(time.Weekday(b))
	}
	return days, nil
}

// readHolidays reads one date a line.
func readHolidays(path string) ([]string, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open holidays: %w", err)
	}
	defer file.Close()
	var days []string
	lines := bufio.NewScanner(file)
	for n := 1; lines.Scan(); n++ {
		day, _, _ := strings.Cut(strings.TrimPrefix(lines.Text(), "\ufeff"), "#")
		if day = strings.TrimSpace(day); day == "" {
			continue
		}
		if _, err := time.Parse(time.DateOnly, day); err != nil {
			return nil, usagef("--holidays %s: line %d is no date: write one a line, as 2026-12-25", path, n)
		}
		days = append(days, day)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read holidays: %w", err)
	}
	slices.Sort(days)
	return slices.Compact(days), nil
}

// zoneSource is where an import finds the zones that a window asks for. Whether
// there is an hour for a person is asked of the day on which the campaign was made
// and without holidays, so that an import that goes on later judges alike.
func zoneSource(c store.Campaign) audience.ZoneSource {
	if c.Window == nil || !c.Window.PerRecipient() {
		return audience.ZoneSource{}
	}
	window := c.Window.Window
	window.Holidays = nil
	column, _ := strings.CutPrefix(c.Window.TZ, store.TZColumn)
	if c.Window.TZ == store.TZRecipient {
		column = ""
	}
	return audience.ZoneSource{Number: column == "", Column: column, Opens: func(names string) bool {
		zones, err := engine.Zones(names)
		if err != nil {
			return false
		}
		_, _, ok := window.Open(zones, c.CreatedAt)
		return ok
	}}
}

// printWindow says when the campaign will be sent, and whose idea that was.
func (f windowFlags) printWindow(w io.Writer, window *store.SendWindow) {
	if window == nil {
		return
	}
	words := "window: " + windowWords(window)
	if f.Window == "" {
		words += " (marketing's own: --window says another, --window none switches it off)"
	}
	_, _ = fmt.Fprintln(w, words)
}

// column is the file's column that --tz names, "" if none.
func (f windowFlags) column() string {
	column, ok := strings.CutPrefix(f.TZ, store.TZColumn)
	if !ok || f.Window == noWindow {
		return ""
	}
	return column
}

// windowWords say when a campaign may be sent.
func windowWords(w *store.SendWindow) string {
	words := clockOf(w.From) + "-" + clockOf(w.To)
	if w.Days != engine.EveryDay {
		words += " on " + daysWords(w.Days)
	}
	switch column, ok := strings.CutPrefix(w.TZ, store.TZColumn); {
	case ok:
		words += ", by the time zone in column " + column
	case w.TZ == store.TZRecipient:
		words += ", by the clock of each recipient's phone number"
	default:
		words += " in " + w.TZ
	}
	if n := len(w.Holidays); n > 0 {
		words += ", not on " + strconv.Itoa(n) + " holidays"
	}
	return words
}

func daysWords(days engine.Days) string {
	var names []string
	for i := range 7 {
		day := time.Weekday((i + 1) % 7)
		if days.Has(day) {
			names = append(names, dayNames[day])
		}
	}
	return strings.Join(names, ", ")
}

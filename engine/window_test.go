package engine

import (
	"os"
	"os/exec"
	"slices"
	"testing"
	"testing/synctest"
	"time"
	_ "time/tzdata" // the same zones on every machine

	"pgregory.net/rapid"
)

const weekdays = EveryDay &^ (1<<time.Saturday | 1<<time.Sunday)

func TestWindowOpens(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		zones    string
		from, to string
		days     Days
		holidays []string
		now      string
		want     []string // one interval after the other
	}{
		"open":                   {zones: "Europe/Berlin", from: "08:00", to: "21:00", now: "2026-01-12T12:00:00Z", want: []string{"2026-01-12T07:00:00Z", "2026-01-12T20:00:00Z", "2026-01-13T07:00:00Z", "2026-01-13T20:00:00Z"}},
		"opens now":              {zones: "Europe/Berlin", from: "08:00", to: "21:00", now: "2026-01-12T07:00:00Z", want: []string{"2026-01-12T07:00:00Z", "2026-01-12T20:00:00Z"}},
		"closes now":             {zones: "Europe/Berlin", from: "08:00", to: "21:00", now: "2026-01-12T20:00:00Z", want: []string{"2026-01-13T07:00:00Z", "2026-01-13T20:00:00Z"}},
		"a quarter off":          {zones: "Asia/Kathmandu", from: "09:00", to: "20:00", now: "2026-01-12T00:00:00Z", want: []string{"2026-01-12T03:15:00Z", "2026-01-12T14:15:00Z"}},
		"in both":                {zones: "America/Los_Angeles,America/New_York", from: "08:00", to: "21:00", now: "2026-01-12T12:00:00Z", want: []string{"2026-01-12T16:00:00Z", "2026-01-13T02:00:00Z"}},
		"never in both":          {zones: "Asia/Tokyo,America/Sao_Paulo", from: "09:00", to: "20:00", now: "2026-01-12T12:00:00Z"},
		"over the weekend":       {zones: "Europe/Berlin", from: "09:00", to: "17:00", days: weekdays, now: "2026-01-09T18:00:00Z", want: []string{"2026-01-12T08:00:00Z", "2026-01-12T16:00:00Z"}},
		"its Monday, not UTC's":  {zones: "Pacific/Auckland", from: "00:00", to: "24:00", days: 1 << time.Monday, now: "2026-01-10T00:00:00Z", want: []string{"2026-01-11T11:00:00Z", "2026-01-12T11:00:00Z"}},
		"holidays":               {zones: "Europe/Berlin", from: "09:00", to: "17:00", holidays: []string{"2026-01-12", "2026-01-13"}, now: "2026-01-11T18:00:00Z", want: []string{"2026-01-14T08:00:00Z", "2026-01-14T16:00:00Z"}},
		"a holiday of one place": {zones: "Asia/Tokyo", from: "00:00", to: "24:00", holidays: []string{"2026-01-12"}, now: "2026-01-11T16:00:00Z", want: []string{"2026-01-12T15:00:00Z", "2026-01-14T00:00:00Z"}},
		"the missing hour":       {zones: "Europe/Berlin", from: "02:30", to: "05:00", now: "2026-03-28T12:00:00Z", want: []string{"2026-03-29T01:00:00Z", "2026-03-29T03:00:00Z"}},
		"within the missing one": {zones: "Europe/Berlin", from: "02:15", to: "02:45", now: "2026-03-28T12:00:00Z", want: []string{"2026-03-30T00:15:00Z", "2026-03-30T00:45:00Z"}},
		"opens in a repeated one": {zones: "Europe/Berlin", from: "02:30", to: "04:00", now: "2026-10-24T12:00:00Z", want: []string{
			"2026-10-25T00:30:00Z", "2026-10-25T01:00:00Z", "2026-10-25T01:30:00Z", "2026-10-25T03:00:00Z",
		}},
		"closes in a repeated one": {zones: "Europe/Berlin", from: "01:00", to: "02:30", now: "2026-10-24T12:00:00Z", want: []string{
			"2026-10-24T23:00:00Z", "2026-10-25T00:30:00Z", "2026-10-25T01:00:00Z", "2026-10-25T01:30:00Z",
		}},
		"a repeated half hour": {zones: "Australia/Lord_Howe", from: "01:45", to: "03:00", now: "2026-04-04T12:00:00Z", want: []string{
			"2026-04-04T14:45:00Z", "2026-04-04T15:00:00Z", "2026-04-04T15:15:00Z", "2026-04-04T16:30:00Z",
		}},
		"always, told in parts": {zones: "UTC", from: "00:00", to: "24:00", now: "2026-01-12T12:00:00Z", want: []string{"2026-01-11T00:00:00Z", "2026-01-14T00:00:00Z"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := Window{From: minuteOf(t, tt.from), To: minuteOf(t, tt.to), Days: tt.days, Holidays: tt.holidays}
			if w.Days == 0 {
				w.Days = EveryDay
			}
			if err := w.Check(); err != nil {
				t.Fatal(err)
			}
			zones, err := Zones(tt.zones)
			if err != nil {
				t.Fatal(err)
			}
			now, err := time.Parse(time.RFC3339, tt.now)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for range max(1, len(tt.want)/2) {
				opens, closes, ok := w.Open(zones, now)
				if !ok {
					break
				}
				got, now = append(got, opens.Format(time.RFC3339), closes.Format(time.RFC3339)), closes
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("open %v, want %v", got, tt.want)
			}
		})
	}
}

func minuteOf(t *testing.T, clock string) int {
	t.Helper()
	if clock == "24:00" {
		return minutesOfDay
	}
	at, err := time.Parse("15:04", clock)
	if err != nil {
		t.Fatal(err)
	}
	return at.Hour()*60 + at.Minute()
}

// odd are zones whose clocks are no whole hour from UTC's, change by half an hour,
// change at midnight, or are ahead of the date line.
var odd = []string{
	"UTC", "Europe/Berlin", "America/New_York", "America/Sao_Paulo", "Asia/Kolkata", "Asia/Kathmandu", "Australia/Lord_Howe", "Australia/Adelaide",
	"Pacific/Chatham", "America/St_Johns", "America/Santiago", "Asia/Tehran", "Pacific/Apia", "Pacific/Kiritimati", "Africa/Cairo", "Africa/Casablanca",
}

// Whatever the window, the zones and the moment: an interval is open in every
// minute that the clocks on the walls say, and in no other.
func TestWindowAgreesWithTheClocks(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := Window{From: rapid.IntRange(0, minutesOfDay-1).Draw(t, "from"), Days: EveryDay}
		w.To = rapid.IntRange(w.From+1, minutesOfDay).Draw(t, "to")
		if rapid.Bool().Draw(t, "some days") {
			w.Days = Days(rapid.IntRange(1, int(EveryDay)).Draw(t, "days"))
		}
		zones := loaded(t, rapid.SliceOfN(rapid.SampledFrom(odd), 1, 3).Draw(t, "zones"))
		now := time.Unix(rapid.Int64Range(1_104_537_600, 2_051_222_400).Draw(t, "now"), 0) // 2005 to 2034
		if _, change := now.In(zones[0]).ZoneBounds(); !change.IsZero() && rapid.Bool().Draw(t, "near a change") {
			now = change.Add(time.Duration(rapid.IntRange(-2*minutesOfDay*60, 2*minutesOfDay*60).Draw(t, "off")) * time.Second)
		}
		for _, day := range rapid.SliceOfNDistinct(rapid.IntRange(-2, 5), 0, 4, rapid.ID).Draw(t, "holidays") {
			w.Holidays = append(w.Holidays, now.UTC().AddDate(0, 0, day).Format(time.DateOnly))
		}
		slices.Sort(w.Holidays)
		opens, closes, ok := w.Open(zones, now)
		wantOpens, wantCloses, wantOK := naive(w, zones, now)
		if ok != wantOK || !opens.Equal(wantOpens) || !closes.Equal(wantCloses) {
			t.Fatalf("open from %v to %v, %v; minute by minute from %v to %v, %v", opens, closes, ok, wantOpens, wantCloses, wantOK)
		}
		if again, _, _ := w.Open(zones, now.UTC().Truncate(24*time.Hour).Add(24*time.Hour-1)); ok && !opens.After(now) && closes.Sub(now) > 24*time.Hour && !again.Equal(opens) {
			t.Fatalf("asked later on that day it was open from %v, not from %v", again, opens)
		}
	})
}

func loaded(t *rapid.T, names []string) (zones []*time.Location) {
	for _, name := range names {
		zone, err := time.LoadLocation(name)
		if err != nil {
			t.Fatal(err)
		}
		zones = append(zones, zone)
	}
	return zones
}

// naive looks at every minute.
func naive(w Window, zones []*time.Location, now time.Time) (opens, closes time.Time, ok bool) {
	t := now.UTC().Truncate(24 * time.Hour).Add(-24 * time.Hour)
	for ; t.Before(now.Add(31*24*time.Hour)) || ok; t = t.Add(time.Minute) {
		switch open := shows(w, zones, t); {
		case open && !ok:
			opens, ok = t, true
		case ok && (!open || !t.Before(later(now, opens).UTC().Truncate(24*time.Hour).Add(48*time.Hour))):
			if t.After(now) {
				return opens, t, true
			}
			ok = false
		}
	}
	return time.Time{}, time.Time{}, false
}

// shows reads the clocks on the walls.
func shows(w Window, zones []*time.Location, t time.Time) bool {
	for _, zone := range zones {
		local := t.In(zone)
		minute := local.Hour()*60 + local.Minute()
		if minute < w.From || minute >= w.To || w.Days&(1<<local.Weekday()) == 0 || len(w.Holidays) > 0 && slices.Contains(w.Holidays, local.Format("2006-01-02")) {
			return false
		}
	}
	return true
}

// What a process calls local time is nobody's business.
func TestWindowUnderOtherLocalTimes(t *testing.T) {
	t.Parallel()
	for _, zone := range []string{"Asia/Karachi", "America/New_York", "Australia/Lord_Howe"} {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^(TestWindowOpens|TestWindowAgreesWithTheClocks)$", "-rapid.checks=20", "-rapid.nofailfile")
		cmd.Env = append(os.Environ(), "TZ="+zone)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("TZ=%s: %v\n%s", zone, err, out)
		}
	}
}

func TestZonesRefuseWhatIsNone(t *testing.T) {
	t.Parallel()
	for _, names := range []string{"", " ", "Local", "localtime", "EST5EDT", "posix/Europe/Berlin", "right/Europe/Berlin", "Europe/Nowhere", "../etc/passwd", "Europe/Berlin,", "Europe/Berlin, Europe/Paris", "Etc/Unknown"} {
		if zones, err := Zones(names); err == nil {
			t.Errorf("%q is taken for %v", names, zones)
		}
	}
	if zones, err := Zones("UTC,Asia/Calcutta"); err != nil || len(zones) != 2 {
		t.Errorf("%v, %v", zones, err)
	}
}

func TestWindowCheck(t *testing.T) {
	t.Parallel()
	good := Window{From: 0, To: 1440, Days: EveryDay, Holidays: []string{"2026-12-24", "2026-12-25"}}
	if err := good.Check(); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(*Window){
		"ends before it begins": func(w *Window) { w.From, w.To = 600, 600 },
		"before midnight":       func(w *Window) { w.From = -1 },
		"after midnight":        func(w *Window) { w.To = 1441 },
		"no day":                func(w *Window) { w.Days = 0 },
		"no such day":           func(w *Window) { w.Days = 1 << 7 },
		"no date":               func(w *Window) { w.Holidays = []string{"2026-02-30"} },
		"out of order":          func(w *Window) { w.Holidays = []string{"2026-12-25", "2026-12-24"} },
	} {
		w := good
		change(&w)
		if w.Check() == nil {
			t.Errorf("%s: not refused", name)
		}
	}
}

// Nothing is written once a window has closed: not by rows that were claimed
// before, nor by claims that took long, nor by dials that are slow. What was left
// over waits as if it had not been touched.
func TestNothingGoesOutOnceTheWindowHasClosed(t *testing.T) {
	t.Parallel()
	for name, claim := range map[string]time.Duration{"at once": time.Millisecond, "slow claims": 1200 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				store := newMemory(0, number(20, 0.2))
				store.slow = map[string]time.Duration{"claim": claim}
				c := store.campaign(1, 0, 1000)
				closes := time.Now().Add(20*time.Second + 700*time.Millisecond)
				c.closes = closes
				late, dial := 0, 600*time.Millisecond
				api := &ledger{latency: 100 * time.Millisecond}
				api.during = func(m Message) {
					var wait time.Duration
					store.change(func() { wait = time.Duration(m.Recipient%2) * dial }) // every other dial is slow
					time.Sleep(wait)
					written := m.Fence() == nil
					store.change(func() {
						if written && !time.Now().Before(closes) {
							late++
						}
					})
				}
				r := startLane(t, store, api)
				time.Sleep(time.Minute)
				sent := len(api.sends())
				if late > 0 || sent == 0 && claim < time.Second {
					t.Errorf("%d of %d calls were written after the window had closed", late, sent)
				}
				if n := store.counts(1); n[Pending] != 1000-sent {
					t.Errorf("%d were sent, and the others are %v", sent, n)
				}
				store.change(func() {
					closes = time.Now().Add(time.Hour)
					c.closes, dial, store.slow = closes, 0, nil
				})
				time.Sleep(10 * time.Minute)
				r.finish()
				if n := store.counts(1); n[Accepted] != 1000 || len(api.twice()) > 0 {
					t.Errorf("once it had opened again: %v, twice: %v", n, api.twice())
				}
			})
		})
	}
}

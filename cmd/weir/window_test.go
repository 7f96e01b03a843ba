package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirhq/weir/engine"
	"github.com/weirhq/weir/internal/sim"
	"github.com/weirhq/weir/internal/store"
)

// TestTheNightIsKept: of two groups of people it is day for one and night for
// the other. The first get their messages, the others none and the campaign waits;
// once it is day for them too they get theirs, and everybody has one.
func TestTheNightIsKept(t *testing.T) {
	t.Parallel()
	const each = 20
	s := newStage(t, sim.Options{Sent: sim.Spread{Base: 10 * time.Millisecond}, Delivered: sim.Spread{Base: 10 * time.Millisecond}})
	s.env = append(s.env, "TZ=Australia/Lord_Howe") // nobody's business
	s.weir("number", "add", scriptNumber, "--waba", "w", "--limit", "80", "--no-verify")
	day, night := noonAndMidnight(time.Now())
	var b strings.Builder
	b.WriteString("phone,first_name,order,tz\n")
	for i := range each {
		fmt.Fprintf(&b, "+49151%08d,Ana,A,%s\n+49152%08d,Bo,B,%s\n", 10_000_000+i, night, 10_000_000+i, day)
	}
	file := filepath.Join(s.dir, "people.csv")
	if err := os.WriteFile(file, []byte(b.String()+"+4915130000000,Cy,C,\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.says([]string{
		"campaign", "create", "c", "--template", "order_update", "--language", "en_US", "--number", scriptNumber, "--csv", file, "--no-verify",
		"--param", "body.1=first_name", "--param", "body.2=order", "--window", "06:00-18:00", "--tz", "column:tz", "--category", "utility", "--start",
	}, "window: 06:00-18:00, by the time zone in column tz", "1 of the rejected have no time zone that is known", fmt.Sprintf("for %d waiting in %s", each, night))
	s.serve()
	s.until("sent to whom it is day", 2*time.Minute, func(v campaignView) bool { return v.Counts["delivered"] == each && v.State == "running" })
	s.says([]string{"campaign", "status", "c"}, "window     06:00-18:00", "closed     until ", fmt.Sprintf("for %d waiting in %s", each, night))
	s.says([]string{"explain", "+4915110000000"}, "its window opens at ", "("+night+")")
	if v := s.status(); v.Window == nil || v.Window.TZ != "column:tz" || len(v.Zones) != 2 || v.Counts["pending"] != each {
		t.Errorf("status: %+v %+v %v", v.Window, v.Zones, v.Counts)
	}
	pool := s.pool()
	if _, err := pool.Exec(t.Context(), `UPDATE campaign_zones SET opens_at = now(), closes_at = now() + interval '2 days' WHERE tz = $1`, night); err != nil {
		t.Fatal(err)
	}
	s.until("finished", 2*time.Minute, func(v campaignView) bool { return v.State == "finished" })
	s.weir("campaign", "verify", "c")
	got := map[string]int{}
	for _, e := range s.platform.Ledger() {
		if e.WAMID != "" {
			got[e.To]++
		}
	}
	for person, n := range got {
		if n != 1 {
			t.Errorf("%s got %d messages", person, n)
		}
	}
	if len(got) != 2*each {
		t.Errorf("%d people got theirs, want %d", len(got), 2*each)
	}
}

// noonAndMidnight are a zone in which it is between 12 and 1, and one in which it
// is night by the same clock: hours from either end of a day.
func noonAndMidnight(now time.Time) (noon, midnight string) {
	name := func(offset int) string { // these names count westwards
		if offset == 0 {
			return "Etc/GMT"
		}
		return fmt.Sprintf("Etc/GMT%+d", -offset)
	}
	offset := 12 - now.UTC().Hour()
	if offset >= 0 {
		return name(offset), name(offset - 12)
	}
	return name(offset), name(offset + 12)
}

func TestWindowFlags(t *testing.T) {
	t.Parallel()
	holidays := filepath.Join(t.TempDir(), "holidays.txt")
	if err := os.WriteFile(holidays, []byte("\ufeff# of Germany\n2026-12-26\r\n2026-12-25 # Christmas\n\n2026-12-25\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	weekdays := engine.EveryDay &^ (1<<time.Saturday | 1<<time.Sunday)
	usual := &store.SendWindow{TZ: "recipient", Window: engine.Window{From: 480, To: 1260, Days: engine.EveryDay}}
	for name, tt := range map[string]struct {
		flags windowFlags
		of    engine.Category
		want  *store.SendWindow
	}{
		"marketing":         {of: engine.Marketing, want: usual},
		"marketing, always": {flags: windowFlags{Window: "none"}, of: engine.Marketing},
		"marketing, in one zone": {
			flags: windowFlags{TZ: "Europe/Berlin"}, of: engine.Marketing,
			want: &store.SendWindow{TZ: "Europe/Berlin", Window: usual.Window},
		},
		"utility":        {of: engine.Utility},
		"authentication": {of: engine.Authentication},
		"all said": {
			flags: windowFlags{Window: "09:30-24:00", Days: "Mon-Fri", TZ: "column:tz", Holidays: holidays}, of: engine.Utility,
			want: &store.SendWindow{TZ: "column:tz", Window: engine.Window{From: 570, To: 1440, Days: weekdays, Holidays: []string{"2026-12-25", "2026-12-26"}}},
		},
		"over the weekend": {
			flags: windowFlags{Window: "00:00-00:01", Days: "sat-mon,wed"}, of: engine.Utility,
			want: &store.SendWindow{TZ: "recipient", Window: engine.Window{To: 1, Days: 1<<6 | 1<<0 | 1<<1 | 1<<3}},
		},
	} {
		got, err := tt.flags.of(tt.of)
		if d := cmp.Diff(tt.want, got); err != nil || d != "" {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, d)
		}
	}
	bad := filepath.Join(t.TempDir(), "bad.txt")
	if err := os.WriteFile(bad, []byte("2026-12-25\n25.12.2026\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, flags := range map[string]windowFlags{
		"write the hours as 09:00-20:00": {Window: "9 to 5"},
		"opens before it closes":         {Window: "22:00-06:00"},
		"write days as mon-fri":          {Window: "09:00-20:00", Days: "weekdays"},
		"IANA name":                      {Window: "09:00-20:00", TZ: "CET+1"},
		"lacks the column's name":        {Window: "09:00-20:00", TZ: "column: "},
		"line 2 is no date":              {Window: "09:00-20:00", Holidays: bad},
		"leave out --days":               {Window: "none", Days: "mon"},
		"add --window 09:00-20:00":       {TZ: "Europe/Berlin"},
	} {
		_, err := flags.of(engine.Utility)
		if _, usage := err.(usageError); !usage && !strings.Contains(fmt.Sprint(err), want) || !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%+v: %v, want %q", flags, err, want)
		}
	}
}

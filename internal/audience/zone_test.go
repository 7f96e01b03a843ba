package audience

import (
	"fmt"
	"strings"
	"testing"
	_ "time/tzdata" // the same zones on every machine

	"github.com/google/go-cmp/cmp"
	"github.com/nyaruka/phonenumbers"

	"github.com/weirhq/weir/engine"
)

// A number tells all the zones that its owner may be in. A mobile number of a
// country with several is of none of them in particular, unless its numbering
// plan says so.
func TestZonesOfNumbers(t *testing.T) {
	t.Parallel()
	for phone, want := range map[string]string{
		"+4915112345678": "Europe/Berlin",
		"+5511987654321": "America/Sao_Paulo",
		"+5592987654321": "America/Manaus",
		"+16045551234":   "America/Vancouver",
		"+919876543210":  "Asia/Calcutta",
		"+61491570156":   "Australia/Adelaide,Australia/Brisbane,Australia/Eucla,Australia/Lord_Howe,Australia/Perth,Australia/Sydney,Indian/Christmas,Indian/Cocos",
		"+61893201234":   "Australia/Adelaide,Australia/Perth",
		"+351912345678":  "Atlantic/Azores,Europe/Lisbon",
		"+77012345678":   "Asia/Almaty,Asia/Aqtobe", // Kazakhstan's, which shares Russia's code
	} {
		got := readAll(t, "phone\n"+phone+"\n", Options{Zones: ZoneSource{Number: true}})
		if len(got.contacts) != 1 || got.contacts[0].Zones != want {
			t.Errorf("%s: %+v %v, want %s", phone, got.contacts, got.refused, want)
		}
	}
	if got := readAll(t, "phone\n+4915112345678\n", Options{}); got.contacts[0].Zones != "" {
		t.Error("a zone that nobody asked for")
	}
	moscow := readAll(t, "phone\n+79161234567\n", Options{Zones: ZoneSource{Number: true}})
	for _, zone := range []string{"Europe/Moscow", "Asia/Vladivostok"} {
		if !strings.Contains(moscow.contacts[0].Zones, zone) {
			t.Errorf("a Russian mobile is not in %s: %s", zone, moscow.contacts[0].Zones)
		}
	}
}

// Whoever's zone is not known, or never open, is refused, with the reason.
func TestRowsWithoutAZoneAreRefused(t *testing.T) {
	t.Parallel()
	read := func(text string, z ZoneSource) (out []string) {
		got := readAll(t, text, Options{Zones: z})
		for _, c := range got.contacts {
			out = append(out, c.Zones)
		}
		for _, e := range got.refused {
			if e.Hint == "" {
				t.Errorf("%s: no hint", e.Reason)
			}
			out = append(out, fmt.Sprintf("%d %s: %s", e.Line, e.Column, e.Reason))
		}
		return append(out, fmt.Sprint(got.end))
	}
	opens := func(zones string) bool { return !strings.Contains(zones, "Tokyo") }
	text := "phone,tz\n+4915112345678,\u00a0Asia/Kathmandu \n+4915112345679,\n+4915112345670,Local\n+4915112345671,Berlin\n+4915112345672,Asia/Tokyo\n+4915112345673,Asia/Tokyo\n+8001234567890123,UTC\n"
	want := []string{"Asia/Kathmandu", "3 tz: not a time zone", "4 tz: not a time zone", "5 tz: not a time zone", "6 tz: never within the window", "7 tz: never within the window", "8 phone: phone too long", "<nil>"}
	if d := cmp.Diff(want, read(text, ZoneSource{Column: "TZ", Number: true, Opens: opens})); d != "" {
		t.Errorf("by column (-want +got):\n%s", d)
	}
	text = "phone\n+80012345678\n+4915112345678\n+819012345678\n"
	want = []string{"Europe/Berlin", "2 phone: no time zone known", "4 phone: never within the window", "<nil>"}
	if d := cmp.Diff(want, read(text, ZoneSource{Number: true, Opens: opens})); d != "" {
		t.Errorf("by number (-want +got):\n%s", d)
	}
	if _, err := Open(strings.NewReader("phone\n+4915112345678\n"), Options{Zones: ZoneSource{Column: "tz"}}); err == nil || !strings.Contains(err.Error(), `no column "tz" for the time zones`) {
		t.Errorf("a column that is not there: %v", err)
	}
}

// What the numbering plans call a zone is one that Go knows.
func TestEveryZoneOfANumberIsKnown(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for prefix := 1; prefix < 100_000; prefix++ {
		names, err := phonenumbers.GetTimezonesForPrefix(fmt.Sprint(prefix))
		if err != nil {
			t.Fatal(err)
		}
		zones := strings.Join(names, ",")
		if seen[zones] || zones == phonenumbers.UNKNOWN_TIMEZONE {
			continue
		}
		seen[zones] = true
		if _, err := engine.Zones(zones); err != nil {
			t.Errorf("prefix %d: %v", prefix, err)
		}
	}
}

package cloudapi

import (
	"encoding/csv"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/weirhq/weir/engine"
)

// fact is what the sources say of a code, and what it must ask for.
type fact struct{ class, asks, source string }

// facts reads the committed list of Meta's codes.
func facts(t testing.TB) map[string]fact {
	t.Helper()
	f, err := os.Open("testdata/codes.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r := csv.NewReader(f)
	r.Comment = '#'
	records, err := r.ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string]fact)
	for _, r := range records[1:] {
		all[r[0]] = fact{class: r[1], asks: r[2], source: r[3]}
	}
	return all
}

func span(t testing.TB, label string) (lo, hi int) {
	t.Helper()
	a, b, ranged := strings.Cut(label, "-")
	lo, err := strconv.Atoi(a)
	if err != nil {
		t.Fatal(err)
	}
	if !ranged {
		return lo, lo
	}
	if hi, err = strconv.Atoi(b); err != nil {
		t.Fatal(err)
	}
	return lo, hi
}

// Every code asks for what its class does and with the scope that the sources
// name, and whoever is stopped by one is told what to do.
func TestEveryCodeAsksWhatItsClassDoes(t *testing.T) {
	t.Parallel()
	allowed := map[string][]string{
		"auth_stop_alert":           {"stop_number"},
		"number_stop":               {"stop_number"},
		"throughput_pause_number":   {"pause"},
		"transient_retry":           {"reschedule", "pause", "reconcile"},
		"recipient_rate_reschedule": {"reschedule"},
		"recipient_permanent_fail":  {"fail"},
		"campaign_pause":            {"stop_campaign", "fail"},
		"not_send_path":             {"fail", "stop_number"},
	}
	known := facts(t)
	for label, want := range known {
		if action, _, _ := strings.Cut(want.asks, " "); !slices.Contains(allowed[want.class], action) || want.source == "" {
			t.Errorf("%s: %s asks %q, from %q", label, want.class, want.asks, want.source)
		}
		lo, hi := span(t, label)
		for code := lo; code <= hi; code++ {
			e := lookup(code)
			if e == nil {
				t.Errorf("%d (%s) is not in the table", code, want.class)
				continue
			}
			if got := said(e.asks); got != want.asks {
				t.Errorf("%d asks %q, want %q", code, got, want.asks)
			}
			if e.offPath != (want.class == "not_send_path") {
				t.Errorf("%d is %s and offPath=%v", code, want.class, e.offPath)
			}
			stops := e.asks.Suspect || e.asks.Action == engine.StopCampaign || e.asks.Action == engine.StopNumber
			if a := e.answer(code); stops && (a.Advice == "" || Advice(code) != a.Advice) {
				t.Errorf("%d stops something and gives no advice", code)
			}
		}
	}
	for i := range codes { // and nothing in the table that the list does not know
		if _, ok := known[codes[i].label()]; !ok {
			t.Errorf("%s is not in testdata/codes.csv", codes[i].label())
		}
		if codes[i].title == "" || codes[i].title != scrub(codes[i].title) {
			t.Errorf("%s: title %q", codes[i].label(), codes[i].title)
		}
	}
}

func TestEveryClassHasAnExchange(t *testing.T) {
	t.Parallel()
	known := facts(t)
	seen := make(map[string]bool)
	for _, x := range exchanges(t) {
		if m := regexp.MustCompile(`code=(\d+)`).FindStringSubmatch(x.want); m != nil {
			code, _ := strconv.Atoi(m[1])
			if e := lookup(code); e != nil {
				seen[known[e.label()].class] = true
			}
		}
	}
	for _, f := range known {
		if !seen[f.class] {
			t.Errorf("no exchange for class %s", f.class)
		}
	}
}

func TestLookupAroundRanges(t *testing.T) {
	t.Parallel()
	for code, want := range map[int]string{
		199: "", 200: "200", 201: "200-299", 299: "200-299", 300: "",
		131200: "", 131201: "131201-131215", 131215: "131201-131215", 131216: "",
		-1: "", 0: "0", 5: "", 1 << 40: "",
	} {
		got := ""
		if e := lookup(code); e != nil {
			got = e.label()
		}
		if got != want {
			t.Errorf("%d: got %q, want %q", code, got, want)
		}
	}
}

package cloudapi

import (
	"encoding/csv"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/weirhq/weir/engine"
)

// codeClasses reads the committed list of Meta's codes with their classes.
func codeClasses(t testing.TB) map[string]string {
	t.Helper()
	f, err := os.Open("testdata/codes.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	records, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	classes := make(map[string]string)
	for _, r := range records[1:] {
		classes[r[0]] = r[1]
	}
	return classes
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

func TestEveryCodeHasAnAnswerOfItsClass(t *testing.T) {
	t.Parallel()
	allowed := map[string][]engine.Action{
		"auth_stop_alert":           {engine.StopNumber},
		"number_stop":               {engine.StopNumber},
		"throughput_pause_number":   {engine.Pause},
		"transient_retry":           {engine.Reschedule, engine.Pause, engine.Reconcile}, // maintenance pauses, 131000 is unknown
		"recipient_rate_reschedule": {engine.Reschedule},
		"recipient_permanent_fail":  {engine.Fail},
		"campaign_pause":            {engine.StopCampaign, engine.Fail}, // Fail is suspect
		"not_send_path":             {engine.Fail, engine.StopNumber},
	}
	classes := codeClasses(t)
	for label, class := range classes {
		lo, hi := span(t, label)
		for code := lo; code <= hi; code++ {
			e := lookup(code)
			if e == nil {
				t.Errorf("%d (%s) is not in the table", code, class)
				continue
			}
			ok := false
			for _, a := range allowed[class] {
				ok = ok || e.asks.Action == a
			}
			if !ok {
				t.Errorf("%d is %s but asks for %v", code, class, e.asks.Action)
			}
			if suspected := class == "campaign_pause" || class == "not_send_path" || code == 130497 || code == 131030; e.asks.Action == engine.Fail && e.asks.Suspect != suspected {
				t.Errorf("%d is %s and suspect=%v", code, class, e.asks.Suspect)
			}
			if e.offPath != (class == "not_send_path") {
				t.Errorf("%d is %s and offPath=%v", code, class, e.offPath)
			}
		}
	}
	for i := range codes { // and nothing in the table that the list does not know
		if _, ok := classes[codes[i].label()]; !ok {
			t.Errorf("%s is not in testdata/codes.csv", codes[i].label())
		}
		if codes[i].title == "" || codes[i].title != scrub(codes[i].title) {
			t.Errorf("%s: title %q", codes[i].label(), codes[i].title)
		}
	}
}

func TestEveryClassHasAnExchange(t *testing.T) {
	t.Parallel()
	classes := codeClasses(t)
	seen := make(map[string]bool)
	for _, x := range exchanges(t) {
		if m := regexp.MustCompile(`code=(\d+)`).FindStringSubmatch(x.want); m != nil {
			code, _ := strconv.Atoi(m[1])
			if e := lookup(code); e != nil {
				seen[classes[e.label()]] = true
			}
		}
	}
	for _, class := range classes {
		if !seen[class] {
			t.Errorf("no exchange for class %s", class)
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

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/sim"
)

// northAmerica shares one calling code; marketing does not arrive in its second
// row alone. The last row is the campaign's own number.
const northAmerica = `phone,first_name,order
+16045551234,Canada,A-1
+14155552671,California,A-2
+18765123456,Jamaica,A-3
+17875551234,Puerto Rico,A-4
+4915112345678,Ana,A-5
+4915110000000,Own,A-6
`

// TestWhatIsNeverDeliveredIsNeverSent: marketing to US numbers, and messages to
// oneself, are refused by the import with a reason, and what comes in past it is
// given up before a call is made.
func TestWhatIsNeverDeliveredIsNeverSent(t *testing.T) {
	t.Parallel()
	s := newStage(t, sim.Options{})
	s.weir("number", "add", scriptNumber, "--waba", "w", "--limit", "80", "--no-verify")
	pool := s.pool()
	set := func(sql string) {
		t.Helper()
		if _, err := pool.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	set(`UPDATE numbers SET display = '+49 1511 0000000'`)
	file := filepath.Join(s.dir, "people.csv")
	if err := os.WriteFile(file, []byte(northAmerica), 0o600); err != nil {
		t.Fatal(err)
	}
	create := func(name, category string, wants ...string) {
		t.Helper()
		s.says([]string{
			"campaign", "create", name, "--template", "order_update", "--language", "en_US", "--number", scriptNumber, "--csv", file, "--no-verify",
			"--param", "body.1=first_name", "--param", "body.2=order", "--category", category,
		}, wants...)
	}
	create("offers", "marketing", "6 rows read = 4 accepted + 2 rejected", "1 of the rejected are US numbers: Meta delivers no marketing to them", "1 of the rejected are the campaign's own numbers")
	rejects, err := os.ReadFile(file + ".rejected.csv")
	if text := string(rejects); err != nil || !strings.Contains(text, "California,A-2,3,nothing is delivered there: phone,") || !strings.Contains(text, "Own,A-6,7,the sender's own number: phone,") {
		t.Errorf("rejects: %v\n%s", err, text)
	}
	create("c", "utility", "6 rows read = 5 accepted + 1 rejected", "1 of the rejected are the campaign's own numbers")
	set(`UPDATE campaigns SET category = 'marketing' WHERE name = 'c'`) // or the row came in by hand, or with an older Weir
	s.says([]string{"campaign", "test", "c", "--to", "+14155552671"}, "exit", "not sent: unserved_country; Meta delivers no marketing to US numbers")
	s.weir("campaign", "start", "c", "--no-verify")
	s.serve()
	s.until("finished", 2*time.Minute, func(v campaignView) bool { return v.State == "finished" })
	if got := s.status().Counts["dead"]; got != 1 {
		t.Errorf("%d dead, want the US number", got)
	}
	for _, e := range s.platform.Ledger() {
		if e.To == sim.HashPhone("+14155552671") {
			t.Error("a call was made for the US number")
		}
	}
	s.says([]string{"dead", "list", "--campaign", "c"}, "unserved_country", "Meta delivers no marketing to US numbers: leave them out", "US")
	s.says([]string{"explain", "+14155552671"}, "not sent: unserved_country; Meta delivers no marketing to US numbers")
	s.holds(5)
}

// says runs a command and wants words in what it prints; "exit" wants it to fail.
func (s *stage) says(args []string, wants ...string) {
	s.t.Helper()
	cmd := exec.CommandContext(s.t.Context(), "weir", args...)
	cmd.Env, cmd.Dir = s.env, s.dir
	out, err := cmd.CombinedOutput()
	fails := wants[0] == "exit"
	if fails {
		wants = wants[1:]
	}
	if (err != nil) != fails {
		s.t.Fatalf("weir %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	for _, want := range wants {
		if !strings.Contains(string(out), want) {
			s.t.Errorf("weir %s does not say %q:\n%s", strings.Join(args, " "), want, out)
		}
	}
}

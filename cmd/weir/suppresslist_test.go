package main

import (
	"bytes"
	"os/exec"
	"strings"
	"testing"

	"github.com/weirhq/weir/internal/sim"
)

// TestTheListIsOfOptOuts: who is left out by themselves is counted, and shown when
// asked for, without a time that no campaign keeps to.
func TestTheListIsOfOptOuts(t *testing.T) {
	t.Parallel()
	s := newStage(t, sim.Options{})
	if _, err := s.pool().Exec(t.Context(), `INSERT INTO suppressions (phone, scope, kind, until) VALUES
		('+4915100000001', 'marketing', 'absent', now() + interval '365 days'), ('+4915100000002', 'marketing', 'absent', now() - interval '1 s'),
		('+4915100000003', 'marketing', 'stop', 'infinity'), ('+4915100000004', 'all', 'suppress', 'infinity')`); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		flags, phones, talk string // the last digits of whom is shown
	}{
		{"", "34", "1 more are left out for a while by themselves, as not on WhatsApp: --all\n"},
		{"--scope all", "4", ""},
		{"--all", "134", ""},
		{"--kind stop", "3", ""},
		{"--kind absent,suppress", "14", ""},
	} {
		for _, form := range []string{"", "--csv", "--json"} {
			args := append([]string{"suppress", "list"}, strings.Fields(tc.flags+" "+form)...)
			cmd := exec.CommandContext(t.Context(), "weir", args...)
			var talk bytes.Buffer
			cmd.Env, cmd.Dir, cmd.Stderr = s.env, s.dir, &talk
			out, err := cmd.Output()
			shown := ""
			for _, digit := range "1234" {
				if strings.Contains(string(out), "+491510000000"+string(digit)) {
					shown += string(digit)
				}
			}
			if err != nil || shown != tc.phones || talk.String() != tc.talk {
				t.Errorf("%q shows %s and says %q, %v, want %s and %q", args, shown, talk.String(), err, tc.phones, tc.talk)
			}
			if form == "" && strings.Contains(tc.phones, "1") != strings.Contains(string(out), "as each campaign's --absent-days") {
				t.Errorf("%q shows:\n%s", args, out)
			}
		}
	}
}

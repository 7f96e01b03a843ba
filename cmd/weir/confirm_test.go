package main

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/sim"
)

// TestAPauseThatNobodyConfirms: a number is held by a node that says nothing.
// The command does not call that a pause, says who is waited for and how to look,
// and what it asked for stands.
func TestAPauseThatNobodyConfirms(t *testing.T) {
	t.Parallel()
	s := newStage(t, sim.Options{})
	s.weir("number", "add", scriptNumber, "--waba", "w", "--limit", "80", "--no-verify")
	s.campaign(3, "--no-verify")
	mute := func(left string) {
		t.Helper()
		if _, err := s.pool().Exec(t.Context(), `UPDATE number_leases SET lease_id = gen_random_uuid(), holder = 'mute', released = false,
			ready_at = now(), expires_at = now() + $1::text::interval`, left); err != nil {
			t.Fatal(err)
		}
	}
	mute("1 h")
	for _, verb := range []string{"pause", "cancel"} {
		said := s.refused("campaign", verb, "c", "--timeout", "5s") // it looks at least once in that time
		for _, want := range []string{
			"the " + verb + " of c is not confirmed after 5s, waiting for number " + scriptNumber + " on node mute",
			"stands and goes on by itself; weir campaign status c shows",
		} {
			if !strings.Contains(said, want) {
				t.Errorf("%s says %q, want %q", verb, said, want)
			}
		}
		if said := s.interrupted("campaign", verb, "c"); !strings.Contains(said, "interrupted: the "+verb+" of c stands and goes on by itself") {
			t.Errorf("%s, interrupted, says %q", verb, said)
		}
		s.weir("campaign", verb, "c", "--no-wait")
		if view := s.status(); !strings.HasSuffix(view.State, "ing") || view.ConfirmedAt != "" {
			t.Errorf("after %s: %s, confirmed at %q", verb, view.State, view.ConfirmedAt)
		}
		if look := s.weir("campaign", "status", "c"); !strings.Contains(look, "what is on its way is waited for") || !strings.Contains(look, "ed by the operator") {
			t.Errorf("after %s status shows %q", verb, look)
		}
	}
	mute("-3 s") // it died; the command's first look starts its quarantine
	s.weir("campaign", "cancel", "c")
	if view := s.status(); view.State != "canceled" || view.Counts["canceled"] != 3 {
		t.Errorf("in the end it is %s: %v", view.State, view.Counts)
	}
}

// interrupted runs a command that waits, interrupts it, and returns what it says.
func (s *stage) interrupted(args ...string) string {
	s.t.Helper()
	cmd := exec.CommandContext(s.t.Context(), "weir", args...)
	var talk bytes.Buffer
	cmd.Env, cmd.Dir, cmd.Stderr = s.env, s.dir, &talk
	before := time.Now()
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	s.untilItLooks(before)
	_ = cmd.Process.Signal(os.Interrupt)
	select {
	case err := <-ended:
		if err == nil {
			s.t.Errorf("weir %v succeeded", args)
		}
	case <-time.After(patience):
		s.t.Errorf("weir %v does not end", args)
	}
	return talk.String()
}

// untilItLooks waits until a command that was started after an instant asks
// whether its pause is confirmed.
func (s *stage) untilItLooks(since time.Time) {
	s.t.Helper()
	pool, deadline := s.pool(), time.Now().Add(patience)
	for looks := 0; looks == 0; {
		if time.Now().After(deadline) {
			s.t.Fatal("no command waits for a confirmation")
		}
		err := pool.QueryRow(s.t.Context(), `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
			AND pid <> pg_backend_pid() AND backend_start > $1 AND query LIKE '%name: ConfirmControls%'`, since).Scan(&looks)
		if err != nil {
			s.t.Fatal(err)
		}
	}
}

package main

import (
	"bytes"
	"net/url"
	"os/exec"
	"strings"
	"testing"

	"github.com/weirhq/weir/internal/sim"
)

// refused runs a command that must fail, and returns what it says.
func (s *stage) refused(args ...string) string {
	s.t.Helper()
	cmd := exec.CommandContext(s.t.Context(), "weir", args...)
	var talk bytes.Buffer
	cmd.Env, cmd.Dir, cmd.Stderr = s.env, s.dir, &talk
	if err := cmd.Run(); err == nil || cmd.ProcessState.ExitCode() != exitFailure {
		s.t.Errorf("weir %s: %v, want exit code %d\n%s", strings.Join(args, " "), err, exitFailure, talk.Bytes())
	}
	return talk.String()
}

// TestAReadOnlyServerIsRefused, and what to do is said; who means to read may.
func TestAReadOnlyServerIsRefused(t *testing.T) {
	t.Parallel()
	s := newStage(t, sim.Options{})
	if _, err := s.pool().Exec(t.Context(), `DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET default_transaction_read_only = on', current_database()); END $$`); err != nil {
		t.Fatal(err)
	}
	for _, command := range [][]string{{"campaign", "list"}, {"serve"}, {"migrate", "up"}} {
		if said := s.refused(command...); !strings.Contains(said, "takes no writes") || !strings.Contains(said, "target_session_attrs=any") {
			t.Errorf("%v says %q", command, said)
		}
	}
	address, err := url.Parse(s.database)
	if err != nil {
		t.Fatal(err)
	}
	q := address.Query()
	q.Set("target_session_attrs", "any")
	address.RawQuery = q.Encode()
	s.env = append(s.env, "WEIR_DATABASE_URL="+address.String())
	s.weir("campaign", "list")
}

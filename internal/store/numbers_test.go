package store

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirhq/weir/engine"
)

func TestAddNumberMakesWhatAClaimNeeds(t *testing.T) {
	t.Parallel()
	s := openOperator(t)
	n := NumberInfo{
		Number:    engine.Number{ID: "n1", WABA: "w1", Limit: 250, Headroom: 0.1, Burst: 12},
		Portfolio: "p1", Display: "+55 11 4002-8922", TokenFile: "/run/secrets/n1",
	}
	if err := s.AddNumber(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	for _, table := range []string{"number_leases WHERE number_id = 'n1'", "breakers WHERE scope = 'number:n1'", "number_traffic WHERE number_id = 'n1'"} {
		if count(t, s, "SELECT count(*) FROM "+table) != 1 {
			t.Errorf("no row in %s: the gate stays closed", table)
		}
	}
	again := n
	again.Limit = 80
	again.Burst = 1
	if err := s.AddNumber(t.Context(), again); !errors.Is(err, ErrExists) {
		t.Errorf("add again: %v, want ErrExists", err)
	}
	got, err := s.FindNumber(t.Context(), "n1")
	n.Enabled = true
	if diff := cmp.Diff(n, got); err != nil || diff != "" {
		t.Errorf("%v, (-want +got):\n%s", err, diff)
	}
}

func TestNumberSettingsRefused(t *testing.T) {
	t.Parallel()
	s := openOperator(t)
	addNumber(t, s, "n1")
	for name, n := range map[string]NumberInfo{
		"no id":          {Number: engine.Number{WABA: "w", Limit: 80}},
		"no account":     {Number: engine.Number{ID: "x", Limit: 80}},
		"limit 1":        {Number: engine.Number{ID: "x", WABA: "w", Limit: 1}},
		"no limit":       {Number: engine.Number{ID: "x", WABA: "w"}},
		"limit NaN":      {Number: engine.Number{ID: "x", WABA: "w", Limit: math.NaN()}},
		"limit infinite": {Number: engine.Number{ID: "x", WABA: "w", Limit: math.Inf(1)}},
		"headroom 1":     {Number: engine.Number{ID: "x", WABA: "w", Limit: 80, Headroom: 1}},
		"headroom < 0":   {Number: engine.Number{ID: "x", WABA: "w", Limit: 80, Headroom: -0.1}},
		"burst":          {Number: engine.Number{ID: "x", WABA: "w", Limit: 80, Burst: 5}},
	} {
		if err := s.AddNumber(t.Context(), n); !errors.Is(err, ErrRefused) {
			t.Errorf("%s: %v, want ErrRefused", name, err)
		}
	}
	low, burst := 2.0, 4
	if err := s.SetNumber(t.Context(), "n1", NumberChange{Burst: &burst}); err != nil {
		t.Error(err)
	}
	if err := s.SetNumber(t.Context(), "n1", NumberChange{Limit: &low}); !errors.Is(err, ErrRefused) {
		t.Errorf("a limit too low for the burst that is set: %v, want ErrRefused", err)
	}
}

func TestSetNumber(t *testing.T) {
	t.Parallel()
	s := openOperator(t)
	addNumber(t, s, "n1")
	limit, headroom, burst, file, display := 1000.0, 0.05, 50, "/t", "Shop"
	if err := s.SetNumber(t.Context(), "n1", NumberChange{&limit, &headroom, &burst, &file, &display}); err != nil {
		t.Fatal(err)
	}
	empty := ""
	if err := s.SetNumber(t.Context(), "n1", NumberChange{TokenFile: &empty}); err != nil {
		t.Fatal(err)
	}
	got, err := s.FindNumber(t.Context(), "n1")
	want := NumberInfo{Number: engine.Number{ID: "n1", WABA: "w1", Limit: 1000, Headroom: 0.05, Burst: 50, Enabled: true}, Display: "Shop"}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v, (-want +got):\n%s", err, diff)
	}
	for what, err := range map[string]error{
		"set":    s.SetNumber(t.Context(), "n2", NumberChange{}),
		"enable": s.EnableNumber(t.Context(), "n2"),
	} {
		if !errors.Is(err, ErrNotFound) {
			t.Errorf("%s of no number: %v, want ErrNotFound", what, err)
		}
	}
}

func TestNumbersShowWhatHoldsThem(t *testing.T) {
	t.Parallel()
	s := openOperator(t)
	addNumber(t, s, "n2")
	addNumber(t, s, "n1")
	exec(t, s, "UPDATE numbers SET enabled = false, stop_reason = 'token expired', paused_until = now() + interval '1 minute' WHERE id = 'n1'")
	exec(t, s, "UPDATE number_leases SET lease_id = gen_random_uuid(), holder = 'node-a', expires_at = now() + interval '10 s' WHERE number_id = 'n1'")
	exec(t, s, "UPDATE number_leases SET lease_id = gen_random_uuid(), holder = 'node-b', expires_at = now() - interval '1 s' WHERE number_id = 'n2'")
	all, err := s.Numbers(t.Context())
	if err != nil || len(all) != 2 || all[0].ID != "n1" {
		t.Fatalf("numbers: %+v, %v", all, err)
	}
	n := all[0]
	if n.Enabled || n.StopReason != "token expired" || n.Holder != "node-a" || n.Paused < 50*time.Second || n.LeaseLeft <= 0 || n.LeaseLeft > 10*time.Second {
		t.Errorf("n1: %+v", n)
	}
	if all[1].Holder != "" || all[1].LeaseLeft != 0 {
		t.Errorf("n2 has an expired lease, and is shown as held: %+v", all[1])
	}
	if err := s.EnableNumber(t.Context(), "n1"); err != nil {
		t.Fatal(err)
	}
	if n, err = s.FindNumber(t.Context(), "n1"); err != nil || !n.Enabled || n.StopReason != "" || n.Paused == 0 {
		t.Errorf("enabled: %+v, %v (Meta's pause must run on)", n, err)
	}
	if _, err = s.FindNumber(t.Context(), ""); !errors.Is(err, ErrNotFound) {
		t.Errorf("find no name: %v", err)
	}
}

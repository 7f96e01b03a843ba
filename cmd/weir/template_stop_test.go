package main

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/engine"
	"github.com/weirhq/weir/internal/sim"
	"github.com/weirhq/weir/internal/store"
)

// TestAPausedTemplateStopsEveryCampaignOfIt: two campaigns send one template from
// two numbers of an account, and Meta pauses it. Both stop with a reason though
// only one may have heard of it, nobody fails or has an attempt spent, and once
// both are resumed everybody gets their message once.
func TestAPausedTemplateStopsEveryCampaignOfIt(t *testing.T) {
	t.Parallel()
	const n, senders = 300, 4
	s := newStage(t, sim.Options{AutoThroughput: 1000})
	second := scriptNumber + "9"
	for _, id := range []string{scriptNumber, second} {
		s.weir("number", "add", id, "--waba", "w", "--limit", "1000", "--no-verify")
	}
	s.campaign(n, "--no-verify")
	s.weir("campaign", "create", "d", "--template", "order_update", "--language", "en_US", "--number", second, "--csv", filepath.Join(s.dir, "people.csv"),
		"--param", "body.1=first_name", "--param", "body.2=order", "--no-verify", "--window", "none", "--start")
	db, err := store.Open(t.Context(), s.database, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	client, err := graph{GraphURL: s.platform.URL, GraphVersion: "v25.0", AccessToken: "token"}.client(t.Context(), db, discard, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	platform := &revoking{Sender: client, at: 100, revoke: func() {
		if _, err := s.platform.Misbehave(sim.Behavior{Kind: sim.TemplateStatus, Template: "order_update", Status: "PAUSED"}); err != nil {
			t.Error(err)
		}
	}}
	defer runNode(t, engine.Options{ID: "node", Store: db, Sender: platform, MaxSenders: senders})()
	s.untilEach(db, "paused", func(c store.Campaign, counts map[engine.Status]int) bool {
		return c.State == store.Paused && counts[engine.Sending] == 0
	})
	refused := 0
	for _, e := range s.platform.Ledger() {
		if e.Code == 132015 {
			refused++
		}
	}
	if refused == 0 || refused > 2*senders {
		t.Errorf("%d calls with a paused template, want 1 to %d: those in flight", refused, 2*senders)
	}
	for _, name := range []string{"c", "d"} {
		if status := s.weir("campaign", "status", name); !strings.Contains(status, "stopped:   132015: template paused for low quality") ||
			!strings.Contains(status, "(then weir campaign resume "+name+")") {
			t.Errorf("the status does not say what happened and what to do:\n%s", status)
		}
	}
	spent := 0
	if err := s.pool().QueryRow(t.Context(), `SELECT count(*) FROM recipients WHERE status NOT IN ('pending', 'accepted') OR status = 'pending' AND attempt > 0`).Scan(&spent); err != nil || spent > 0 {
		t.Errorf("%d have failed or spent an attempt, %v", spent, err)
	}
	s.platform.Behave(0)
	s.weir("campaign", "resume", "c", "--no-verify")
	s.weir("campaign", "resume", "d", "--no-verify")
	s.untilEach(db, "sent", func(_ store.Campaign, counts map[engine.Status]int) bool { return counts[engine.Accepted] == n })
	people := map[string]int{}
	for _, e := range s.platform.Ledger() {
		if e.WAMID != "" {
			people[e.To]++
		}
	}
	for _, times := range people {
		if times != 2 {
			t.Errorf("a person of two campaigns got %d messages", times)
		}
	}
}

// untilEach waits until a condition holds for every campaign.
func (s *stage) untilEach(db *store.Store, what string, ok func(store.Campaign, map[engine.Status]int) bool) {
	s.t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(2 * time.Minute); ; <-tick.C {
		all, err := db.Campaigns(s.t.Context())
		if err != nil {
			s.t.Fatal(err)
		}
		missing := 0
		for _, c := range all {
			counts, err := db.Counts(s.t.Context(), c.ID)
			if err != nil {
				s.t.Fatal(err)
			}
			if !ok(c, counts) {
				missing++
			}
			if time.Now().After(deadline) {
				s.t.Errorf("campaign %s: %s %v", c.Name, c.State, counts)
			}
		}
		if missing == 0 {
			return
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("not %s in time", what)
		}
	}
}

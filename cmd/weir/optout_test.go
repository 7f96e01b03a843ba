package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/sim"
)

// TestAStopHoldsFromThenOn: in the middle of a campaign persons write that they
// want no more, each in their own way, over and over. The campaign sends them
// nothing more, another one neither; who takes it back is sent to again.
func TestAStopHoldsFromThenOn(t *testing.T) {
	t.Parallel()
	const n = 300
	s := newStage(t, sim.Options{
		Latency: sim.Spread{Base: 20 * time.Millisecond}, Sent: sim.Spread{Base: 20 * time.Millisecond},
		Delivered: sim.Spread{Base: 20 * time.Millisecond}, Numbers: []sim.Number{{ID: scriptNumber, WABA: "waba", Throughput: 80}},
	})
	s.weir("number", "add", scriptNumber, "--waba", "waba", "--limit", "3", "--no-verify") // so slowly that it is not over before it is paused
	s.campaign(n, "--category", "marketing", "--no-verify")
	s.serve("--stop-words", "c42:no")
	s.sends(5)
	s.weir("campaign", "pause", "c")
	people := s.pending("c", 5)
	at := time.Now().Add(-10 * time.Second)
	for range 2 { // the platform says everything twice
		for i, in := range []sim.Inbound{
			{Text: "Stop. Thank you!"}, {Text: "ABMELDEN"}, {Text: "Stop promotions", Payload: "x"}, {Text: "?", Payload: "C42:NO"}, {Text: "إلغاء الاشتراك"},
		} {
			in.From, in.To, in.At, in.ID = people[i], scriptNumber, at, fmt.Sprint("wamid.stop", i)
			s.writes(in)
		}
		s.writes(sim.Inbound{From: people[0], To: scriptNumber, At: at.Add(-time.Second), Text: "start", ID: "wamid.late"}) // said before
	}
	s.weir("number", "set", scriptNumber, "--limit", "80")
	s.weir("campaign", "resume", "c", "--no-verify")
	view := s.until("finished", 2*time.Minute, func(v campaignView) bool { return v.State == "finished" })
	if view.Counts["suppressed"] != 5 || view.Suppressed["said_stop"] != 5 {
		t.Errorf("left out %v of %v, want 5 who said stop", view.Suppressed, view.Counts)
	}
	if out := s.weir("campaign", "export", "c", "--status", "suppressed"); strings.Count(out, "said_stop") != 5 {
		t.Errorf("exported:\n%s", out)
	}
	if out := s.weir("explain", people[0]); !strings.Contains(out, "said stop: marketing") || !strings.Contains(out, "not sent: said stop in a message to us") {
		t.Errorf("explained:\n%s", out)
	}
	s.weir("campaign", "verify", "c")
	if out := s.refused("suppress", "remove", people[2]); !strings.Contains(out, "the person's own word (at ") || !strings.Contains(out, "--force") {
		t.Errorf("a person's own word was taken back:\n%s", out)
	}

	s.another("d", people, "--category", "marketing", "--no-verify")
	s.ends("d", map[string]int64{"suppressed": 5})
	s.writes(sim.Inbound{From: people[1], To: scriptNumber, Text: "Bitte anmelden"})
	s.another("e", people, "--category", "marketing", "--no-verify")
	s.ends("e", map[string]int64{"suppressed": 4, "delivered": 1})
	s.another("f", people, "--category", "utility", "--no-verify")
	s.ends("f", map[string]int64{"delivered": 5})
	sent := map[string]int{}
	for _, e := range s.platform.Ledger() {
		sent[e.To]++
	}
	for i, phone := range people { // the utility message, and the one who asked again
		if want := 1 + map[int]int{1: 1}[i]; sent[sim.HashPhone(phone)] != want {
			t.Errorf("person %d was sent %d messages, want %d", i, sent[sim.HashPhone(phone)], want)
		}
	}
	if kept := s.count(`SELECT count(*) FROM webhook_events WHERE kind = 'inbound'`); kept != 7 {
		t.Errorf("%d inbound messages are kept, want 7", kept)
	}
	if log := s.log("serving"); slices.ContainsFunc(people, func(p string) bool { return strings.Contains(log, strings.TrimPrefix(p, "+")) }) {
		t.Error("a phone number is in the log")
	}
}

// writes delivers a message until the node takes it.
func (s *stage) writes(in sim.Inbound) {
	s.t.Helper()
	deadline := time.After(time.Minute)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		_, status, err := s.platform.Write(s.t.Context(), in)
		if err == nil && status == http.StatusOK {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			s.t.Fatalf("a message was not taken: %d %v", status, err)
		}
	}
}

// pending are phones of a paused campaign that have not been sent to.
func (s *stage) pending(campaign string, n int) (phones []string) {
	s.t.Helper()
	rows, err := s.pool().Query(s.t.Context(), `SELECT p.phone FROM recipients r JOIN recipient_params p USING (id) JOIN campaigns c ON c.id = r.campaign_id
		WHERE c.name = $1 AND r.status = 'pending' ORDER BY r.id DESC LIMIT $2`, campaign, n)
	if err != nil {
		s.t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var phone string
		if err := rows.Scan(&phone); err != nil {
			s.t.Fatal(err)
		}
		phones = append(phones, phone)
	}
	if rows.Err() != nil || len(phones) != n {
		s.t.Fatalf("%d people wait, want %d: %v", len(phones), n, rows.Err())
	}
	return phones
}

func (s *stage) count(sql string) (n int64) {
	s.t.Helper()
	if err := s.pool().QueryRow(s.t.Context(), sql).Scan(&n); err != nil {
		s.t.Fatal(err)
	}
	return n
}

// another makes and starts a campaign of these people.
func (s *stage) another(name string, phones []string, args ...string) {
	s.t.Helper()
	file := filepath.Join(s.dir, name+".csv")
	if err := os.WriteFile(file, []byte("phone,first_name,order\n"+strings.Join(phones, ",Ana,A-1\n")+",Ana,A-1\n"), 0o600); err != nil {
		s.t.Fatal(err)
	}
	s.weir(append([]string{
		"campaign", "create", name, "--template", "order_update", "--language", "en_US", "--number", scriptNumber, "--csv", file,
		"--param", "body.1=first_name", "--param", "body.2=order", "--window", "none", "--start",
	}, args...)...)
}

// ends waits until a campaign has come to these counts, and proves it.
func (s *stage) ends(name string, want map[string]int64) {
	s.t.Helper()
	deadline := time.After(2 * time.Minute)
	tick := time.NewTicker(150 * time.Millisecond)
	defer tick.Stop()
	for {
		var v campaignView
		if err := json.Unmarshal([]byte(s.weir("campaign", "status", name, "--json")), &v); err != nil {
			s.t.Fatal(err)
		}
		if v.State == "finished" && maps.Equal(want, nonzero(v.Counts)) {
			s.weir("campaign", "verify", name)
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			s.t.Fatalf("campaign %s is %s with %v, want %v", name, v.State, nonzero(v.Counts), want)
		}
	}
}

func nonzero(counts map[string]int64) map[string]int64 {
	some := maps.Clone(counts)
	maps.DeleteFunc(some, func(_ string, n int64) bool { return n == 0 })
	return some
}

package main

import (
	"encoding/csv"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/sim"
)

const standbyNumber = scriptNumber + "7"

// entries counts the messages that the platform took from a number.
func (s *stage) entries(number string) (n int) {
	for _, e := range s.platform.Ledger() {
		if e.Number == number && e.WAMID != "" {
			n++
		}
	}
	return n
}

// TestFallbackStandsIn: the platform refuses the primary number for good in the
// middle of a campaign. Once the wait is over the fallback, which nobody owned
// until then, sends what waits; when the primary is mended the fallback steps
// back and is owned by nobody again. Everybody gets it once.
func TestFallbackStandsIn(t *testing.T) {
	t.Parallel()
	const people = 100
	s := newStage(t, sim.Options{
		Latency: sim.Spread{Base: 5 * time.Millisecond}, Sent: sim.Spread{Base: 10 * time.Millisecond}, Delivered: sim.Spread{Base: 10 * time.Millisecond},
		Numbers: []sim.Number{{ID: scriptNumber, WABA: "one", Throughput: 80}, {ID: standbyNumber, WABA: "two", Throughput: 80}},
	})
	s.weir("number", "add", scriptNumber, "--waba", "one", "--limit", "10")
	s.weir("number", "add", standbyNumber, "--waba", "two", "--limit", "2")
	s.campaign(people, "--fallback-number", standbyNumber, "--fallback-wait", "2s")
	pool := s.pool()
	exec := func(sql string, args ...any) {
		t.Helper()
		if _, err := pool.Exec(t.Context(), sql, args...); err != nil {
			t.Fatal(err)
		}
	}
	is := func(sql string, args ...any) (yes bool) {
		t.Helper()
		if err := pool.QueryRow(t.Context(), sql, args...).Scan(&yes); err != nil {
			t.Fatal(err)
		}
		return yes
	}
	s.serve()
	s.until("under way", time.Minute, func(campaignView) bool { return s.entries(scriptNumber) >= 5 })
	if s.entries(standbyNumber) > 0 || is(`SELECT lease_id IS NOT NULL FROM number_leases WHERE number_id = $1`, standbyNumber) {
		t.Error("the fallback number was owned, or sent, while the primary was able")
	}
	if text := s.weir("campaign", "status", "c"); !strings.Contains(text, standbyNumber+"  1 per second configured  fallback: stands by\n") {
		t.Errorf("status while the primary is able:\n%s", text)
	}

	if _, err := s.platform.Misbehave(sim.Behavior{Kind: sim.Fault, Code: 131045, Number: scriptNumber}); err != nil {
		t.Fatal(err)
	}
	s.until("taken over", time.Minute, func(v campaignView) bool { return *v.Fallback.StandsIn && s.entries(standbyNumber) > 0 })
	ledger := s.platform.Ledger()
	first := slices.IndexFunc(ledger, func(e sim.Entry) bool { return e.Number == standbyNumber })
	if !is(`SELECT $1::timestamptz > stopped_at + interval '1 s' FROM numbers WHERE id = $2`, time.Unix(0, ledger[first].Received), scriptNumber) { // of 2: clocks may differ
		t.Error("the fallback sent before the wait was over")
	}
	if text := s.weir("campaign", "status", "c"); !strings.Contains(text, "fallback: stands in, because "+scriptNumber+" stopped: 131045") {
		t.Errorf("status while it stands in:\n%s", text)
	}
	s.log("the campaign's fallback numbers stand in")

	s.platform.Behave(0)
	before := s.entries(scriptNumber)
	exec(`UPDATE numbers SET mps_limit = 2, burst = 1`) // slow enough to be watched
	s.weir("number", "set", scriptNumber, "--enable")
	s.until("taken back", time.Minute, func(v campaignView) bool { return !*v.Fallback.StandsIn && s.entries(scriptNumber) > before })
	s.log("the campaign's fallback numbers step back")
	s.until("owned by nobody", time.Minute, func(campaignView) bool {
		return is(`SELECT released FROM number_leases WHERE number_id = $1`, standbyNumber)
	})
	sent := s.entries(standbyNumber)
	exec(`UPDATE numbers SET mps_limit = 60`) // enough seen: the rest goes fast
	s.until("finished", 2*time.Minute, func(v campaignView) bool { return v.State == "finished" && v.Counts["delivered"] == people })
	if n := s.entries(standbyNumber); n != sent {
		t.Errorf("the fallback sent %d messages, then %d after it had stepped back", sent, n-sent)
	}
	s.holds(people)
	s.standbyShown(sent)
	if !is(`SELECT array_agg(kind ORDER BY id) = '{campaign.fallback_began,campaign.fallback_ended}' FROM notices WHERE kind LIKE 'campaign.fallback%'`) {
		t.Error("people were not told of both changes, once each")
	}
}

// standbyShown holds the export, and the words about one of the people, to what
// the platform took from the fallback number.
func (s *stage) standbyShown(sent int) {
	s.t.Helper()
	rows, err := csv.NewReader(strings.NewReader(s.weir("campaign", "export", "c", "--raw"))).ReadAll()
	if err != nil {
		s.t.Fatal(err)
	}
	number, phone := slices.Index(rows[0], "number"), slices.Index(rows[0], "phone")
	var theirs []string
	for _, row := range rows[1:] {
		if row[number] == standbyNumber {
			theirs = append(theirs, row[phone])
		}
	}
	if len(theirs) != sent || sent == 0 {
		s.t.Fatalf("%d people are shown sent to by the fallback, the platform took %d messages", len(theirs), sent)
	}
	if text := s.weir("explain", theirs[0]); !strings.Contains(text, "accepted from fallback number "+standbyNumber) {
		s.t.Errorf("explained as\n%s", text)
	}
}

package main

import (
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/sim"
	"github.com/weirhq/weir/internal/store"
)

// TestAnotherDatabaseSendsNothing: in mid-campaign the database becomes one
// that nobody vouches for. Nothing more is sent and everybody is told, what
// webhooks say is recorded, and a confirmation lets it go on.
func TestAnotherDatabaseSendsNothing(t *testing.T) {
	t.Parallel()
	const n = 800
	s := newStage(t, sim.Options{
		Latency: sim.Spread{Base: 50 * time.Millisecond}, Sent: sim.Spread{Base: 500 * time.Millisecond},
		Delivered: sim.Spread{Base: 500 * time.Millisecond}, ReadShare: 0.5,
		Numbers: []sim.Number{{ID: scriptNumber, WABA: "waba", Throughput: 80}},
	})
	s.weir("number", "add", scriptNumber, "--waba", "waba", "--limit", "20", "--no-verify")
	s.campaign(n)
	node := s.serve()
	s.until("begun", time.Minute, func(v campaignView) bool { return v.Counts["pending"] < n-50 })
	if _, err := s.pool().Exec(t.Context(), `UPDATE instance SET cluster = '1.00000001'`); err != nil {
		t.Fatal(err)
	}
	held := s.until("quiet, and told by webhooks about all that was sent", time.Minute, func(v campaignView) bool {
		return v.Counts["pending"]+v.Counts["delivered"]+v.Counts["read"] == n && !*v.DatabaseConfirmed
	})
	sent := len(s.platform.Ledger())
	if held.State != "running" || held.Counts["pending"] == 0 {
		t.Fatalf("campaign %s: %v", held.State, held.Counts)
	}
	for what, said := range map[string]string{
		"campaign status": s.weir("campaign", "status", "c"), "database status": s.weir("database", "status"),
		"metrics": s.shows("\nweir_database_confirmed 0\n"), "the node's log": s.log("NOTHING IS SENT"),
	} {
		want := map[string]string{
			"campaign status": "stopped:   the database is not the one", "database status": "NOT CONFIRMED: it is another server",
			"metrics": "\nweir_database_confirmed 0\n", "the node's log": "weir database confirm",
		}[what]
		if !strings.Contains(said, want) {
			t.Errorf("%s says nothing of it:\n%s", what, said)
		}
	}
	if now := len(s.platform.Ledger()); now != sent {
		t.Errorf("%d requests were made meanwhile", now-sent)
	}
	s.weir("database", "confirm")
	s.weir("number", "set", scriptNumber, "--limit", "80") // enough seen: the rest goes fast
	view := s.until("finished", 2*time.Minute, func(v campaignView) bool {
		return v.State == "finished" && v.Counts["delivered"]+v.Counts["read"] == n
	})
	if !*view.DatabaseConfirmed {
		t.Error("a confirmed database is not shown so")
	}
	s.shows("\nweir_database_confirmed 1\n")
	s.holds(n)
	if err := node.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := node.Wait(); err != nil {
		t.Errorf("serve ended with %v", err)
	}
}

// shows waits until the metrics have that in them, and returns them.
func (s *stage) shows(want string) string {
	s.t.Helper()
	for deadline := time.Now().Add(patience); ; {
		text := s.metrics()
		if strings.Contains(text, want) {
			return text
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("the metrics never show %q:\n%s", want, text)
		}
		<-time.After(100 * time.Millisecond)
	}
}

func (s *stage) metrics() string {
	s.t.Helper()
	res, err := http.Get("http://" + s.listen + "/metrics")
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return string(text)
}

// TestWhatChanged: each way in which a database becomes another one is named.
func TestWhatChanged(t *testing.T) {
	t.Parallel()
	for cluster, want := range map[store.Cluster]string{
		"7.0000000A": "confirmed  ",
		"7.0000000B": "a standby was promoted",
		"7.00000009": "the server from before the fail-over",
		"8.0000000A": "another server",
	} {
		lines := strings.Join(identityLines(store.Identity{Cluster: cluster, Vouched: "7.0000000A", Heard: -1}), "\n")
		if !strings.Contains(lines, want) || strings.Contains(lines, "NOT CONFIRMED") == (cluster == "7.0000000A") {
			t.Errorf("%s: %s", cluster, lines)
		}
	}
}

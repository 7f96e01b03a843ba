package main

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/weirhq/weir/internal/sim"
)

// away is longer than a lease lasts, than River's leader is one without a word,
// and than any part of a node waits for an answer of the database's before it
// tries anew.
const away = 25 * time.Second

// TestADatabaseThatIsAwayFromARunningNode for long: the node says so while it is,
// and once it is back everything goes on in the same process: the lane sends, the
// jobs end the campaign and tell of it, and the collectors and the feed answer.
func TestADatabaseThatIsAwayFromARunningNode(t *testing.T) {
	t.Parallel()
	const n, token = 600, "0123456789abcdef"
	s := newStage(t, sim.Options{
		Latency: sim.Spread{Base: 20 * time.Millisecond},
		Numbers: []sim.Number{{ID: scriptNumber, WABA: "waba", Throughput: 80}},
	})
	a := newHearers(t)
	s.env = append(s.env, "WEIR_API_TOKEN="+token, "WEIR_NOTIFY_PRIVATE=true", "WEIR_NOTIFY_URL="+a.URL+"/hook", "WEIR_NOTIFY_SECRET=whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	s.weir("number", "add", scriptNumber, "--waba", "waba", "--limit", "80", "--no-verify")
	doors := s.doors()
	s.campaign(n)
	s.serve() // once
	s.until("begun", time.Minute, func(v campaignView) bool { return v.Counts["pending"] < n-20 })
	feed := func() string { return s.get("/v1/breakers/host/events", token) }
	s.becomes("the feed is not there", func() bool { return strings.HasPrefix(feed(), "200 ") })

	doors(false)
	back := time.After(away)
	s.becomes("the node is ready without its database", func() bool { return strings.HasPrefix(s.get("/readyz", ""), "503 ") })
	s.becomes("the feed is there without the database", func() bool { return strings.HasPrefix(feed(), "503 ") })
	<-back
	doors(true)

	s.until("finished", 4*time.Minute, func(v campaignView) bool { return v.State == "finished" })
	a.until(t, "the end is not told", func() bool { return len(a.types) > 0 && a.types[len(a.types)-1] == "campaign.finished" })
	s.becomes("the node is not ready again", func() bool { return strings.HasPrefix(s.get("/readyz", ""), "200 ") })
	s.becomes("the feed is not there again", func() bool { return strings.HasPrefix(feed(), "200 ") })
	s.becomes("the collectors show nothing", func() bool {
		text := s.get("/metrics", "")
		return strings.Contains(text, "\nweir_breaker_state{") && strings.Contains(text, "\nweir_number_owned{") &&
			strings.Contains(text, "\nweir_notice_lag_seconds{") && strings.Contains(text, "\nweir_stuck_sending 0")
	})
	s.holds(n)
}

// get is the node's answer at a path, its code first; "" when there is none.
func (s *stage) get(path, token string) string {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, "http://"+s.listen+path, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return ""
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return ""
	}
	return res.Status + "\n" + string(text)
}

// becomes waits for what must come about.
func (s *stage) becomes(complaint string, done func() bool) {
	s.t.Helper()
	deadline := time.After(time.Minute)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-deadline:
			s.t.Fatal(complaint)
		case <-tick.C:
		}
	}
}

// doors opens and shuts the stage's database to everybody, and throws out who
// is in it.
func (s *stage) doors() func(open bool) {
	s.t.Helper()
	config, err := pgx.ParseConfig(s.database)
	if err != nil {
		s.t.Fatal(err)
	}
	name := config.Database
	config.Database = "postgres"
	conn, err := pgx.ConnectConfig(s.t.Context(), config)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return func(open bool) {
		s.t.Helper()
		for _, sql := range []string{
			`UPDATE pg_database SET datallowconn = $2 WHERE datname = $1`,
			`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1 AND NOT $2`,
		} {
			if _, err := conn.Exec(s.t.Context(), sql, name, open); err != nil {
				s.t.Fatal(err)
			}
		}
	}
}

package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/sim"
)

// hearers are who is told: a server with a path for each format.
type hearers struct {
	*httptest.Server
	mu    sync.Mutex
	types []string // of the webhooks, in order
	seqs  []int64
	texts []string // of the chat
	pages []string // event_action and dedup_key

	hangAt int64 // number of a notice that is not answered
	hangs  chan struct{}
}

func newHearers(t *testing.T) *hearers {
	t.Helper()
	a := &hearers{hangs: make(chan struct{})}
	a.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body struct {
			Type   string
			Data   struct{ Seq int64 }
			Text   string
			Action string `json:"event_action"`
			Key    string `json:"dedup_key"`
		}
		raw, _ := io.ReadAll(r.Body)
		if err := json.Unmarshal(raw, &body); err != nil {
			t.Errorf("%s: %s: %v", r.URL.Path, raw, err)
		}
		a.mu.Lock()
		hang := r.URL.Path == "/hook" && a.hangAt != 0 && body.Data.Seq == a.hangAt
		switch {
		case hang:
			a.hangAt = 0
		case r.URL.Path == "/hook":
			a.types, a.seqs = append(a.types, body.Type), append(a.seqs, body.Data.Seq)
		case r.URL.Path == "/chat":
			a.texts = append(a.texts, body.Text)
		case r.URL.Path == "/page":
			a.pages = append(a.pages, body.Action+" "+body.Key[strings.LastIndex(body.Key, "/")+1:])
			w.WriteHeader(http.StatusAccepted)
		}
		a.mu.Unlock()
		if hang {
			close(a.hangs)
			<-r.Context().Done() // until whoever asks is gone
		}
	}))
	t.Cleanup(a.Close)
	return a
}

// until waits for what they must have heard.
func (a *hearers) until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(patience)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		a.mu.Lock()
		done := ok()
		a.mu.Unlock()
		if done {
			return
		}
		select {
		case <-deadline:
			t.Fatalf("%s: webhooks %v %v, chat %q, pages %q", what, a.types, a.seqs, a.texts, a.pages)
		case <-tick.C:
		}
	}
}

// TestNoticesOfACampaign: a refused token stops the number and is told in every
// format; then its repair, and the end of the campaign. Then a node is killed in
// the middle of a delivery, and the next one leaves nothing out.
func TestNoticesOfACampaign(t *testing.T) {
	t.Parallel()
	s := newStage(t, sim.Options{Numbers: []sim.Number{{ID: scriptNumber, WABA: "waba", Throughput: 80}}})
	a := newHearers(t)
	s.env = append(s.env, "WEIR_NOTIFY_PRIVATE=true", "WEIR_NOTIFY_URL="+a.URL+"/hook", "WEIR_NOTIFY_SECRET=whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
		"WEIR_SLACK_URL="+a.URL+"/chat", "WEIR_PAGERDUTY_KEY=0123456789abcdef0123456789abcdef", "WEIR_PAGERDUTY_URL="+a.URL+"/page")
	if out := s.weir("notify", "test", "--json"); strings.Count(out, `"status": 20`) != 3 {
		t.Errorf("notify test: %s", out)
	}
	a.mu.Lock()
	a.types, a.seqs, a.texts, a.pages = nil, nil, nil, nil
	a.mu.Unlock()
	s.weir("number", "add", scriptNumber, "--waba", "waba", "--limit", "40", "--no-verify")
	if _, err := s.platform.Misbehave(sim.Behavior{Kind: sim.TokenRevoked}); err != nil {
		t.Fatal(err)
	}
	s.campaign(3, "--no-verify")
	first := s.serve()
	a.until(t, "the stop is not told", func() bool { return len(a.types) >= 1 && len(a.texts) >= 1 && len(a.pages) >= 1 })
	s.platform.Behave(0)
	s.weir("number", "set", scriptNumber, "--enable")
	a.until(t, "the end is not told", func() bool { return len(a.types) >= 3 && len(a.texts) >= 3 && len(a.pages) >= 3 })
	if want := []string{"number.stopped", "number.enabled", "campaign.finished"}; !slices.Equal(a.types, want) {
		t.Errorf("webhooks %v, want %v", a.types, want)
	}
	if want := []string{"trigger number:" + scriptNumber, "resolve number:" + scriptNumber, "resolve campaign:1"}; !slices.Equal(a.pages, want) {
		t.Errorf("pages %q, want %q", a.pages, want)
	}
	for i, want := range []string{"Running campaigns that use it: c.", "may send again", "3 recipients"} {
		if !strings.Contains(a.texts[i], want) {
			t.Errorf("chat %q, want %q in it", a.texts[i], want)
		}
	}
	const last = 63
	a.mu.Lock()
	a.hangAt = 30
	a.mu.Unlock()
	if _, err := s.pool().Exec(t.Context(), `INSERT INTO notices (kind, subject) SELECT 'breaker.half_open', 'host' FROM generate_series(4, $1)`, last); err != nil {
		t.Fatal(err)
	}
	<-a.hangs
	if err := first.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = first.Wait() // killed
	s.serve()
	a.until(t, "not everything is told", func() bool { return a.seqs[len(a.seqs)-1] == last })
	if len(slices.Compact(slices.Clone(a.seqs))) != last || !slices.IsSorted(a.seqs) {
		t.Errorf("told %v, want 1 to %d in order, some perhaps twice in a row", a.seqs, last)
	}
}

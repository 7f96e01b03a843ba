package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"go.uber.org/goleak"

	"github.com/weirhq/weir/internal/pgtest"
	"github.com/weirhq/weir/internal/sim"
)

func TestMain(m *testing.M) {
	testscript.Main(leakless{m}, map[string]func(){"weir": main})
}

// leakless runs the tests and then looks for goroutines they left, until the
// last of those that are about to end has had the time to.
type leakless struct{ m *testing.M }

func (l leakless) Run() int {
	code := l.m.Run()
	var left error
	for deadline := time.Now().Add(time.Minute); code == 0; {
		if left = goleak.Find(); left == nil {
			return 0
		}
		if time.Now().After(deadline) {
			fmt.Fprintln(os.Stderr, left)
			return 1
		}
	}
	return code
}

const (
	scriptNumber = "106540352242922"
	scriptSecret = "app-secret"
)

// TestScripts runs the program as people do, each script with a database and
// a simulated platform of its own.
func TestScripts(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/script/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			t.Parallel()
			runScript(t, file)
		})
	}
}

func runScript(t *testing.T, file string) {
	listen := freeAddress(t)
	platform := startSim(t, sim.Options{
		WebhookURL: "http://" + listen + "/webhooks/whatsapp", AppSecret: scriptSecret,
		Latency: sim.Spread{Base: 5 * time.Millisecond}, Sent: sim.Spread{Base: 10 * time.Millisecond},
		Delivered: sim.Spread{Base: 10 * time.Millisecond}, ReadShare: 1, Templates: scriptTemplates(),
		Numbers: []sim.Number{{ID: scriptNumber, WABA: "waba", Throughput: 80}}, RetryBase: 50 * time.Millisecond,
	})
	database := pgtest.URL(t)
	testscript.Run(t, testscript.Params{
		Files: []string{file},
		Setup: func(e *testscript.Env) error {
			e.Vars = append(e.Vars,
				"WEIR_DATABASE_URL="+database, "WEIR_GRAPH_URL="+platform.URL, "WEIR_ACCESS_TOKEN=token",
				"WEIR_APP_SECRET="+scriptSecret, "WEIR_VERIFY_TOKEN=hello", "WEIR_LISTEN="+listen, "NUMBER="+scriptNumber)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"platform": misbehave(platform.URL), "news": announce(platform.Sim), "wait_for": waitFor,
		},
	})
}

// misbehave is the script command `platform JSON`: it tells the simulator to
// misbehave, or with {} to behave.
func misbehave(base string) func(*testscript.TestScript, bool, []string) {
	return func(ts *testscript.TestScript, _ bool, args []string) {
		if len(args) != 1 {
			ts.Fatalf("usage: platform JSON")
		}
		method := http.MethodPost
		if args[0] == "{}" {
			method = http.MethodDelete
		}
		req, err := http.NewRequest(method, base+"/sim/behavior", bytes.NewBufferString(args[0]))
		ts.Check(err)
		res, err := http.DefaultClient.Do(req)
		ts.Check(err)
		defer res.Body.Close()
		if res.StatusCode/100 != 2 {
			ts.Fatalf("platform: %s", res.Status)
		}
	}
}

// announce is the script command `news JSON`: the simulator sends it as a webhook.
func announce(platform *sim.Sim) func(*testscript.TestScript, bool, []string) {
	return func(ts *testscript.TestScript, _ bool, args []string) {
		var n sim.News
		if len(args) != 1 {
			ts.Fatalf("usage: news JSON")
		}
		ts.Check(json.Unmarshal([]byte(args[0]), &n))
		ts.Check(platform.Announce(n))
	}
}

// waitFor is the script command `wait_for PATTERN PROGRAM ARGS…`: it runs the
// program until its output matches.
func waitFor(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: wait_for PATTERN PROGRAM ARGS...")
	}
	pattern := regexp.MustCompile(args[0])
	deadline := time.After(patience)
	for tick := time.NewTicker(200 * time.Millisecond); ; {
		ts.Check(ts.Exec(args[1], args[2:]...))
		if out := ts.ReadFile("stdout"); pattern.MatchString(out) {
			tick.Stop()
			return
		}
		select {
		case <-deadline:
			ts.Fatalf("%v never said %s", args[1:], args[0])
		case <-tick.C:
		}
	}
}

func scriptTemplates() []sim.Template {
	body := []sim.Component{{Type: "BODY", Text: "Hello {{1}}, order {{2}}."}}
	return []sim.Template{
		{Name: "order_update", Language: "en_US", Category: "UTILITY", Components: body},
		{Name: "paused_one", Language: "en_US", Category: "UTILITY", Status: "PAUSED", Components: body},
		{Name: "welcome", Language: "en_US", Category: "MARKETING", ParameterFormat: "NAMED", Components: []sim.Component{
			{Type: "HEADER", Format: "IMAGE"},
			{Type: "BODY", Text: "Welcome {{first_name}}!"},
			{Type: "BUTTONS", Buttons: []sim.Button{{Type: "URL", Text: "Open", URL: "https://example.org/{{1}}"}, {Type: "QUICK_REPLY", Text: "Stop"}}},
		}},
	}
}

// startSim serves a simulator until the test ends.
func startSim(t testing.TB, opts sim.Options) *simServer {
	t.Helper()
	s, err := sim.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	server := httptest.NewServer(s.Handler())
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("simulator: %v", err)
		}
		server.Close()
	})
	return &simServer{Sim: s, URL: server.URL}
}

type simServer struct {
	*sim.Sim
	URL string
}

func freeAddress(t testing.TB) string {
	t.Helper()
	address, err := pgtest.Address()
	if err != nil {
		t.Fatal(err)
	}
	return address
}

// people is a CSV of n valid German mobile numbers with two parameters.
func people(n int) string {
	var b strings.Builder
	b.WriteString("phone,first_name,order\n")
	for i := range n {
		fmt.Fprintf(&b, "+49151%08d,Ana,A-%d\n", 10_000_000+i, i)
	}
	return b.String()
}

// discard is a log that nobody reads.
var discard = slog.New(slog.DiscardHandler)

// silent is a session on a database, whose talk nobody hears.
func silent(database string) *session {
	return &session{globals: globals{DatabaseURL: database}, std: streams{os.Stdin, io.Discard, io.Discard}, log: discard}
}

package sim

import (
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

type adminCall struct {
	method, target, body string
	status               int
	want                 string
}

func adminCalls() []adminCall {
	return []adminCall{
		{"POST", "/sim/behavior", `{"kind":"outage","duration":"30s","number":"5"}`, 200, `{"id":1}`},
		{"POST", "/sim/behavior", `{"kind":"outage","minutes":3}`, 400, "unknown field"},
		{"POST", "/sim/behavior", `{"kind":"earthquake"}`, 400, "webhook_blackout"},
		{"GET", "/sim/behavior", "", 200, `[{"id":1,"hits":0,"kind":"outage","number":"5","duration":"30s","code":2}]`},
		{"DELETE", "/sim/behavior?id=7", "", 404, "GET /sim/behavior"},
		{"DELETE", "/sim/behavior?id=x", "", 400, "id"},
		{"DELETE", "/sim/behavior?id=1", "", 200, `{"ended":1}`},
		{"POST", "/sim/templates", `{"data":[{"name":"hello","language":"en_US","components":[{"type":"BUTTONS","buttons":[{"type":"COPY_CODE","example":"X"}]}]}]}`, 200, `{"templates":1}`},
		{"POST", "/sim/templates", `[{"name":"hello","language":"en_US"}]`, 200, `{"templates":1}`},
		{"POST", "/sim/templates", `[{"name":"hello"}]`, 400, "language"},
		{"POST", path, hello(person(1), "w1.7.1.aa"), 200, "accepted"},
		{"POST", path, hello(person(1), "w1.7.2.bb"), 200, "accepted"},
		{"POST", path, hello(person(2), "w1.8.1.cc"), 200, "accepted"},
		{"GET", "/sim/summary?rate=80&burst=1&slack=50ms&callback_fields=2", "", 200, `"doubled_callbacks":1,"doubled_recipients":1`},
		{"GET", "/sim/summary", "", 200, `"accepts_per_callback":{"1":3}`},
		{"GET", "/sim/summary?rate=fast", "", 400, "rate"},
		{"GET", "/sim/summary?burst=x", "", 400, "burst"},
		{"GET", "/sim/summary?slack=x", "", 400, "slack"},
		{"GET", "/sim/summary?callback_fields=x", "", 400, "callback_fields"},
		{"GET", "/sim/ledger?from=x", "", 400, "from"},
	}
}

func TestAdminOverHTTP(t *testing.T) {
	t.Parallel()
	s := mustNew(t, Options{Templates: catalog[:1]})
	do := func(method, target, body string) (int, string) {
		rec := serve(s, httptestRequest(method, target, body))
		return rec.Code, strings.TrimSpace(rec.Body.String())
	}
	for _, c := range adminCalls() { // in order: later calls see what earlier ones did
		if status, body := do(c.method, c.target, c.body); status != c.status || !strings.Contains(body, c.want) {
			t.Errorf("%s %s: HTTP %d %s, want %d with %s", c.method, c.target, status, body, c.status, c.want)
		}
	}
	checkStream(t, s)
	if do("POST", "/sim/reset", ""); len(s.Ledger()) != 0 {
		t.Error("not reset")
	}
	if status, _ := do("POST", path, hello(person(1), "")); status != 404 {
		t.Errorf("a template that was added live outlived the reset: HTTP %d", status)
	}
}

// checkStream compares the ledger over HTTP with the one in memory.
func checkStream(t *testing.T, s *Sim) {
	t.Helper()
	dec := json.NewDecoder(get(s.Handler(), "/sim/ledger?from=2").Body)
	var got []Entry
	for {
		var e Entry
		if err := dec.Decode(&e); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		got = append(got, e)
	}
	if diff := cmp.Diff(s.Ledger()[1:], got); diff != "" {
		t.Errorf("streamed ledger: %s", diff)
	}
}

package sim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// inProcess carries requests to a handler without a network, so that tests can
// run in a synctest bubble.
type inProcess struct{ h http.Handler }

var errCut = errors.New("connection cut")

func (t inProcess) RoundTrip(r *http.Request) (*http.Response, error) {
	rec := httptest.NewRecorder()
	done := make(chan bool, 1)
	go func() {
		aborted := true
		defer func() {
			if v := recover(); v != nil && v != http.ErrAbortHandler { // panics carry the value itself
				panic(v)
			}
			done <- aborted
		}()
		t.h.ServeHTTP(rec, r)
		aborted = false
	}()
	select {
	case aborted := <-done:
		if aborted {
			return nil, errCut
		}
		return rec.Result(), nil
	case <-r.Context().Done():
		<-done // a handler must let go of a sender that has left
		return nil, r.Context().Err()
	}
}

func mustNew(t testing.TB, o Options) *Sim {
	t.Helper()
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// start runs s until the test (or its bubble) ends.
func start(t *testing.T, s *Sim) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	t.Cleanup(stop)
	return stop
}

const (
	number = "106540352242922"
	path   = "/v25.0/" + number + "/messages"
)

func itoa(n int) string { return strconv.Itoa(n) }

func httptestRequest(method, target, body string) *http.Request {
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer token")
	r.Header.Set("Content-Type", "application/json")
	return r
}

func serve(s *Sim, r *http.Request) *httptest.ResponseRecorder {
	rec := httptest.NewRecorder()
	s.Handler().ServeHTTP(rec, r)
	return rec
}

// post sends a body as a client would and returns what came back.
func post(h http.Handler, target, body string) *httptest.ResponseRecorder {
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, httptestRequest(http.MethodPost, target, body))
	return rec
}

func get(h http.Handler, target string) *httptest.ResponseRecorder {
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, httptestRequest(http.MethodGet, target, ""))
	return rec
}

// hello is a template message without parameters.
func hello(to, callback string) string {
	return fmt.Sprintf(`{"messaging_product":"whatsapp","recipient_type":"individual","to":%q,"type":"template",`+
		`"biz_opaque_callback_data":%q,"template":{"name":"hello","language":{"code":"en_US"}}}`, to, callback)
}

func person(i int) string { return fmt.Sprintf("+4479%08d", i) }

// delivery is one webhook as it arrived.
type delivery struct {
	body []byte
	head http.Header
	at   time.Time
}

// receiver is a webhook endpoint that keeps what it was sent. Set token and
// answer before anything is sent.
type receiver struct {
	token  string
	answer func(n int, d delivery) int // nil: always 200

	mu  sync.Mutex
	got []delivery
}

func (c *receiver) deliveries() []delivery {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.got)
}

func (c *receiver) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		if q := r.URL.Query(); q.Get("hub.mode") == "subscribe" && q.Get("hub.verify_token") == c.token {
			_, _ = io.WriteString(rw, q.Get("hub.challenge"))
			return
		}
		http.Error(rw, "wrong token", http.StatusForbidden)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(rw, err.Error(), http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.got = append(c.got, delivery{body, r.Header.Clone(), time.Now()})
	if c.answer != nil {
		rw.WriteHeader(c.answer(len(c.got), c.got[len(c.got)-1]))
	}
}

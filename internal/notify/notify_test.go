package notify

import (
	"context"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// receiver is a server that keeps what it was sent.
type receiver struct {
	*httptest.Server
	mu   sync.Mutex
	got  []delivery
	code int
}

type delivery struct {
	header http.Header
	path   string
	body   string
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{code: http.StatusOK}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.got = append(r.got, delivery{req.Header, req.URL.Path, string(body)})
		w.WriteHeader(r.code)
		_, _ = io.WriteString(w, "ok")
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) last(t *testing.T) delivery {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.got) == 0 {
		t.Fatal("nothing arrived")
	}
	return r.got[len(r.got)-1]
}

var private = Options{Private: true, Timeout: time.Minute} // a loaded machine takes seconds for a handshake

func must(t *testing.T) func(*Endpoint, error) *Endpoint {
	t.Helper()
	return func(e *Endpoint, err error) *Endpoint {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
}

var stopped = Notice{
	ID: "a1b2", Origin: "here", Seq: 7, Kind: CampaignStopped, Subject: "campaign:12",
	At:    time.Date(2026, 12, 1, 9, 30, 0, 0, time.FixedZone("", 3600)),
	Facts: []byte(`{"campaign": {"id": 12, "name": "spring <!channel> & co"}, "reason": "132001: no such template"}`),
}

const secretPath = "/services/T000/B000/s3cr3tpath"

// TestErrorsKeepTheAddress: whatever goes wrong, neither the address's secret
// part nor what the other side says is in the error.
func TestErrorsKeepTheAddress(t *testing.T) {
	t.Parallel()
	var followed atomic.Bool
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { followed.Store(true) }))
	defer elsewhere.Close()
	var code atomic.Int64
	talker := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if code.Load() == 0 { // hangs up
			panic(http.ErrAbortHandler)
		}
		w.Header().Set("Location", elsewhere.URL+"/?token=s3cr3tpath")
		w.Header().Set("Retry-After", "17")
		w.WriteHeader(int(code.Load()))
		_, _ = io.WriteString(w, "you sent me s3cr3tpath")
	}))
	defer talker.Close()
	secure := httptest.NewUnstartedServer(nil)
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	defer secure.Close()
	for name, tc := range map[string]struct {
		address string
		code    int
		want    string
	}{
		"redirect":            {talker.URL, 302, "redirect"},
		"not found":           {talker.URL, 404, "answered 404 Not Found: check the address"},
		"server's error":      {talker.URL, 503, "answered 503"},
		"hangs up":            {talker.URL, 0, "EOF"},
		"nobody listens":      {"http://127.0.0.1:1", 0, "refused"},
		"unknown authority":   {secure.URL, 0, "certificate"},
		"plain text to TLS":   {strings.Replace(secure.URL, "https", "http", 1), 0, "400"},
		"TLS to plain text":   {strings.Replace(talker.URL, "http", "https", 1), 200, "HTTP"},
		"name of the machine": {"https://user:s3cr3tpath@localhost", 200, "not a public address"},
	} {
		code.Store(int64(tc.code))
		opts := private
		if strings.Contains(tc.address, "localhost") {
			opts = Options{}
		}
		_, err := must(t)(NewSlack(tc.address+secretPath+"?k=s3cr3tpath", opts)).Send(t.Context(), stopped)
		if err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "s3cr3t") {
			t.Errorf("%s: err = %v, want one with %q and without the address", name, err, tc.want)
		}
		if refused, ok := errors.AsType[*Refused](err); ok && tc.address == talker.URL && (refused.Status != tc.code || refused.RetryAfter != 17*time.Second) {
			t.Errorf("%s: %+v, want status %d, after 17 s", name, refused, tc.code)
		}
	}
	if followed.Load() {
		t.Error("a redirect was followed")
	}
}

// TestSendIsBounded: in time, and in what it reads.
func TestSendIsBounded(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	silent := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	defer silent.Close()
	defer close(release)
	_, err := must(t)(NewSlack(silent.URL, Options{Private: true, Timeout: 50 * time.Millisecond})).Send(t.Context(), stopped)
	if err == nil || !strings.Contains(err.Error(), "no answer in time") {
		t.Errorf("a silent receiver: err = %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := must(t)(NewSlack(silent.URL, private)).Send(ctx, stopped); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: err = %v", err)
	}
	endless := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			if _, err := w.Write(make([]byte, 1<<16)); err != nil {
				return
			}
		}
	}))
	defer endless.Close()
	if status, err := must(t)(NewSlack(endless.URL, private)).Send(t.Context(), stopped); status != 200 || err != nil {
		t.Errorf("an endless answer: %d, %v", status, err)
	}
}

func TestWhatIsNoEndpoint(t *testing.T) {
	t.Parallel()
	const good = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	for _, tc := range []struct{ address, secret, want string }{
		{"hooks.example.org/s3cr3t", good, "whole one"},
		{"https://%zz/s3cr3t", good, "whole one"},
		{"ftp://example.org/s3cr3t", good, "https"},
		{"http://example.org/s3cr3t", good, "https"},
		{"https://example.org:5432/s3cr3t", good, "port 5432"},
		{"https://169.254.169.254/s3cr3t", good, "not a public address"},
		{"https://[::ffff:10.0.0.1]/s3cr3t", good, "not a public address"},
		{"https://example.org", "", "openssl rand"},
		{"https://example.org", "s3cr3t", "openssl rand"},
		{"https://example.org", "whsec_s3cr3ts3cr3t", "openssl rand"},
		{"https://example.org", "whsec_" + strings.Repeat("s3cr3t", 20), "openssl rand"},
	} {
		_, err := NewWebhook(tc.address, []string{tc.secret}, Options{})
		if err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "s3cr3t") {
			t.Errorf("%s %s: err = %v, want %q", tc.address, tc.secret, err, tc.want)
		}
	}
	if _, err := NewWebhook("https://example.org", nil, Options{}); err == nil {
		t.Error("a webhook without a secret was made")
	}
	if _, err := NewPagerDuty("", " ", Options{}); err == nil {
		t.Error("a pager without a key was made")
	}
	for _, address := range []string{"https://example.org", "https://example.org:8443/x", "https://8.8.8.8/"} {
		if _, err := NewSlack(address, Options{}); err != nil {
			t.Errorf("%s: %v", address, err)
		}
	}
}

// TestKeysTellEndpointsApart, and tell nothing of them.
func TestKeysTellEndpointsApart(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, e := range []*Endpoint{
		must(t)(NewSlack("https://example.org/a", Options{})),
		must(t)(NewSlack("https://example.org/b", Options{})),
		must(t)(NewWebhook("https://example.org/a", []string{"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}, Options{})),
		must(t)(NewPagerDuty("", "key1", Options{})),
		must(t)(NewPagerDuty("", "key2", Options{})),
	} {
		if seen[e.Key()] || len(e.Key()) != 32 {
			t.Errorf("%s: key %q is another's, or not 32 digits", e.Name(), e.Key())
		}
		seen[e.Key()] = true
	}
	before := must(t)(NewWebhook("https://example.org/a", []string{"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}, Options{}))
	after := must(t)(NewWebhook("https://example.org/a", []string{"whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"}, Options{}))
	if before.Key() != after.Key() {
		t.Error("another secret made it another endpoint, which would lose its place")
	}
}

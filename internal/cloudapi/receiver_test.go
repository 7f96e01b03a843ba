package cloudapi

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/weirhq/weir/engine"
)

const (
	testSecret = "app-secret"
	newSecret  = "next-app-secret"
	testVerify = "verify-me"
)

// memory is a store that remembers, or fails.
type memory struct {
	mu      sync.Mutex
	updates []engine.StatusUpdate
	events  []engine.Event
	calls   int
	err     error
	hang    bool // until the context ends
}

func (m *memory) Submit(ctx context.Context, updates []engine.StatusUpdate, events []engine.Event) error {
	if m.hang {
		<-ctx.Done()
		return ctx.Err()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.calls++
	if m.err != nil {
		return m.err
	}
	m.updates = append(m.updates, updates...)
	m.events = append(m.events, events...)
	return nil
}

func newTestReceiver(t testing.TB, sink *memory, change func(*ReceiverOptions)) *Receiver {
	t.Helper()
	o := ReceiverOptions{
		Submit: sink.Submit, AppSecrets: []string{testSecret}, VerifyToken: testVerify,
		CallbackKey: testKey, Registerer: prometheus.NewRegistry(),
	}
	if change != nil {
		change(&o)
	}
	rc, err := NewReceiver(o)
	if err != nil {
		t.Fatal(err)
	}
	return rc
}

func sign(secret string, body []byte) string {
	h := hmac.New(sha256.New, []byte(secret))
	h.Write(body)
	return "sha256=" + hex.EncodeToString(h.Sum(nil))
}

func post(h http.Handler, body []byte, signatures ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "/webhooks/whatsapp", bytes.NewReader(body))
	for _, s := range signatures {
		r.Header.Add("X-Hub-Signature-256", s)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// statusBody is a POST with one status, as Meta sends most of them.
func statusBody(status string, id CallbackID) []byte {
	return []byte(`{"object":"whatsapp_business_account","entry":[{"id":"102290129340398","changes":[{"value":{` +
		`"messaging_product":"whatsapp","metadata":{"display_phone_number":"15550783881","phone_number_id":"` + testNumber + `"},` +
		`"contacts":[{"profile":{"name":"Ana"},"wa_id":"5511987654321","user_id":"BR.13491208655302741918"}],` +
		`"statuses":[{"id":"` + testMessage + `","status":"` + status + `","timestamp":"1750030073","recipient_id":"5511987654321",` +
		`"biz_opaque_callback_data":"` + id.Encode(testKey) + `",` +
		`"conversation":{"id":"d1a4b1c0","expiration_timestamp":"1750116480","origin":{"type":"marketing"}},` +
		`"pricing":{"billable":true,"pricing_model":"PMP","type":"regular","category":"marketing"}}]},"field":"messages"}]}]}`)
}

func TestDeliver(t *testing.T) {
	t.Parallel()
	body := statusBody("delivered", CallbackID{Recipient: 42, Claim: 3})
	good := sign(testSecret, body)
	for name, tc := range map[string]struct {
		body       []byte
		signatures []string
		options    func(*ReceiverOptions)
		err        error
		want       int
		result     result
	}{
		"good":                     {body: body, signatures: []string{good}, want: 200, result: resultStored},
		"new secret of two":        {body: body, signatures: []string{sign(newSecret, body)}, options: twoSecrets, want: 200, result: resultStored},
		"old secret of two":        {body: body, signatures: []string{good}, options: twoSecrets, want: 200, result: resultStored},
		"no signature":             {body: body, want: 401, result: resultSignature},
		"another secret":           {body: body, signatures: []string{sign(newSecret, body)}, want: 401, result: resultSignature},
		"two signatures":           {body: body, signatures: []string{good, good}, want: 401, result: resultSignature},
		"no prefix":                {body: body, signatures: []string{strings.TrimPrefix(good, "sha256=")}, want: 401, result: resultSignature},
		"half a signature":         {body: body, signatures: []string{good[:40]}, want: 401, result: resultSignature},
		"empty signature":          {body: body, signatures: []string{"sha256="}, want: 401, result: resultSignature},
		"not hex":                  {body: body, signatures: []string{"sha256=" + strings.Repeat("zz", 32)}, want: 401, result: resultSignature},
		"body rewritten":           {body: append([]byte(" "), body...), signatures: []string{good}, want: 401, result: resultSignature},
		"too large":                {body: body, signatures: []string{good}, options: func(o *ReceiverOptions) { o.MaxBody = int64(len(body)) - 1 }, want: 413, result: resultLarge},
		"as large as allowed":      {body: body, signatures: []string{good}, options: func(o *ReceiverOptions) { o.MaxBody = int64(len(body)) }, want: 200, result: resultStored},
		"queue full":               {body: body, signatures: []string{good}, err: fmt.Errorf("submit: %w", engine.ErrBusy), want: 503, result: resultBusy},
		"store fails":              {body: body, signatures: []string{good}, err: errors.New("disk full"), want: 503, result: resultFailed},
		"signed, not JSON":         {body: []byte("{"), signatures: []string{sign(testSecret, []byte("{"))}, want: 200, result: resultUnread},
		"signed, nothing in it":    {body: []byte("{}"), signatures: []string{sign(testSecret, []byte("{}"))}, want: 200, result: resultStored},
		"unreadable and not saved": {body: []byte("{"), signatures: []string{sign(testSecret, []byte("{"))}, err: engine.ErrBusy, want: 503, result: resultBusy},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sink := &memory{err: tc.err}
			rc := newTestReceiver(t, sink, tc.options)
			w := post(rc, tc.body, tc.signatures...)
			if w.Code != tc.want || w.Body.Len() != 0 {
				t.Errorf("got %d %q, want %d", w.Code, w.Body, tc.want)
			}
			if tc.want != 200 && tc.want != 503 && sink.calls != 0 {
				t.Error("something was stored")
			}
			if n := testutil.ToFloat64(rc.metrics.requests[tc.result]); n != 1 {
				t.Errorf("result %s was counted %v times", tc.result, n)
			}
			if !rc.room.TryAcquire(rc.options.MaxBytes) {
				t.Error("room was not given back")
			}
		})
	}
}

func twoSecrets(o *ReceiverOptions) { o.AppSecrets = []string{testSecret, newSecret} }

// Escapes, emoji and spacing are Meta's; a signature over parsed and rewritten
// JSON would not match.
func TestSignatureIsOverRawBytes(t *testing.T) {
	t.Parallel()
	for _, body := range []string{
		`{"entry":[{"changes":[{"field":"messages","value":{"messages":[{"text":{"body":"\u00e4 \ud83d\ude00 \/"}}]}}]}]}`,
		"{ \"entry\" :\r\n [ { \"changes\":[{\"field\":\"x\",\"value\":{ \"b\":1, \"a\":\"äß😀\" }}]}]}\n",
	} {
		if w := post(newTestReceiver(t, &memory{}, nil), []byte(body), sign(testSecret, []byte(body))); w.Code != 200 {
			t.Errorf("%s: %d", body, w.Code)
		}
	}
}

func TestChunkedBodies(t *testing.T) {
	t.Parallel()
	body := statusBody("read", CallbackID{Recipient: 1})
	for name, tc := range map[string]struct {
		body io.Reader
		max  int64
		want int
	}{
		"fits":       {iotest.OneByteReader(bytes.NewReader(body)), 0, 200},
		"too large":  {iotest.OneByteReader(bytes.NewReader(body)), 100, 413},
		"broken off": {io.MultiReader(bytes.NewReader(body[:50]), iotest.ErrReader(io.ErrUnexpectedEOF)), 0, 400},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rc := newTestReceiver(t, &memory{}, func(o *ReceiverOptions) { o.MaxBody = tc.max })
			r := httptest.NewRequest(http.MethodPost, "/", tc.body)
			r.Header.Set("X-Hub-Signature-256", sign(testSecret, body))
			w := httptest.NewRecorder()
			rc.ServeHTTP(w, r)
			if w.Code != tc.want {
				t.Errorf("got %d, want %d", w.Code, tc.want)
			}
		})
	}
}

func TestNoRoomForBodies(t *testing.T) {
	t.Parallel()
	rc := newTestReceiver(t, &memory{}, func(o *ReceiverOptions) { o.MaxBody, o.MaxBytes = 1000, 1000 })
	body := bytes.Repeat([]byte(" "), 900)
	if !rc.room.TryAcquire(101) {
		t.Fatal("no room at the start")
	}
	w := post(rc, body, sign(testSecret, body))
	if w.Code != 503 || w.Header().Get("Retry-After") == "" {
		t.Errorf("got %d", w.Code)
	}
}

func TestCommitThatHangsIs503(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rc := newTestReceiver(t, &memory{hang: true}, nil)
		body := statusBody("read", CallbackID{Recipient: 1})
		start := time.Now()
		if w := post(rc, body, sign(testSecret, body)); w.Code != 503 {
			t.Errorf("got %d", w.Code)
		}
		if took := time.Since(start); took != 5*time.Second {
			t.Errorf("after %v", took)
		}
	})
}

func TestFailuresAreLoggedOnceAndNameNobody(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	sink := &memory{err: errors.New("duplicate key (" + testPhone + ", " + testMessage + ")")}
	rc := newTestReceiver(t, sink, func(o *ReceiverOptions) { o.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
	body := statusBody("read", CallbackID{Recipient: 1})
	for range 5 {
		post(rc, body, sign(testSecret, body))
	}
	sink.err = nil
	for range 5 {
		post(rc, body, sign(testSecret, body))
	}
	if n := strings.Count(log.String(), "\n"); n != 2 {
		t.Errorf("%d lines:\n%s", n, log.String())
	}
	noSecrets(t, log.String())
}

func TestDeliveredStatus(t *testing.T) {
	t.Parallel()
	sink := &memory{}
	body := statusBody("delivered", CallbackID{Recipient: 42, Claim: 3})
	post(newTestReceiver(t, sink, nil), body, sign(testSecret, body))
	want := []engine.StatusUpdate{{
		Recipient: 42, Claim: 3, Number: testNumber, Phone: "5511987654321",
		MessageID: testMessage, Status: engine.Delivered, At: time.Unix(1750030073, 0),
	}}
	if diff := cmp.Diff(want, sink.updates); diff != "" {
		t.Error(diff)
	}
	if len(sink.events) != 0 {
		t.Errorf("events: %v", sink.events)
	}
}

// A body that trickles in loses its room; a commit that takes longer than a
// body may is left alone.
func TestReadTimeoutEndsWithTheBody(t *testing.T) {
	t.Parallel()
	ended := make(chan error, 1)
	rc := newTestReceiver(t, &memory{}, func(o *ReceiverOptions) {
		o.ReadTimeout, o.CommitTimeout = 20*time.Millisecond, 100*time.Millisecond
		o.Submit = func(ctx context.Context, _ []engine.StatusUpdate, _ []engine.Event) error {
			<-ctx.Done()
			ended <- ctx.Err()
			return ctx.Err()
		}
	})
	s := serve(t, rc.ServeHTTP)
	body := statusBody("read", CallbackID{Recipient: 1})
	send := func(body io.Reader, size int64) int {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL, body)
		if err != nil {
			t.Fatal(err)
		}
		r.ContentLength = size
		r.Header.Set("X-Hub-Signature-256", sign(testSecret, statusBody("read", CallbackID{Recipient: 1})))
		res, err := s.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		return res.StatusCode
	}
	if code := send(bytes.NewReader(body), int64(len(body))); code != 503 {
		t.Errorf("slow commit: %d", code)
	}
	if err := <-ended; !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the commit ended by %v", err)
	}
	hang, hold := io.Pipe()
	defer hold.Close()
	if code := send(hang, int64(len(body))); code != 400 {
		t.Errorf("slow body: %d", code)
	}
}

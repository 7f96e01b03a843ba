package cloudapi

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
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

// tryDeliver is one POST and what becomes of it.
type tryDeliver struct {
	body       []byte
	signatures []string
	options    func(*ReceiverOptions)
	err        error // of the store
	want       int
	result     result
}

func TestDeliver(t *testing.T) {
	t.Parallel()
	body := statusBody("delivered", CallbackID{Recipient: 42, Claim: 3})
	good := []string{sign(testSecret, body)}
	size := func(n int) func(*ReceiverOptions) {
		return func(o *ReceiverOptions) { o.MaxBody, o.MaxBytes = int64(n), int64(n) }
	}
	for name, tc := range map[string]tryDeliver{
		"good":                {body: body, signatures: good, want: 200, result: resultStored},
		"new secret of two":   {body: body, signatures: []string{sign(newSecret, body)}, options: twoSecrets, want: 200, result: resultStored},
		"old secret of two":   {body: body, signatures: good, options: twoSecrets, want: 200, result: resultStored},
		"too large":           {body: body, signatures: good, options: size(len(body) - 1), want: 413, result: resultLarge},
		"as large as allowed": {body: body, signatures: good, options: size(len(body)), want: 200, result: resultStored},
		"queue full":          {body: body, signatures: good, err: fmt.Errorf("submit: %w", engine.ErrBusy), want: 503, result: resultBusy},
		"store fails":         {body: body, signatures: good, err: errors.New("disk full"), want: 503, result: resultFailed},
	} {
		t.Run(name, func(t *testing.T) { t.Parallel(); tc.run(t) })
	}
	for raw, tc := range map[string]tryDeliver{
		"{":  {want: 200, result: resultUnread},
		"{}": {want: 200, result: resultStored},
		"[":  {err: engine.ErrBusy, want: 503, result: resultBusy},
	} {
		tc.body, tc.signatures = []byte(raw), []string{sign(testSecret, []byte(raw))}
		t.Run("signed "+raw, func(t *testing.T) { t.Parallel(); tc.run(t) })
	}
}

func TestUnsignedIsNotStored(t *testing.T) {
	t.Parallel()
	body := statusBody("delivered", CallbackID{Recipient: 42, Claim: 3})
	good := sign(testSecret, body)
	for name, signatures := range map[string][]string{
		"no signature":     nil,
		"another secret":   {sign(newSecret, body)},
		"two signatures":   {good, good},
		"no prefix":        {strings.TrimPrefix(good, "sha256=")},
		"half a signature": {good[:40]},
		"empty signature":  {"sha256="},
		"not hex":          {"sha256=" + strings.Repeat("zz", 32)},
		"body rewritten":   {sign(testSecret, append([]byte(" "), body...))},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tryDeliver{body: body, signatures: signatures, want: 401, result: resultSignature}.run(t)
		})
	}
}

func (tc tryDeliver) run(t *testing.T) {
	t.Helper()
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

package cloudapi

import (
	"cmp"
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/semaphore"

	"github.com/weirhq/weir/engine"
)

// ReceiverOptions configure a Receiver. Submit, AppSecrets and CallbackKey are
// required.
type ReceiverOptions struct {
	// Submit stores what a webhook said: engine's Tracker.Submit. It returns nil
	// only after the commit, and engine.ErrBusy when its bounded queue is full.
	// The slices are its own.
	Submit func(ctx context.Context, updates []engine.StatusUpdate, events []engine.Event) error

	AppSecrets  []string // one, or two while the secret is being changed
	VerifyToken string   // of the handshake; "" refuses every handshake
	CallbackKey []byte   // the Client's
	// Wish says what a person asks for by a message with these texts, the most
	// restraining of them; some may be empty. Nil: inbound messages are only kept.
	Wish func(texts ...string) engine.Wish

	MaxBody       int64         // bytes of one body; default 4 MiB (Meta sends up to 3 MB)
	MaxBytes      int64         // bytes of all bodies at once, counted as they arrive; default 64 MiB, at least MaxBody
	ReadTimeout   time.Duration // to receive a body; default 10 s
	CommitTimeout time.Duration // to store it; default 5 s

	Registerer prometheus.Registerer // nil: metrics are kept but not registered
	Logger     *slog.Logger          // nil: silent
}

// Receiver is the HTTP handler of Meta's webhooks. It answers 200 only when
// what the body said is stored; 401 to a missing or wrong signature, of which
// nothing is stored; 413 to a body that is too large; 503 when there is no room
// or the store does not answer in time (Meta delivers again, for up to 7 days).
// A signed body that cannot be read is stored as an event and answered with
// 200, since it would otherwise come back for a week.
type Receiver struct {
	options  ReceiverOptions
	verifier *verifier
	decoder  decoder
	room     *semaphore.Weighted
	metrics  *receiverMetrics
	failing  atomic.Bool  // the last commit failed: one log line per change, not per request
	warned   atomic.Int64 // Unix seconds of the last warning about signatures
}

// NewReceiver checks the options.
func NewReceiver(o ReceiverOptions) (*Receiver, error) {
	o.MaxBody = cmp.Or(o.MaxBody, 4<<20)
	o.MaxBytes = max(cmp.Or(o.MaxBytes, 64<<20), o.MaxBody)
	o.ReadTimeout = cmp.Or(o.ReadTimeout, 10*time.Second)
	o.CommitTimeout = cmp.Or(o.CommitTimeout, 5*time.Second)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if o.Submit == nil {
		return nil, errors.New("receiver options: Submit is required")
	}
	if len(o.AppSecrets) == 0 || len(o.AppSecrets) > 2 || o.AppSecrets[0] == "" || o.AppSecrets[len(o.AppSecrets)-1] == "" {
		return nil, errors.New("receiver options: one app secret is required, two while it is being changed: set WEIR_APP_SECRET")
	}
	if len(o.CallbackKey) < minKey {
		return nil, fmt.Errorf("receiver options: %w", errShortKey)
	}
	metrics, err := newReceiverMetrics(o.Registerer)
	if err != nil {
		return nil, err
	}
	return &Receiver{
		options:  o,
		verifier: newVerifier(o.AppSecrets),
		decoder:  decoder{signer: newSigner(o.CallbackKey), metrics: metrics, wish: o.Wish},
		room:     semaphore.NewWeighted(o.MaxBytes),
		metrics:  metrics,
	}, nil
}

// result is what became of a request: a label of weir_webhook_requests_total.
type result string

const (
	resultStored    result = "stored"
	resultUnread    result = "unreadable" // signed, and kept as an event
	resultSignature result = "bad_signature"
	resultLarge     result = "too_large"
	resultBroken    result = "broken_off"
	resultBusy      result = "busy"
	resultFailed    result = "not_stored"
	resultGreeted   result = "handshake"
	resultRefused   result = "handshake_refused"
	resultMethod    result = "bad_method"
)

var results = []result{
	resultStored, resultUnread, resultSignature, resultLarge, resultBroken,
	resultBusy, resultFailed, resultGreeted, resultRefused, resultMethod,
}

// ServeHTTP answers the GET handshake and POST deliveries.
func (rc *Receiver) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	start := time.Now()
	var res result
	switch r.Method {
	case http.MethodGet:
		res = rc.handshake(w, r)
	case http.MethodPost:
		res = rc.deliver(w, r, start)
		rc.metrics.time.Observe(time.Since(start).Seconds())
	default:
		w.Header().Set("Allow", "GET, POST")
		res = answer(w, http.StatusMethodNotAllowed, resultMethod)
	}
	rc.metrics.requests[res].Inc()
}

// answer says nothing beyond the status: the caller is a machine, or a stranger.
func answer(w http.ResponseWriter, status int, res result) result {
	if status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	w.WriteHeader(status)
	return res
}

const maxChallenge = 256

// handshake proves to Meta that the address is ours, and echoes nothing for
// anyone who does not know the token.
func (rc *Receiver) handshake(w http.ResponseWriter, r *http.Request) result {
	q := r.URL.Query()
	token, challenge := q.Get("hub.verify_token"), q.Get("hub.challenge")
	same := subtle.ConstantTimeCompare([]byte(token), []byte(rc.options.VerifyToken)) == 1
	if !same || rc.options.VerifyToken == "" || q.Get("hub.mode") != "subscribe" || len(challenge) > maxChallenge {
		return answer(w, http.StatusForbidden, resultRefused)
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	_, _ = io.WriteString(w, challenge) // a caller that has left asks again
	return resultGreeted
}

func (rc *Receiver) deliver(w http.ResponseWriter, r *http.Request, now time.Time) result {
	// Slow callers are ended, also those whose body is not wanted: net/http reads
	// it all the same, and lifts the deadline once it has it. Where w has none
	// (in tests) the server's own ReadTimeout stands alone.
	_ = http.NewResponseController(w).SetReadDeadline(now.Add(rc.options.ReadTimeout))
	sum, ok := signature(r.Header)
	if !ok { // a stranger, who gets no room
		return answer(w, http.StatusUnauthorized, resultSignature)
	}
	in := intake{room: rc.room}
	defer in.leave()
	if status, res := rc.take(&in, w, r); status != http.StatusOK {
		return answer(w, status, res)
	}
	if !rc.verifier.verify(sum, in.body) {
		rc.warnSignature(now)
		return answer(w, http.StatusUnauthorized, resultSignature)
	}
	d := rc.decoder.decode(in.body, now)
	status, res := rc.store(r.Context(), d)
	return answer(w, status, res)
}

// warnEvery bounds the warnings that strangers can cause.
const warnEvery = 60 // seconds

// warnSignature tells an operator whose app secret is wrong: every webhook is
// refused then, and nothing else would say so.
func (rc *Receiver) warnSignature(now time.Time) {
	last := rc.warned.Load()
	if now.Unix()-last >= warnEvery && rc.warned.CompareAndSwap(last, now.Unix()) {
		rc.options.Logger.Warn("a webhook's signature does not match; if all are refused, WEIR_APP_SECRET is not the app's secret")
	}
}

// take reads the body; its status is 200 when all of it is there.
func (rc *Receiver) take(in *intake, w http.ResponseWriter, r *http.Request) (int, result) {
	limit := rc.options.MaxBody
	if r.ContentLength > limit {
		return http.StatusRequestEntityTooLarge, resultLarge
	}
	if r.ContentLength >= 0 { // else chunked: it may become as large as allowed
		limit = r.ContentLength
	}
	err := in.fill(w, r.Body, limit)
	var large *http.MaxBytesError
	switch {
	case errors.Is(err, errNoRoom):
		return http.StatusServiceUnavailable, resultBusy
	case errors.As(err, &large):
		return http.StatusRequestEntityTooLarge, resultLarge
	case err != nil:
		return http.StatusBadRequest, resultBroken
	}
	return http.StatusOK, resultStored
}

func (rc *Receiver) store(ctx context.Context, d delivery) (int, result) {
	ctx, cancel := context.WithTimeout(ctx, rc.options.CommitTimeout)
	defer cancel()
	var err error
	if len(d.updates)+len(d.events) > 0 {
		err = rc.options.Submit(ctx, d.updates, d.events)
	}
	switch {
	case err == nil:
		if rc.failing.CompareAndSwap(true, false) {
			rc.options.Logger.Info("webhooks are stored again")
		}
		if d.unreadable {
			return http.StatusOK, resultUnread
		}
		return http.StatusOK, resultStored
	case errors.Is(err, engine.ErrBusy):
		return http.StatusServiceUnavailable, resultBusy
	default:
		if !errors.Is(err, context.Canceled) && rc.failing.CompareAndSwap(false, true) {
			// The error's text is the store's and may quote what it could not store.
			rc.options.Logger.Error("webhooks cannot be stored; Meta will deliver them again", "timeout", errors.Is(err, context.DeadlineExceeded))
		}
		return http.StatusServiceUnavailable, resultFailed
	}
}

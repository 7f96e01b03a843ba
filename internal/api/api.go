// Package api hides the HTTP that Weir serves to others: health for whoever
// runs it, metrics for Prometheus, the place where the webhook receiver hangs,
// and the breakers for other systems. It promises that /readyz tells the truth
// about whether this node can work and that /v1 opens to the token alone, and
// never serves anything of a recipient's, nor to strangers what an
// error says of the database.
//
// Other systems follow a breaker by its events, which are numbered 1, 2, 3, …
// within an epoch:
//
//	GET /v1/breakers                                   how all stand, each with its mark, EPOCH.SEQ
//	GET /v1/breakers/{scope}/events?after=EPOCH.SEQ    what it did since, oldest first, and the next mark
//	    &limit=100                                     at most so many, up to 1000
//	    &wait=30                                       seconds to wait for the first, up to 30
//	POST /v1/breakers/{scope}                          hold it for a time
//
// Without after a feed begins with the oldest event of the present epoch, of 90
// days. Who passes next on as after gets every event once and in order. An answer
// is never a later event than the next one; where the feed does not lead on, it is
// an error with how the breaker stands: 409 "restarted", another database answers
// (a fail-over, a restore), and the numbers begin anew under another epoch; 409
// "ahead", nobody can have been told of that mark in this epoch; 410 "forgotten",
// the events are too old. The follower takes the breaker as it stands and goes on
// from its mark. Of notices, which may come twice, a seq that is not above the
// last of its epoch is one that was seen.
package api

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"time"

	"github.com/weirhq/weir/internal/store"
)

// Options of a Handler. The zero value serves health alone.
type Options struct {
	Webhooks http.Handler // GET handshake and POST statuses at /webhooks/whatsapp
	Metrics  http.Handler // at /metrics
	// Ready says why this node cannot work; nil is ready. It has 2 s. Its error
	// goes to the log: /readyz gives strangers a few fixed words, others when
	// the error wraps ErrSchema.
	Ready  func(ctx context.Context) error
	Logger *slog.Logger // nil: silent

	// Token is what callers of /v1 name in Authorization: Bearer; "" serves no
	// /v1 at all. Force holds a breaker for a time, Breakers tells how all stand
	// and Events what one did, as the store's methods do.
	Token    string
	Force    func(ctx context.Context, f store.Force) error
	Breakers func(ctx context.Context) ([]store.BreakerInfo, error)
	Events   func(ctx context.Context, scope string, after store.Mark, most int) ([]store.BreakerEvent, store.Mark, error)
	// Leaving is closed when the node leaves: who waits for an event is answered.
	Leaving <-chan struct{}
}

// Handler routes /webhooks/whatsapp, /metrics, /healthz and /readyz, and with a
// token /v1.
func Handler(opts Options) http.Handler {
	opts.Logger = cmp.Or(opts.Logger, slog.New(slog.DiscardHandler))
	mux := http.NewServeMux()
	if opts.Webhooks != nil {
		mux.Handle("/webhooks/whatsapp", opts.Webhooks)
	}
	if opts.Metrics != nil {
		mux.Handle("GET /metrics", opts.Metrics)
	}
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, map[string]string{"status": "ok"})
	})
	mux.Handle("GET /readyz", &readiness{ask: opts.Ready, log: opts.Logger})
	if opts.Token != "" {
		routeBreakers(mux, opts)
	}
	return mux
}

func routeBreakers(mux *http.ServeMux, opts Options) {
	if opts.Force != nil {
		mux.Handle("POST /v1/breakers/{scope}", authorized(opts.Token, &forcing{force: opts.Force, log: opts.Logger}))
	}
	if opts.Breakers == nil || opts.Events == nil {
		return
	}
	h := &following{
		list: opts.Breakers, events: opts.Events, leaving: opts.Leaving, log: opts.Logger,
		waiters: make(chan struct{}, mostWaiters),
	}
	mux.Handle("GET /v1/breakers", authorized(opts.Token, http.HandlerFunc(h.all)))
	mux.Handle("GET /v1/breakers/{scope}/events", authorized(opts.Token, http.HandlerFunc(h.feed)))
}

// Server is an http.Server with limits that keep slow or greedy peers from
// holding it: headers within 5 s and 16 KiB, bodies within 15 s.
func Server(h http.Handler) *http.Server {
	return &http.Server{
		Handler: h, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 15 * time.Second,
		WriteTimeout: 30 * time.Second, IdleTimeout: 60 * time.Second, MaxHeaderBytes: 16 << 10,
	}
}

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the peer's going away is the peer's business
}

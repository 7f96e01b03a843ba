// Package api hides the HTTP that Weir serves to others: health for whoever
// runs it, metrics for Prometheus, the place where the webhook receiver hangs,
// and the breakers for other systems. It promises that /readyz tells the truth
// about whether this node can work and that /v1 opens to the token alone, and
// never serves anything of a recipient's, nor to strangers what an
// error says of the database.
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
	// /v1 at all. Force holds a breaker for a time.
	Token string
	Force func(ctx context.Context, f store.Force) error
}

// Handler routes /webhooks/whatsapp, /metrics, /healthz and /readyz, and with a
// token POST /v1/breakers/{scope}.
func Handler(opts Options) http.Handler {
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
	if opts.Token != "" && opts.Force != nil {
		mux.Handle("POST /v1/breakers/{scope}", authorized(opts.Token, &forcing{
			force: opts.Force, log: cmp.Or(opts.Logger, slog.New(slog.DiscardHandler)),
		}))
	}
	mux.Handle("GET /readyz", &readiness{ask: opts.Ready, log: cmp.Or(opts.Logger, slog.New(slog.DiscardHandler))})
	return mux
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

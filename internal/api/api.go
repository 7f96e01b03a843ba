// Package api hides the HTTP that Weir serves to others: health for whoever
// runs it, metrics for Prometheus, and the place where the webhook receiver
// hangs. It promises that /readyz tells the truth about whether this node can
// work, and never serves anything of a recipient's, nor to strangers what an
// error says of the database.
package api

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"time"
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
}

// Handler routes /webhooks/whatsapp, /metrics, /healthz and /readyz.
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

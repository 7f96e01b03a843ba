package api

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/weirhq/weir/engine"
	"github.com/weirhq/weir/internal/store"
)

const mostForce = 4 << 10 // bytes of a request to force a breaker

// authorized lets through who names the token. Both are hashed first, so that
// neither its length nor how much of it was right shows in the time.
func authorized(token string, next http.Handler) http.Handler {
	want := sha256.Sum256([]byte(token))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		given, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		got := sha256.Sum256([]byte(given))
		if !ok || subtle.ConstantTimeCompare(got[:], want[:]) != 1 {
			w.Header().Set("WWW-Authenticate", "Bearer")
			answer(w, http.StatusUnauthorized, map[string]string{"error": "needs the header Authorization: Bearer WEIR_API_TOKEN"})
			return
		}
		next.ServeHTTP(w, r)
	})
}

// forcing answers POST /v1/breakers/{scope}: an operator's tool, or another
// system that was told to slow down, holds a breaker for a time.
type forcing struct {
	force func(ctx context.Context, f store.Force) error
	log   *slog.Logger
}

// forceRequest is its body: {"state": "open", "for": "10m", "reason": "…"}.
type forceRequest struct {
	State  string `json:"state"`
	For    string `json:"for"`
	Reason string `json:"reason"`
}

func (h *forcing) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f, problem := readForce(http.MaxBytesReader(w, r.Body, mostForce), r.PathValue("scope"))
	if problem != "" {
		answer(w, http.StatusBadRequest, map[string]string{"error": problem})
		return
	}
	switch err := h.force(r.Context(), f); {
	case err == nil:
		h.log.WarnContext(r.Context(), "breaker forced over HTTP", "scope", f.Scope, "state", f.State.String(), "for", f.For)
		answer(w, http.StatusOK, map[string]string{"scope": f.Scope, "state": f.State.String(), "for": f.For.String()})
	case errors.Is(err, store.ErrNotFound):
		answer(w, http.StatusNotFound, map[string]string{"error": err.Error()})
	case errors.Is(err, store.ErrRefused):
		answer(w, http.StatusBadRequest, map[string]string{"error": err.Error()})
	default:
		h.log.ErrorContext(r.Context(), "breaker not forced", "scope", f.Scope, "err", err)
		answer(w, http.StatusServiceUnavailable, map[string]string{"error": reasonDatabase + "; try again"})
	}
}

func readForce(body io.Reader, scope string) (f store.Force, problem string) {
	var req forceRequest
	dec := json.NewDecoder(body)
	dec.DisallowUnknownFields()
	if err := dec.Decode(&req); err != nil {
		return f, `the body must be JSON like {"state": "open", "for": "10m", "reason": "why"}`
	}
	state, err := engine.ParseBreakerState(req.State)
	if err != nil {
		return f, `state must be "open" or "closed"`
	}
	d, err := time.ParseDuration(req.For)
	if err != nil {
		return f, `for must be a time like "90s" or "10m"`
	}
	return store.Force{Scope: scope, State: state, For: d, Note: req.Reason, Who: "another system, over HTTP"}, ""
}

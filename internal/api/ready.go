package api

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"
)

// ErrSchema marks an error of Options.Ready that means another schema than
// this binary's; every other one means that the database cannot be used.
var ErrSchema = errors.New("database schema does not match this weir")

const readyTimeout = 2 * time.Second

// The reasons that a stranger may read. Errors name hosts, users and databases.
const (
	reasonDatabase = "database not reachable"
	reasonSchema   = "schema does not match"
)

// readiness answers /readyz.
type readiness struct {
	ask  func(ctx context.Context) error
	log  *slog.Logger
	said atomic.Value // the last reason, "" for ready: one log line per change, however often strangers ask
}

func (h *readiness) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	err := h.check(r.Context())
	if r.Context().Err() != nil {
		return // whoever asked has left, which says nothing of the database
	}
	reason := reasonFor(err)
	h.tell(r.Context(), reason, err)
	if reason != "" {
		answer(w, http.StatusServiceUnavailable, map[string]string{"status": "not ready", "reason": reason})
		return
	}
	answer(w, http.StatusOK, map[string]string{"status": "ready"})
}

func (h *readiness) check(ctx context.Context) error {
	if h.ask == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	return h.ask(ctx)
}

func reasonFor(err error) string {
	switch {
	case err == nil:
		return ""
	case errors.Is(err, ErrSchema):
		return reasonSchema
	default:
		return reasonDatabase
	}
}

// tell logs what has changed since the last answer.
func (h *readiness) tell(ctx context.Context, reason string, err error) {
	last, _ := h.said.Swap(reason).(string)
	switch {
	case last == reason:
	case err == nil:
		h.log.InfoContext(ctx, "node is ready again")
	default:
		h.log.ErrorContext(ctx, "node is not ready", "reason", reason, "err", err)
	}
}

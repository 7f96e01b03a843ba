package api

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestReadyTellsStrangersNothing: the error is for the log, once per change.
func TestReadyTellsStrangersNothing(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	var sick error
	h := Handler(Options{
		Ready:  func(context.Context) error { return sick },
		Logger: slog.New(slog.NewTextHandler(&log, nil)),
	})
	ask := func(ctx context.Context) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/readyz", nil).WithContext(ctx))
		return w
	}
	ask(t.Context())
	if log.Len() != 0 {
		t.Errorf("ready from the start, and logged: %s", log.String())
	}
	const secret = "failed to connect to host=10.0.0.5 user=weir_app database=campaigns"
	sick = errors.New(secret)
	for range 3 {
		w := ask(t.Context())
		if body := w.Body.String(); w.Code != 503 || body != `{"reason":"database not reachable","status":"not ready"}`+"\n" {
			t.Errorf("a stranger reads %d %s", w.Code, body)
		}
	}
	if n := strings.Count(log.String(), secret); n != 1 {
		t.Errorf("the error is in the log %d times:\n%s", n, log.String())
	}
	left, leave := context.WithCancel(t.Context())
	leave()
	sick = nil
	ask(left)
	if strings.Contains(log.String(), "again") {
		t.Error("the answer to one who has left was logged")
	}
	ask(t.Context())
	if n := strings.Count(log.String(), "\n"); n != 2 || !strings.Contains(log.String(), "ready again") {
		t.Errorf("log:\n%s", log.String())
	}
}

// TestReadyIsBounded: a check that hangs makes the node not ready, soon.
func TestReadyIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := Handler(Options{Ready: func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }})
		w := httptest.NewRecorder()
		start := time.Now()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/readyz", nil))
		if took := time.Since(start); w.Code != http.StatusServiceUnavailable || took != readyTimeout {
			t.Errorf("a hanging check answered %d after %v, want 503 after %v", w.Code, took, readyTimeout)
		}
	})
}

package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestHandler(t *testing.T) {
	t.Parallel()
	var sick error
	h := Handler(Options{
		Webhooks: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }),
		Metrics:  http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("weir_up 1")) }),
		Ready:    func(context.Context) error { return sick },
	})
	for _, tc := range []struct {
		method, path string
		sick         error
		code         int
		body         string
	}{
		{"GET", "/healthz", nil, 200, `"ok"`},
		{"GET", "/healthz", errors.New("database is away"), 200, `"ok"`},
		{"GET", "/readyz", nil, 200, `"ready"`},
		{"GET", "/readyz", errors.New("database is away"), 503, `"database not reachable"`},
		{"GET", "/readyz", fmt.Errorf("%w: version 3", ErrSchema), 503, `"schema does not match"`},
		{"GET", "/metrics", nil, 200, "weir_up 1"},
		{"POST", "/webhooks/whatsapp", nil, http.StatusTeapot, ""},
		{"GET", "/webhooks/whatsapp", nil, http.StatusTeapot, ""},
		{"POST", "/healthz", nil, http.StatusMethodNotAllowed, ""},
		{"GET", "/", nil, http.StatusNotFound, ""},
	} {
		sick = tc.sick
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(tc.method, tc.path, nil))
		if w.Code != tc.code || !strings.Contains(w.Body.String(), tc.body) {
			t.Errorf("%s %s (ready: %v) = %d %q, want %d with %q", tc.method, tc.path, tc.sick, w.Code, w.Body, tc.code, tc.body)
		}
	}
}

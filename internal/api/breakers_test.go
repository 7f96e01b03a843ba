package api

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/engine"
	"github.com/weirhq/weir/internal/store"
)

func TestForcingABreaker(t *testing.T) {
	t.Parallel()
	const token = "0123456789abcdef"
	var got []store.Force
	var says error
	h := Handler(Options{Token: token, Force: func(_ context.Context, f store.Force) error {
		got = append(got, f)
		return says
	}})
	const good = `{"state": "open", "for": "10m", "reason": "slow down"}`
	for _, tc := range []struct {
		name, auth, scope, body string
		says                    error
		code, calls             int
		words                   string
	}{
		{"good", "Bearer " + token, "host", good, nil, 200, 1, `"for":"10m0s"`},
		{"a number", "Bearer " + token, "number:1", strings.Replace(good, "open", "closed", 1), nil, 200, 1, `"state":"closed"`},
		{"no token", "", "host", good, nil, 401, 0, "WEIR_API_TOKEN"},
		{"wrong token", "Bearer " + token + "0", "host", good, nil, 401, 0, "WEIR_API_TOKEN"},
		{"empty token", "Bearer ", "host", good, nil, 401, 0, "WEIR_API_TOKEN"},
		{"another scheme", "Basic " + token, "host", good, nil, 401, 0, "WEIR_API_TOKEN"},
		{"no JSON", "Bearer " + token, "host", "open", nil, 400, 0, "JSON like"},
		{"unknown field", "Bearer " + token, "host", `{"status": "open"}`, nil, 400, 0, "JSON like"},
		{"too long", "Bearer " + token, "host", `{"reason": "` + strings.Repeat("x", mostForce) + `"}`, nil, 400, 0, "JSON like"},
		{"no such state", "Bearer " + token, "host", strings.Replace(good, "open", "ajar", 1), nil, 400, 0, `\"open\" or \"closed\"`},
		{"no time", "Bearer " + token, "host", `{"state": "open", "reason": "x"}`, nil, 400, 0, "10m"},
		{"refused", "Bearer " + token, "host", good, fmt.Errorf("%w: too long", store.ErrRefused), 400, 1, "too long"},
		{"no such breaker", "Bearer " + token, "number:7", good, fmt.Errorf("%w: breaker list", store.ErrNotFound), 404, 1, "breaker list"},
		{"database away", "Bearer " + token, "host", good, errors.New("dial tcp 10.0.0.7"), 503, 1, "database not reachable"},
	} {
		got, says = nil, tc.says
		r := httptest.NewRequest("POST", "/v1/breakers/"+tc.scope, strings.NewReader(tc.body))
		r.Header.Set("Authorization", tc.auth)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != tc.code || len(got) != tc.calls || !strings.Contains(w.Body.String(), tc.words) || strings.Contains(w.Body.String(), "10.0.0.7") {
			t.Errorf("%s: %d %q after %d calls", tc.name, w.Code, w.Body, len(got))
		}
		if tc.name == "good" && (len(got) != 1 || got[0] != store.Force{Scope: "host", State: engine.BreakerOpen, For: 10 * time.Minute, Note: "slow down", Who: "another system, over HTTP"}) {
			t.Errorf("forced %+v", got)
		}
	}
	w := httptest.NewRecorder()
	Handler(Options{Force: func(context.Context, store.Force) error { return nil }}).
		ServeHTTP(w, httptest.NewRequest("POST", "/v1/breakers/host", strings.NewReader(good)))
	if w.Code != 404 {
		t.Errorf("without a token /v1 answers %d", w.Code)
	}
}

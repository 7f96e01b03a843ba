package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirhq/weir/engine"
	"github.com/weirhq/weir/internal/store"
)

const (
	feedToken = "0123456789abcdef"
	epochA    = "aaaaaaaa-0000-4000-8000-000000000000"
)

func moveA(seq int64) store.BreakerEvent {
	return store.BreakerEvent{
		Mark: store.Mark{Epoch: epochA, Seq: seq}, At: time.Date(2026, 12, 1, 8, 30, 0, 5e8, time.UTC),
		Prev: "closed", State: "open", Reason: "ratio", Samples: 60, Failures: 20, Reporters: 2,
	}
}

// script is a feed whose answers a test sets; asked are the requests that reached it.
type script struct {
	asked  atomic.Int32
	answer func(nth int32, scope string, after store.Mark, most int) ([]store.BreakerEvent, store.Mark, error)
	list   error
}

func (s *script) options() Options {
	return Options{
		Token: feedToken,
		Breakers: func(context.Context) ([]store.BreakerInfo, error) {
			return []store.BreakerInfo{
				{Scope: "host", State: engine.BreakerOpen, Epoch: epochA, Seq: 7, Reason: "ratio", Openings: 2, MeanOpen: 3 * time.Second},
				{Scope: "number:1", Epoch: epochA},
			}, s.list
		},
		Events: func(_ context.Context, scope string, after store.Mark, most int) ([]store.BreakerEvent, store.Mark, error) {
			return s.answer(s.asked.Add(1), scope, after, most)
		},
	}
}

func get(h http.Handler, auth, target string) *httptest.ResponseRecorder {
	r := httptest.NewRequest("GET", target, nil)
	r.Header.Set("Authorization", auth)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestTheFeedOfABreaker(t *testing.T) {
	t.Parallel()
	const good, events = "Bearer " + feedToken, "/v1/breakers/host/events"
	const stands = `"breaker":{"scope":"host","state":"open"`
	var says error
	s := &script{answer: func(_ int32, scope string, after store.Mark, most int) ([]store.BreakerEvent, store.Mark, error) {
		if scope != "host" || most != 100 && most != 7 || after != (store.Mark{}) && after != (store.Mark{Epoch: epochA, Seq: 3}) {
			t.Errorf("asked for %d of %s after %v", most, scope, after)
		}
		return []store.BreakerEvent{moveA(4)}, store.Mark{Epoch: epochA, Seq: 4}, says
	}}
	h := Handler(s.options())
	for _, tc := range []struct {
		name, auth, target string
		says, list         error
		code, calls        int
		words              string
	}{
		{"all", good, "/v1/breakers", nil, nil, 200, 0, `{"breakers":[{"scope":"host","state":"open"`},
		{"all, database away", good, "/v1/breakers", nil, errors.New("dial 10.0.0.7"), 503, 0, "database not reachable"},
		{"all, a stranger", "", "/v1/breakers", nil, nil, 401, 0, "WEIR_API_TOKEN"},
		{"events", good, events, nil, nil, 200, 1, `"next":"` + epochA + `.4"`},
		{"after", good, events + "?after=" + epochA + ".3&limit=7&wait=30", nil, nil, 200, 1, `"seq":4,"at":"2026-12-01T08:30:00.5Z"`},
		{"a stranger", "Bearer x", events, nil, nil, 401, 0, "WEIR_API_TOKEN"},
		{"no mark", good, events + "?after=7", nil, nil, 400, 0, "EPOCH.SEQ"},
		{"below zero", good, events + "?after=" + epochA + ".-1", nil, nil, 400, 0, "EPOCH.SEQ"},
		{"no limit", good, events + "?limit=0", nil, nil, 400, 0, "from 1 to 1000"},
		{"too many", good, events + "?limit=1001", nil, nil, 400, 0, "at most 1000"},
		{"too long", good, events + "?wait=31", nil, nil, 400, 0, "at most 30"},
		{"no such parameter", good, events + "?since=1", nil, nil, 400, 0, "after, limit and wait"},
		{"no such breaker", good, events, store.ErrNotFound, nil, 404, 1, "not found"},
		{"restarted", good, events, store.ErrRestarted, nil, 409, 1, `"cause":"restarted",` + stands},
		{"ahead", good, events, store.ErrAhead, nil, 409, 1, `"cause":"ahead",` + stands},
		{"forgotten", good, events, store.ErrForgotten, nil, 410, 1, `"cause":"forgotten",` + stands},
		{"away", good, events, errors.New("dial 10.0.0.7"), nil, 503, 1, "database not reachable"},
		{"away for the rest", good, events, store.ErrAhead, errors.New("dial 10.0.0.7"), 503, 1, "database not reachable"},
	} {
		says, s.list = tc.says, tc.list
		s.asked.Store(0)
		w := get(h, tc.auth, tc.target)
		if body := w.Body.String(); w.Code != tc.code || int(s.asked.Load()) != tc.calls || !strings.Contains(body, tc.words) || strings.Contains(body, "10.0.0.7") {
			t.Errorf("%s: %d %s after %d looks, want %d with %s", tc.name, w.Code, body, s.asked.Load(), tc.code, tc.words)
		}
	}
	opts := s.options()
	opts.Token = ""
	if w := get(Handler(opts), "Bearer ", "/v1/breakers"); w.Code != 404 {
		t.Errorf("without a token /v1 answers %d", w.Code)
	}
}

// TestTheFeedInJSON: what followers read is a promise.
func TestTheFeedInJSON(t *testing.T) {
	t.Parallel()
	s := &script{answer: func(int32, string, store.Mark, int) ([]store.BreakerEvent, store.Mark, error) {
		return []store.BreakerEvent{moveA(4)}, store.Mark{Epoch: epochA, Seq: 4}, nil
	}}
	var got, want any
	if err := json.Unmarshal(get(Handler(s.options()), "Bearer "+feedToken, "/v1/breakers/host/events").Body.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	_ = json.Unmarshal([]byte(`{"scope": "host", "next": "`+epochA+`.4", "events": [{"epoch": "`+epochA+`", "seq": 4, "at": "2026-12-01T08:30:00.5Z",
		"prev": "closed", "state": "open", "reason": "ratio", "samples": 60, "failures": 20, "reporters": 2}]}`), &want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestWaitingForAnEvent: who waits is answered by the event, by the end of the
// time, by the node's leaving or by what is wrong, and beyond the waiters there
// is room for at once.
func TestWaitingForAnEvent(t *testing.T) {
	t.Parallel()
	at := store.Mark{Epoch: epochA, Seq: 3}
	nothing := func() ([]store.BreakerEvent, store.Mark, error) { return nil, at, nil }
	wait := func(s *script, opts Options) (*httptest.ResponseRecorder, time.Duration) {
		start := time.Now()
		w := get(Handler(opts), "Bearer "+feedToken, "/v1/breakers/host/events?wait=20")
		return w, time.Since(start)
	}
	for name, tc := range map[string]struct {
		third   func() ([]store.BreakerEvent, store.Mark, error)
		leave   time.Duration
		code    int
		took    time.Duration
		looks   int32
		content string
	}{
		"nothing comes": {nothing, 0, 200, 20 * time.Second, 21, `"events":[],"next":"` + at.String()},
		"one comes": {func() ([]store.BreakerEvent, store.Mark, error) {
			return []store.BreakerEvent{moveA(4)}, store.Mark{Epoch: epochA, Seq: 4}, nil
		}, 0, 200, 2 * time.Second, 3, `"seq":4`},
		"a fail-over":     {func() ([]store.BreakerEvent, store.Mark, error) { return nil, at, store.ErrRestarted }, 0, 409, 2 * time.Second, 3, "restarted"},
		"the node leaves": {nothing, 4500 * time.Millisecond, 200, 4500 * time.Millisecond, 5, `"events":[]`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &script{answer: func(nth int32, _ string, after store.Mark, _ int) ([]store.BreakerEvent, store.Mark, error) {
					switch {
					case nth > 1 && after != at:
						t.Errorf("look %d is from %v, want from where the first came to", nth, after)
					case nth >= 3:
						return tc.third()
					}
					return nothing()
				}}
				opts := s.options()
				if tc.leave > 0 {
					leaving := make(chan struct{})
					opts.Leaving = leaving
					time.AfterFunc(tc.leave, func() { close(leaving) })
				}
				w, took := wait(s, opts)
				if w.Code != tc.code || took != tc.took || s.asked.Load() != tc.looks || !strings.Contains(w.Body.String(), tc.content) {
					t.Errorf("%d %s after %v and %d looks, want %d after %v and %d", w.Code, w.Body, took, s.asked.Load(), tc.code, tc.took, tc.looks)
				}
			})
		})
	}
}

// TestWaitersAreBounded: they cost a look a second each.
func TestWaitersAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &script{answer: func(int32, string, store.Mark, int) ([]store.BreakerEvent, store.Mark, error) {
			return nil, store.Mark{Epoch: epochA, Seq: 3}, nil
		}}
		h := Handler(s.options())
		var done atomic.Int32
		for range mostWaiters + 5 {
			go func() {
				get(h, "Bearer "+feedToken, "/v1/breakers/host/events?wait=20")
				done.Add(1)
			}()
		}
		synctest.Wait()
		if done.Load() != 5 {
			t.Errorf("%d are answered at once, want the 5 beyond those who may wait", done.Load())
		}
		time.Sleep(20 * time.Second)
		synctest.Wait()
		if done.Load() != mostWaiters+5 {
			t.Errorf("%d are answered in the end", done.Load())
		}
		get(h, "Bearer "+feedToken, "/v1/breakers/host/events?wait=1") // the places are free again
	})
}

// patient is a connection whose deadlines can be moved.
type patient struct {
	*httptest.ResponseRecorder
	read, write time.Time
}

func (p *patient) SetReadDeadline(t time.Time) error  { p.read = t; return nil }
func (p *patient) SetWriteDeadline(t time.Time) error { p.write = t; return nil }

// TestAWaitOutlastsTheServersDeadlines: Server's own would cut it off after 15 s.
func TestAWaitOutlastsTheServersDeadlines(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &script{answer: func(int32, string, store.Mark, int) ([]store.BreakerEvent, store.Mark, error) {
			return nil, store.Mark{Epoch: epochA, Seq: 3}, nil
		}}
		r := httptest.NewRequest("GET", "/v1/breakers/host/events?wait=30", nil)
		r.Header.Set("Authorization", "Bearer "+feedToken)
		w := &patient{ResponseRecorder: httptest.NewRecorder()}
		Handler(s.options()).ServeHTTP(w, r)
		if now := time.Now(); !w.read.After(now) || !w.write.After(now) {
			t.Errorf("the wait ends at %v, and the connection's deadlines are %v and %v", now, w.read, w.write)
		}
	})
}

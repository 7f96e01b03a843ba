package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/weirhq/weir/internal/notify"
)

const listenerSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// listener is somebody else's server: it keeps what it took, and how often it
// refused.
type listener struct {
	*httptest.Server
	mu      sync.Mutex
	took    []hook
	refused int
	refuse  func(nth int) bool // of its requests, from 1
	nth     int
}

type hook struct {
	id   string
	body string
	Type string
	Data struct {
		Seq   int64
		Facts map[string]any
	}
}

func newListener(t *testing.T, refuse func(nth int) bool) *listener {
	t.Helper()
	l := &listener{refuse: refuse}
	l.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		h := hook{id: r.Header.Get("webhook-id"), body: string(body)}
		if err = errors.Join(err, json.Unmarshal(body, &h)); err != nil {
			t.Errorf("%s: %v", body, err)
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.nth++; l.refuse != nil && l.refuse(l.nth) {
			l.refused++
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		l.took = append(l.took, h)
	}))
	t.Cleanup(l.Close)
	return l
}

func (l *listener) endpoint(t *testing.T) *notify.Endpoint {
	t.Helper()
	e, err := notify.NewWebhook(l.URL, []string{listenerSecret}, notify.Options{Private: true, Timeout: 2 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func (l *listener) all() []hook {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.took)
}

// last is the greatest number it has taken.
func (l *listener) last() (seq int64) {
	for _, h := range l.all() {
		seq = max(seq, h.Data.Seq)
	}
	return seq
}

// inOrder holds what was taken to what is promised: every notice at least once,
// first times in order, and every time the same.
func (l *listener) inOrder(t *testing.T, n int64) {
	t.Helper()
	first := map[string]hook{}
	var last int64
	for _, h := range l.all() {
		if before, again := first[h.id]; again {
			if before.body != h.body {
				t.Errorf("notice %d was told twice, differently:\n%s\n%s", h.Data.Seq, before.body, h.body)
			}
			continue
		}
		if first[h.id] = h; h.Data.Seq != last+1 || h.Type != "k" {
			t.Errorf("notice %d (%s) came after %d", h.Data.Seq, h.Type, last)
		}
		last = h.Data.Seq
	}
	if last != n {
		t.Errorf("the last notice told is %d, want %d", last, n)
	}
}

// newHanging is a server that answers nothing, and says that it was asked.
func newHanging(t *testing.T, asked *atomic.Bool) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // a server hears that its peer has left once it has read all
		if asked != nil {
			asked.Store(true)
		}
		<-r.Context().Done()
	}))
	t.Cleanup(server.Close)
	return server
}

func (s *stage) notices(n int) {
	s.t.Helper()
	s.exec(fmt.Sprintf(`INSERT INTO notices (kind, subject, body) SELECT 'k', 'x', jsonb_build_object('i', i) FROM generate_series(1, %d) i`, n))
}

// TestNoticesAreDelivered: two nodes, a receiver that refuses now and then, and
// a third node that died with the claim in its hands and left its job running.
func TestNoticesAreDelivered(t *testing.T) {
	t.Parallel()
	s := newStage(t, time.Time{})
	const n = 60
	l := newListener(t, func(nth int) bool { return nth == 3 || nth == 40 })
	e := l.endpoint(t)
	opts := Options{Store: s.Store, TendEvery: time.Second, Endpoints: []*notify.Endpoint{e}, hold: 3 * time.Second}
	if err := see(t.Context(), opts); err != nil {
		t.Fatal(err)
	}
	s.notices(n)
	if _, err := s.GatherNotices(t.Context()); err != nil {
		t.Fatal(err)
	}
	due, err := s.DueEndpoints(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	client, err := river.NewClient(riverpgxv5.New(s.Pool()), &river.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Insert(t.Context(), deliverArgs{Endpoint: e.Key(), After: due[e.Key()]}, nil); err != nil {
		t.Fatal(err)
	}
	if _, taken, err := s.ClaimEndpoint(t.Context(), e.Key(), opts.hold); err != nil || !taken {
		t.Fatalf("claim: %v %v", taken, err)
	}
	s.exec(`UPDATE river_job SET state = 'running', attempt = 1, attempted_at = now(), attempted_by = ARRAY['a dead node']`)
	s.runWith(opts)
	s.runWith(opts)
	s.until("not everything was told", func() bool { return l.last() == n })
	l.inOrder(t, n)
	if l.refused != 2 {
		t.Errorf("%d refusals, want the 2 that were made: the others must have waited", l.refused)
	}
}

// TestOneEndpointsTroubleIsNotTheOthers: one refuses all, five hang, and another
// is told; an endpoint that only another node knows waits for that node.
func TestOneEndpointsTroubleIsNotTheOthers(t *testing.T) {
	t.Parallel()
	s := newStage(t, time.Time{})
	hanging := newHanging(t, nil)
	refusing, taking := newListener(t, func(int) bool { return true }), newListener(t, nil)
	opts := Options{Store: s.Store, TendEvery: time.Second, Endpoints: []*notify.Endpoint{refusing.endpoint(t), taking.endpoint(t)}}
	for i := range 5 { // more than the workers that all share
		e, err := notify.NewWebhook(fmt.Sprint(hanging.URL, "/", i), []string{listenerSecret}, notify.Options{Private: true})
		if err != nil {
			t.Fatal(err)
		}
		opts.Endpoints = append(opts.Endpoints, e)
	}
	if err := s.SeeEndpoints(t.Context(), map[string]string{"0123456789abcdef0123456789abcdef": "another node's"}); err != nil {
		t.Fatal(err)
	}
	s.runWith(opts)
	s.until("the endpoints are not seen", func() bool { return s.scalar(`SELECT count(*) FROM notice_endpoints`) == 8 })
	s.notices(5)
	const theirs = `SELECT count(*) FILTER (WHERE state = 'available') * 1000 + count(*) FROM river_job WHERE args ->> 'endpoint' = '0123456789abcdef0123456789abcdef'`
	s.until("the good one is not told", func() bool { return taking.last() == 5 })
	s.until("the bad one was not tried again", func() bool { return s.scalar(`SELECT max(failures) FROM notice_endpoints`) >= 2 })
	if n := s.scalar(`SELECT count(*) FROM notice_endpoints WHERE trouble LIKE '%answered 503%' AND seq = 0`); n != 1 {
		t.Error("an endpoint that refuses moved on, or its trouble is not noted")
	}
	s.until("another node's endpoint has no job", func() bool { return s.scalar(theirs) > 0 })
	if n := s.scalar(theirs); n != 1001 {
		t.Errorf("another node's endpoint has jobs × 1000 + waiting = %d, want one that waits", n)
	}
}

// TestWhatWasDroppedIsSaid: an endpoint that was away for too long is told how
// much it missed before it is told what is left, and only once.
func TestWhatWasDroppedIsSaid(t *testing.T) {
	t.Parallel()
	s := newStage(t, time.Time{})
	l := newListener(t, nil)
	opts := Options{Store: s.Store, TendEvery: time.Second, Endpoints: []*notify.Endpoint{l.endpoint(t)}}
	if err := see(t.Context(), opts); err != nil {
		t.Fatal(err)
	}
	s.notices(9)
	if _, err := s.GatherNotices(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.exec(`DELETE FROM notices WHERE seq <= 6`)
	s.runWith(opts)
	s.until("what is left is not told", func() bool { return l.last() == 9 })
	var got []string
	for _, h := range l.all() {
		got = append(got, fmt.Sprint(h.Type, " ", h.Data.Seq, " ", h.Data.Facts))
	}
	want := []string{"notices.dropped 6 map[dropped:6]", "k 7 map[i:7]", "k 8 map[i:8]", "k 9 map[i:9]"}
	if !slices.Equal(got, want) {
		t.Errorf("told %q, want %q", got, want)
	}
}

// TestANodesEndIsNotTheEndpointsFailure: what hangs when a node leaves is given
// back, and nobody waits for it.
func TestANodesEndIsNotTheEndpointsFailure(t *testing.T) {
	t.Parallel()
	s := newStage(t, time.Time{})
	var asked atomic.Bool
	hanging := newHanging(t, &asked)
	e, err := notify.NewSlack(hanging.URL, notify.Options{Private: true, Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	opts := Options{Store: s.Store, Endpoints: []*notify.Endpoint{e}, hold: time.Hour}
	if err := see(t.Context(), opts); err != nil {
		t.Fatal(err)
	}
	s.notices(1)
	s.exec(`UPDATE notices SET kind = 'campaign.finished'`)
	ctx, leave := context.WithCancel(t.Context())
	s.runUntil(ctx, opts)
	s.until("the endpoint is not asked", asked.Load)
	leave()
	s.until("the claim is not given back", func() bool {
		return s.scalar(`SELECT count(*) FROM notice_endpoints WHERE claimed_until = '-infinity' AND failures = 0 AND seq = 0`) == 1
	})
}

func TestBackoff(t *testing.T) {
	t.Parallel()
	busy := fmt.Errorf("notify: %w", &notify.Refused{Status: 429, RetryAfter: 90 * time.Second})
	for _, tc := range []struct {
		failures  int
		err       error
		low, high time.Duration
	}{
		{0, io.EOF, time.Second, 2 * time.Second},
		{3, io.EOF, 8 * time.Second, 16 * time.Second},
		{9, io.EOF, lastRetry / 2, lastRetry},
		{1 << 30, io.EOF, lastRetry / 2, lastRetry},
		{0, busy, 90 * time.Second, 90 * time.Second},
		{20, busy, lastRetry / 2, lastRetry},
		{0, &notify.Refused{RetryAfter: 1 << 50}, lastRetry, lastRetry},
	} {
		seen := map[time.Duration]bool{}
		for range 100 {
			d := backoff(tc.failures, tc.err)
			if seen[d] = true; d < tc.low || d > tc.high {
				t.Errorf("after %d failures, %v: %v, want %v to %v", tc.failures, tc.err, d, tc.low, tc.high)
			}
		}
		if tc.low != tc.high && len(seen) < 50 {
			t.Errorf("after %d failures: only %d different waits of 100", tc.failures, len(seen))
		}
	}
}

package cloudapi

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/weirhq/weir/engine"
)

func TestChunkedBodies(t *testing.T) {
	t.Parallel()
	body := statusBody("read", CallbackID{Recipient: 1})
	for name, tc := range map[string]struct {
		body io.Reader
		max  int64
		want int
	}{
		"fits":       {iotest.OneByteReader(bytes.NewReader(body)), 0, 200},
		"too large":  {iotest.OneByteReader(bytes.NewReader(body)), 100, 413},
		"broken off": {io.MultiReader(bytes.NewReader(body[:50]), iotest.ErrReader(io.ErrUnexpectedEOF)), 0, 400},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rc := newTestReceiver(t, &memory{}, func(o *ReceiverOptions) { o.MaxBody = tc.max })
			r := httptest.NewRequest(http.MethodPost, "/", tc.body)
			r.Header.Set("X-Hub-Signature-256", sign(testSecret, body))
			w := httptest.NewRecorder()
			rc.ServeHTTP(w, r)
			if w.Code != tc.want {
				t.Errorf("got %d, want %d", w.Code, tc.want)
			}
		})
	}
}

// stalled is a body that stops after some bytes, until it is broken off.
type stalled struct {
	bytes   io.Reader
	waiting chan<- bool // told once when the bytes are out
	end     <-chan struct{}
}

func (s *stalled) Read(p []byte) (int, error) {
	if n, err := s.bytes.Read(p); err == nil {
		return n, nil
	}
	s.waiting <- true
	<-s.end
	return 0, io.ErrUnexpectedEOF
}

// stall has n strangers each announce a body of size bytes, send the first sent
// of them and no more. It returns once the receiver waits for each or has refused it; end
// breaks them off and returns their answers.
func stall(rc *Receiver, n int, sent, size int64) (end func() []int) {
	waiting, over := make(chan bool, 2*n), make(chan struct{})
	codes := make([]int, n)
	var open sync.WaitGroup
	for i := range n {
		r := httptest.NewRequest(http.MethodPost, "/", &stalled{bytes.NewReader(make([]byte, sent)), waiting, over})
		r.ContentLength = size
		r.Header.Set("X-Hub-Signature-256", sign("of a stranger", nil))
		open.Go(func() {
			w := httptest.NewRecorder()
			rc.ServeHTTP(w, r)
			codes[i] = w.Code
			waiting <- false // for one that was refused
		})
	}
	for range n {
		<-waiting
	}
	return func() []int { close(over); open.Wait(); return codes }
}

// Sixteen announced bodies of the largest size fill the default room, if it is
// given for the announcement.
func TestIdleSocketsHoldNoRoom(t *testing.T) {
	t.Parallel()
	body := statusBody("read", CallbackID{Recipient: 1})
	for _, size := range []int64{4 << 20, -1} { // -1: chunked
		rc := newTestReceiver(t, &memory{}, nil)
		end := stall(rc, 1000, 0, size)
		if w := post(rc, body, sign(testSecret, body)); w.Code != 200 {
			t.Errorf("Content-Length %d: with idle sockets open a webhook got %d", size, w.Code)
		}
		for _, code := range end() {
			if code != 400 {
				t.Errorf("broken off: %d", code)
			}
		}
		if !rc.room.TryAcquire(rc.options.MaxBytes) {
			t.Error("room was not given back")
		}
	}
}

// What has arrived is held, at most twice over, and bounds what else may come.
func TestRoomIsBounded(t *testing.T) {
	t.Parallel()
	const large = 1 << 20
	rc := newTestReceiver(t, &memory{}, func(o *ReceiverOptions) { o.MaxBody, o.MaxBytes = large, 3*large/2 })
	end := stall(rc, 1, large-1, large)
	body := append(statusBody("read", CallbackID{Recipient: 1}), bytes.Repeat([]byte(" "), large/2)...)
	w := post(rc, body, sign(testSecret, body))
	if w.Code != 503 || w.Header().Get("Retry-After") == "" {
		t.Errorf("got %d", w.Code)
	}
	small := body[:len(body)-large/4] // it fits: nothing of the refused one stayed
	if w := post(rc, small, sign(testSecret, small)); w.Code != 200 {
		t.Errorf("smaller: %d", w.Code)
	}
	end()
	if w := post(rc, body, sign(testSecret, body)); w.Code != 200 {
		t.Errorf("afterwards: %d", w.Code)
	}
}

// A body that trickles in loses its room; a commit that takes longer than a
// body may is left alone.
func TestReadTimeoutEndsWithTheBody(t *testing.T) {
	t.Parallel()
	ended := make(chan error, 1)
	rc := newTestReceiver(t, &memory{}, func(o *ReceiverOptions) {
		o.ReadTimeout, o.CommitTimeout = time.Second, 3*time.Second
		o.Submit = func(ctx context.Context, _ []engine.StatusUpdate, _ []engine.Event) error {
			<-ctx.Done()
			ended <- ctx.Err()
			return ctx.Err()
		}
	})
	s := serve(t, rc.ServeHTTP)
	body := statusBody("read", CallbackID{Recipient: 1})
	send := func(body io.Reader, size int64) int {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL, body)
		if err != nil {
			t.Fatal(err)
		}
		r.ContentLength = size
		r.Header.Set("X-Hub-Signature-256", sign(testSecret, statusBody("read", CallbackID{Recipient: 1})))
		res, err := s.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		return res.StatusCode
	}
	if code := send(bytes.NewReader(body), int64(len(body))); code != 503 {
		t.Errorf("slow commit: %d", code)
	}
	if err := <-ended; !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the commit ended by %v", err)
	}
	hang, hold := io.Pipe()
	defer hold.Close()
	if code := send(hang, int64(len(body))); code != 400 {
		t.Errorf("slow body: %d", code)
	}
}

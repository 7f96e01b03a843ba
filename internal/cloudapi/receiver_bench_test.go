package cloudapi

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/weirhq/weir/engine"
)

// slowStore commits in 5 ms, as Postgres does with a busy disk.
type slowStore struct{}

func (slowStore) ApplyStatuses(_ context.Context, updates []engine.StatusUpdate, _ []engine.Event) (engine.Applied, error) {
	time.Sleep(5 * time.Millisecond)
	return engine.Applied{Matched: len(updates)}, nil
}

const (
	benchPace = 3000 // POSTs a second, one status in each
	benchTime = 5 * time.Second
)

// BenchmarkWebhookAnswer paces POSTs over loopback, through the real tracker's
// group commit. late-ms is how far the 99th POST in a hundred lags behind the
// pace for want of a free connection: an answer takes up to linger + commit, 15 ms,
// so that 32 connections carry about 2 400 a second.
func BenchmarkWebhookAnswer(b *testing.B) {
	for _, conns := range []int{32, 128} {
		b.Run(fmt.Sprintf("%d connections", conns), func(b *testing.B) {
			addr := benchReceiver(b)
			for b.Loop() {
				answerTimes(b, addr, conns)
			}
		})
	}
}

func benchReceiver(b *testing.B) string {
	tracker, err := engine.NewTracker(engine.TrackerOptions{Store: slowStore{}})
	if err != nil {
		b.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = tracker.Run(ctx) })
	rc := newTestReceiver(b, &memory{}, func(o *ReceiverOptions) { o.Submit = tracker.Submit })
	s := serve(b, rc.ServeHTTP)
	b.Cleanup(func() { stop(); running.Wait() })
	return s.Listener.Addr().String()
}

// answerTimes makes one paced run: connection i has every conns-th POST.
func answerTimes(b *testing.B, addr string, conns int) {
	posts := int(benchTime.Seconds() * benchPace)
	took, late := make([]time.Duration, posts), make([]time.Duration, posts)
	var open sync.WaitGroup
	start := time.Now()
	for first := range conns {
		open.Go(func() {
			c, err := net.Dial("tcp", addr)
			if err != nil {
				b.Error(err)
				return
			}
			defer c.Close()
			r := bufio.NewReader(c)
			for i := first; i < posts; i += conns {
				due := start.Add(time.Duration(i) * time.Second / benchPace)
				time.Sleep(time.Until(due))
				begun := time.Now()
				if err := rawPost(c, r, int64(i+1)); err != nil {
					b.Error(err)
					return
				}
				took[i], late[i] = time.Since(begun), begun.Sub(due)
			}
		})
	}
	open.Wait()
	b.ReportMetric(float64(posts)/time.Since(start).Seconds(), "posts/s")
	slices.Sort(took)
	slices.Sort(late)
	for name, d := range map[string]time.Duration{
		"p50-ms": took[posts/2], "p99-ms": took[posts*99/100], "late-ms": late[posts*99/100],
	} {
		b.ReportMetric(float64(d)/float64(time.Millisecond), name)
	}
}

// rawPost spares the client's share of the machine.
func rawPost(c net.Conn, r *bufio.Reader, recipient int64) error {
	body := statusBody("delivered", CallbackID{Recipient: recipient, Claim: 1})
	if _, err := fmt.Fprintf(c, "POST / HTTP/1.1\r\nHost: weir\r\nX-Hub-Signature-256: %s\r\nContent-Length: %d\r\n\r\n%s",
		sign(testSecret, body), len(body), body); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	res, err := http.ReadResponse(r, nil)
	if err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("answered %d", res.StatusCode)
	}
	return res.Body.Close()
}

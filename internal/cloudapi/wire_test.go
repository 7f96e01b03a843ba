package cloudapi

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirhq/weir/engine"
)

func TestOneCallIsAtMostOneRequest(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		script   func(*wire, int, *wireConn)
		want     engine.Action
		patience time.Duration // 0: more than any machine needs
	}{
		"close after the request": {func(_ *wire, _ int, c *wireConn) { c.request() }, engine.Reconcile, 0},
		"reset after the request": {func(_ *wire, _ int, c *wireConn) { c.request(); c.reset() }, engine.Reconcile, 0},
		"close in the headers":    {func(_ *wire, _ int, c *wireConn) { c.request(); c.say("HTTP/1.1 200 OK\r\nContent-Ty") }, engine.Reconcile, 0},
		"close in the body": {func(_ *wire, _ int, c *wireConn) {
			c.request()
			c.say("HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\n{")
		}, engine.Reconcile, 0},
		"not HTTP":                        {func(_ *wire, _ int, c *wireConn) { c.request(); c.say("SSH-2.0-OpenSSH_9.2\r\n") }, engine.Reconcile, 0},
		"never an answer":                 {func(_ *wire, _ int, c *wireConn) { c.request(); c.request() }, engine.Reconcile, 200 * time.Millisecond},
		"endless body":                    {endless, engine.Reconcile, 0},
		"continue first":                  {func(_ *wire, _ int, c *wireConn) { c.request(); c.say("HTTP/1.1 100 Continue\r\n\r\n"); c.accept() }, engine.Accept, 0},
		"early hints first":               {func(_ *wire, _ int, c *wireConn) { c.request(); c.say("HTTP/1.1 103 Early Hints\r\n\r\n"); c.accept() }, engine.Accept, 0},
		"redirect":                        {redirect, engine.Release, 0},
		"answer without reading the body": {hasty, engine.Fail, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWire(t, tc.script)
			c := newTestClient(t, w.url, func(o *Options) {
				o.HeaderTimeout, o.Timeout = cmp.Or(tc.patience, 5*time.Minute), 5*time.Minute
			})
			a := c.Send(t.Context(), testSend())
			if a.Action != tc.want {
				t.Errorf("got %v %q, want %v", a.Action, a.Title, tc.want)
			}
			noSecrets(t, a.Title)
			if n := w.requests.Load(); n > 1 {
				t.Errorf("%d requests on the wire", n)
			}
		})
	}
}

func endless(_ *wire, _ int, c *wireConn) {
	c.request()
	c.say("HTTP/1.1 200 OK\r\n\r\n")
	for {
		if _, err := io.WriteString(c, strings.Repeat("x", 8<<10)); err != nil {
			return
		}
	}
}

func redirect(w *wire, _ int, c *wireConn) {
	for c.request() != nil {
		c.say("HTTP/1.1 307 Temporary Redirect\r\nLocation: " + w.url + "/elsewhere\r\nContent-Length: 0\r\n\r\n")
	}
}

func hasty(_ *wire, _ int, c *wireConn) {
	body := `{"error":{"code":131009,"message":"no"}}`
	_, _ = c.r.ReadString('\n')
	c.say(fmt.Sprintf("HTTP/1.1 400 Bad Request\r\nContent-Length: %d\r\n\r\n%s", len(body), body))
	_, _ = io.Copy(io.Discard, c.r)
}

// A pooled connection that dies is the classic place of a silent resend.
func TestReusedConnectionIsNotRetried(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*wireConn){
		"reset": (*wireConn).reset,
		"close": func(c *wireConn) { _ = c.Close() },
	} {
		t.Run(name+" after the second request", func(t *testing.T) {
			t.Parallel()
			w := newWire(t, func(_ *wire, _ int, c *wireConn) {
				c.request()
				c.accept()
				c.request()
				end(c)
			})
			c := newTestClient(t, w.url, nil)
			if a := c.Send(t.Context(), testSend()); a.Action != engine.Accept {
				t.Fatal(a)
			}
			if a := c.Send(t.Context(), testSend()); a.Action != engine.Reconcile {
				t.Errorf("got %v %q", a.Action, a.Title)
			}
			if n := w.requests.Load(); n != 2 {
				t.Errorf("%d requests", n)
			}
		})
	}
}

// ledger is what a server took, by callback id.
type ledger struct {
	mu   sync.Mutex
	seen map[string]int
}

func (l *ledger) note(body []byte) {
	var m struct {
		ID string `json:"biz_opaque_callback_data"`
	}
	if json.Unmarshal(body, &m) != nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seen[m.ID]++
}

// flaky serves a connection and ends it at a random moment: idle, after a
// request, in an answer, by FIN or RST.
func (l *ledger) flaky(_ *wire, _ int, c *wireConn) {
	for {
		if rand.IntN(6) == 0 {
			break // while idle, or about to be used
		}
		body := c.request()
		if body == nil {
			return
		}
		l.note(body)
		if rand.IntN(8) == 0 {
			break
		}
		c.accept()
	}
	if rand.IntN(2) == 0 {
		c.reset()
	}
}

func TestAnswersAgreeWithTheLedger(t *testing.T) {
	t.Parallel()
	l := &ledger{seen: make(map[string]int)}
	w := newWire(t, l.flaky)
	c := newTestClient(t, w.url, func(o *Options) { o.HeaderTimeout = time.Second })
	answers := make([]engine.Answer, 1200)
	var senders sync.WaitGroup
	var next atomic.Int64
	for range 8 {
		senders.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= len(answers) {
					return
				}
				m := testSend()
				m.Recipient = int64(i + 1)
				answers[i] = c.Send(context.Background(), m)
			}
		})
	}
	senders.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	counts := make(map[engine.Action]int)
	for i, a := range answers {
		counts[a.Action]++
		n := l.seen[CallbackID{Recipient: int64(i + 1), Claim: 3}.Encode(testKey)]
		if n > 1 || a.Action == engine.Release && n != 0 || a.Action == engine.Accept && n != 1 {
			t.Errorf("%v (%s), and the ledger has %d", a.Action, a.Title, n)
		}
	}
	t.Log(counts)
	if counts[engine.Accept] == 0 || counts[engine.Reconcile] == 0 {
		t.Errorf("the test did not reach what it is for: %v", counts)
	}
}

func TestProvablyUnsent(t *testing.T) {
	t.Parallel()
	tls := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a call was made") }))
	tls.Config.ErrorLog = log.New(io.Discard, "", 0)
	tls.StartTLS()
	t.Cleanup(tls.Close)
	mute := newWire(t, func(_ *wire, _ int, c *wireConn) { _, _ = io.Copy(io.Discard, c) })
	chatty := newWire(t, func(_ *wire, _ int, c *wireConn) { c.say("HTTP/1.1 400 Bad Request\r\n\r\n") })
	for name, tc := range map[string]struct {
		url, title string
		patience   time.Duration
	}{
		"refused":         {nobody, "connect: refused", 0},
		"no such host":    {"https://graph..invalid", "does not resolve", 0}, // no name at all: no server is asked for it
		"not trusted":     {tls.URL, "certificate is not trusted", 0},
		"TLS mute":        {"https" + strings.TrimPrefix(mute.url, "http"), "TLS handshake timed out", 50 * time.Millisecond},
		"TLS without TLS": {"https" + strings.TrimPrefix(chatty.url, "http"), "does not speak TLS", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newTestClient(t, tc.url, func(o *Options) { o.TLSTimeout = cmp.Or(tc.patience, time.Minute) })
			a := c.Send(t.Context(), testSend())
			if a.Action != engine.Release || !a.Local || !strings.Contains(a.Title, tc.title) {
				t.Errorf("got %v %v %q", a.Action, a.Scope, a.Title)
			}
			noSecrets(t, a.Title)
		})
	}
}

func TestNoFreeConnectionIsUnsent(t *testing.T) {
	t.Parallel()
	busy, done := make(chan struct{}), make(chan struct{})
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		close(busy)
		<-done
		_, _ = io.WriteString(w, acceptedBody)
	})
	c := newTestClient(t, s.URL, func(o *Options) { o.MaxConns = 1 })
	first := make(chan engine.Answer)
	go func() { first <- c.Send(context.Background(), testSend()) }()
	<-busy
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if a := c.Send(ctx, testSend()); a.Action != engine.Release {
		t.Errorf("got %v %q", a.Action, a.Title)
	}
	close(done)
	if a := <-first; a.Action != engine.Accept {
		t.Errorf("first: %v %q", a.Action, a.Title)
	}
}

func TestCancelAfterTheWriteIsUnknown(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	w := newWire(t, func(_ *wire, _ int, c *wireConn) {
		c.request()
		cancel()
		c.request()
	})
	if a := newTestClient(t, w.url, nil).Send(ctx, testSend()); a.Action != engine.Reconcile {
		t.Errorf("got %v %q", a.Action, a.Title)
	}
}

package cloudapi

import (
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/weirhq/weir/engine"
)

// closesAfter is a fence that lets n questions pass.
func closesAfter(n int64) func() error {
	var asked atomic.Int64
	return func() error {
		if asked.Add(1) > n {
			return errors.New("lease lost")
		}
		return nil
	}
}

func TestFenceAtTheWire(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 5*writeBuffer) // more than one write
	for name, tc := range map[string]struct {
		passes int64
		value  string
		want   engine.Action
	}{
		"closed in the first write":  {1, "Ana", engine.Release},
		"closed in the second write": {2, long, engine.Reconcile},
		"open for all":               {1 << 30, long, engine.Accept},
	} {
		for _, reused := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, reused %v", name, reused), func(t *testing.T) {
				t.Parallel()
				w := newWire(t, func(_ *wire, _ int, c *wireConn) {
					for c.request() != nil {
						c.accept()
					}
				})
				c := newTestClient(t, w.url, nil)
				if reused {
					c.Send(t.Context(), testSend())
				}
				before := w.requests.Load()
				sent := w.bytes.Load()
				m := testSend()
				m.Fence, m.Values = closesAfter(tc.passes), []string{tc.value, "2"}
				a := c.Send(t.Context(), m)
				if a.Action != tc.want {
					t.Errorf("got %v %q, want %v", a.Action, a.Title, tc.want)
				}
				if whole := w.requests.Load() > before; whole != (tc.want == engine.Accept) {
					t.Errorf("request arrived: %v", whole)
				}
				if tc.want == engine.Release && w.bytes.Load() != sent {
					t.Error("released after bytes were written")
				}
				// The next call is not the fenced one's victim.
				if a := c.Send(t.Context(), testSend()); a.Action != engine.Accept {
					t.Errorf("next call: %v %q", a.Action, a.Title)
				}
			})
		}
	}
}

func TestTLSIsFencedAndHTTP1(t *testing.T) {
	t.Parallel()
	var proto atomic.Value
	var calls atomic.Int64
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		proto.Store(r.Proto)
		_, _ = io.WriteString(w, acceptedBody)
	}))
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(s.Close)
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	c := newTestClient(t, s.URL, func(o *Options) { o.RootCAs = roots })
	for range 2 { // dialed, then reused
		m := testSend()
		m.Fence = closesAfter(1)
		if a := c.Send(t.Context(), m); a.Action != engine.Release {
			t.Errorf("fenced: %v %q", a.Action, a.Title)
		}
		if a := c.Send(t.Context(), testSend()); a.Action != engine.Accept {
			t.Errorf("open: %v %q", a.Action, a.Title)
		}
	}
	if calls.Load() != 2 || proto.Load() != "HTTP/1.1" {
		t.Errorf("%d calls over %v", calls.Load(), proto.Load())
	}
	// A whole request is one write, so one question decides it.
	m := testSend()
	m.Values[0] = strings.Repeat("x", writeBuffer/2)
	m.Fence = closesAfter(2)
	if a := c.Send(t.Context(), m); a.Action != engine.Accept {
		t.Errorf("one write: %v %q", a.Action, a.Title)
	}
}

func TestSealedFlightWritesNothing(t *testing.T) {
	t.Parallel()
	here, there := net.Pipe()
	defer there.Close()
	f := &flight{}
	c := &conn{Conn: here}
	c.flight.Store(f)
	if !f.seal() {
		t.Fatal("nothing was written, and it could not be sealed")
	}
	if n, err := c.Write([]byte("late")); n != 0 || !errors.Is(err, errSealed) {
		t.Errorf("wrote %d, %v", n, err)
	}
	// A first write that wrote nothing leaves the flight unsent.
	f = &flight{}
	c.flight.Store(f)
	if _, err := c.Write([]byte("closed already")); err == nil || !f.seal() {
		t.Errorf("after a write of nothing: %v", err)
	}
}

func TestUnknownConnectionProvesNothing(t *testing.T) {
	t.Parallel()
	f := &flight{}
	here, there := net.Pipe()
	defer here.Close()
	defer there.Close()
	f.bind(httptrace.GotConnInfo{Conn: here})
	if f.seal() {
		t.Error("a connection that is not watched was called unsent")
	}
}

//go:build unix

package cloudapi

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/weirhq/weir/engine"
)

// A peer that has ended an idle connection gets not one byte, and the call is
// provably unsent.
func TestEndedConnectionIsNotWritten(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		end    func(*wireConn)
		fresh  bool
		unsent bool
	}{
		"closed":       {end: func(c *wireConn) { _ = c.Close() }, unsent: true},
		"half closed":  {end: func(c *wireConn) { _ = c.CloseWrite() }, unsent: true},
		"reset":        {end: (*wireConn).reset, unsent: true},
		"spoke":        {end: func(c *wireConn) { c.say("HTTP/1.1 408 Request Timeout\r\n\r\n") }, unsent: true},
		"alive":        {end: func(*wireConn) {}},
		"spoke, fresh": {end: func(c *wireConn) { c.say("a TLS session ticket") }, fresh: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			over := make(chan struct{})
			w := newWire(t, func(_ *wire, _ int, c *wireConn) { _, _ = c.r.ReadByte(); tc.end(c); <-over })
			defer close(over)
			tcp := dial(t.Context(), t, w)
			defer tcp.Close()
			_, _ = tcp.Write([]byte{0}) // the connection stands: now it may end
			if tc.unsent || tc.fresh {
				awaitEnd(t, tcp)
			}
			f := &flight{reused: !tc.fresh}
			c := &conn{Conn: tcp}
			c.flight.Store(f)
			n, err := c.Write([]byte("POST"))
			if tc.unsent && (n != 0 || !errors.Is(err, errEnded) || !f.seal()) {
				t.Errorf("wrote %d, %v", n, err)
			}
			if !tc.unsent && (n != 4 || err != nil || f.seal()) {
				t.Errorf("wrote %d, %v", n, err)
			}
		})
	}
}

func dial(ctx context.Context, t *testing.T, w *wire) *net.TCPConn {
	t.Helper()
	c, err := new(net.Dialer).DialContext(ctx, "tcp", strings.TrimPrefix(w.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	return c.(*net.TCPConn)
}

// awaitEnd returns once something has arrived, were it the end.
func awaitEnd(t *testing.T, c *net.TCPConn) {
	t.Helper()
	raw, err := c.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if err := raw.Read(func(fd uintptr) bool {
		_, _, err := syscall.Recvfrom(int(fd), make([]byte, 1), syscall.MSG_PEEK)
		return !errors.Is(err, syscall.EAGAIN)
	}); err != nil {
		t.Fatal(err)
	}
}

// deaf is a connection whose reader is not scheduled when the peer closes.
type deaf struct {
	*net.TCPConn
	heard  chan struct{} // closed at the peer's end
	closed chan struct{}
	once   sync.Once
}

func (d *deaf) Read(p []byte) (int, error) {
	n, err := d.TCPConn.Read(p)
	if errors.Is(err, io.EOF) {
		close(d.heard)
		<-d.closed
	}
	return n, err
}

func (d *deaf) Close() error {
	d.once.Do(func() { close(d.closed) })
	return d.TCPConn.Close()
}

// A call that finds its idle connection ended is made on another one: it is
// neither unknown nor released, which would rest the number.
func TestEndedIdleConnectionIsReplaced(t *testing.T) {
	t.Parallel()
	w := newWire(t, func(_ *wire, n int, c *wireConn) {
		c.request()
		c.accept()
		if n > 0 {
			c.request()
		}
	})
	c := newTestClient(t, w.url, nil)
	first := &deaf{heard: make(chan struct{}), closed: make(chan struct{})}
	c.send.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
		if first.TCPConn == nil {
			first.TCPConn = dial(ctx, t, w)
			return &conn{Conn: first}, nil
		}
		return &conn{Conn: dial(ctx, t, w)}, nil
	}
	if a := c.Send(t.Context(), testSend()); a.Action != engine.Accept {
		t.Fatal(a)
	}
	<-first.heard
	if a := c.Send(t.Context(), testSend()); a.Action != engine.Accept {
		t.Errorf("got %v %q", a.Action, a.Title)
	}
	if n := w.requests.Load(); n != 2 {
		t.Errorf("%d requests on the wire for two calls", n)
	}
}

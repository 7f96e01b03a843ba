package cloudapi

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
)

// wire is a raw TCP server: it shows what was on the wire, and misbehaves
// below HTTP. script handles connection n (from 0) and owns it.
type wire struct {
	url      string
	requests atomic.Int64 // whole requests read
	bytes    atomic.Int64 // of any kind
}

func newWire(t *testing.T, script func(w *wire, n int, c *wireConn)) *wire {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{url: "http://" + l.Addr().String()}
	var conns sync.WaitGroup
	var mu sync.Mutex
	var open []net.Conn
	conns.Go(func() {
		for n := 0; ; n++ {
			c, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			open = append(open, c)
			mu.Unlock()
			conns.Go(func() {
				wc := &wireConn{TCPConn: c.(*net.TCPConn), w: w}
				wc.r = bufio.NewReader(wc)
				script(w, n, wc)
				_ = c.Close()
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		mu.Lock()
		for _, c := range open {
			_ = c.Close()
		}
		mu.Unlock()
		conns.Wait()
	})
	return w
}

type wireConn struct {
	*net.TCPConn
	w *wire
	r *bufio.Reader
}

func (c *wireConn) Read(p []byte) (int, error) {
	n, err := c.TCPConn.Read(p)
	c.w.bytes.Add(int64(n))
	return n, err
}

// request reads one whole request; nil when the client is gone.
func (c *wireConn) request() []byte {
	r, err := http.ReadRequest(c.r)
	if err != nil {
		return nil
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil
	}
	c.w.requests.Add(1)
	return body
}

func (c *wireConn) say(s string) { _, _ = io.WriteString(c, s) }

func (c *wireConn) accept() {
	c.say(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(acceptedBody), acceptedBody))
}

// reset closes with RST.
func (c *wireConn) reset() {
	_ = c.SetLinger(0)
	_ = c.Close()
}

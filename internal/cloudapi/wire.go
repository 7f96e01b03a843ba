package cloudapi

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
)

var (
	errFenced = errors.New("fence closed: this lane may no longer send")
	errSealed = errors.New("the call was given up before its request was written")
	errEnded  = errors.New("the peer closed the idle connection")
)

// flight is one request on its way. It knows whether a byte of the request has
// been handed to the kernel, which is what separates "never sent" (safe to send
// again) from "nobody knows". net/http does not say so reliably: its errors
// tell what went wrong, not how far the request had come.
type flight struct {
	fence  func() error
	state  atomic.Uint32
	fenced atomic.Bool
	conn   *conn // set by the goroutine of Send, through httptrace
	reused bool  // conn has carried another request; set with it
}

// The states of a flight. Only these moves exist: unwritten to written and
// back (a first write that wrote nothing), and unwritten to sealed.
const (
	unwritten uint32 = iota
	written
	sealed
)

// traced binds the flight to whichever pooled connection it is given.
func (f *flight) traced(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: f.bind})
}

// bind is called by net/http before it hands the request to the connection's
// writer. TLS is above our connection, so it is unwrapped (twice behind an
// https proxy).
func (f *flight) bind(info httptrace.GotConnInfo) {
	for c := info.Conn; c != nil; {
		if own, ok := c.(*conn); ok {
			f.conn, f.reused = own, info.Reused
			own.flight.Store(f)
			return
		}
		layer, ok := c.(interface{ NetConn() net.Conn })
		if !ok {
			break
		}
		c = layer.NetConn()
	}
	// A connection that is not ours cannot be watched, so nothing can be
	// proved about it.
	f.state.Store(written)
}

// seal settles the question. True: no byte was written, and none will be.
func (f *flight) seal() bool { return f.state.CompareAndSwap(unwritten, sealed) }

// land unbinds an answered flight. By then the connection may already carry
// the next one, which stays.
func (f *flight) land() {
	if f.conn != nil {
		f.conn.flight.CompareAndSwap(f, nil)
	}
}

// admit is the last gate: the fence is asked for each write, so that a process
// that was stopped between its last check and the write sends nothing.
func (f *flight) admit() (first bool, err error) {
	if f.fence != nil && f.fence() != nil {
		f.fenced.Store(true)
		return false, errFenced
	}
	if f.state.CompareAndSwap(unwritten, written) {
		return true, nil
	}
	if f.state.Load() == sealed {
		return false, errSealed
	}
	return false, nil
}

// conn is a dialed connection, below TLS. HTTP/1.1 carries one request at a
// time, so its writes belong to one flight.
type conn struct {
	net.Conn
	flight atomic.Pointer[flight] // nil: handshake, or idle
}

func (c *conn) Write(p []byte) (int, error) {
	f := c.flight.Load()
	if f == nil {
		return c.Conn.Write(p)
	}
	// net/http hears of a peer's close only when its reader is scheduled. Bytes
	// written before that are lost without a trace, and the outcome unknown.
	if f.reused && f.state.Load() == unwritten && ended(c.Conn) {
		return 0, errors.Join(errEnded, c.Close())
	}
	first, err := f.admit()
	if err != nil {
		return 0, errors.Join(err, c.Close())
	}
	n, err := c.Conn.Write(p)
	if first && n == 0 {
		// The kernel took nothing, as on a connection the peer has reset.
		f.state.CompareAndSwap(written, unwritten)
	}
	return n, err
}

// Close drops what the kernel has not sent yet when a request is unanswered:
// otherwise a request given up today may be delivered when the network heals.
func (c *conn) Close() error {
	if tcp, ok := c.Conn.(*net.TCPConn); ok && c.flight.Load() != nil {
		_ = tcp.SetLinger(0) // best effort: TCP_USER_TIMEOUT bounds it too
	}
	return c.Conn.Close()
}

// newTransport is net/http without everything that could send a request twice
// or mix two of them: HTTP/1.1 only, and no redirects, since nothing here is
// above RoundTrip.
func newTransport(o Options) *http.Transport {
	dialer := &net.Dialer{Timeout: o.ConnectTimeout, Control: limitUnacked}
	t := &http.Transport{
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			c, err := dialer.DialContext(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			return &conn{Conn: c}, nil
		},
		TLSHandshakeTimeout:    o.TLSTimeout,
		ResponseHeaderTimeout:  o.HeaderTimeout,
		MaxConnsPerHost:        o.MaxConns,
		MaxIdleConns:           o.MaxConns,
		MaxIdleConnsPerHost:    o.MaxConns,
		IdleConnTimeout:        o.IdleTimeout,
		DisableCompression:     true,
		MaxResponseHeaderBytes: maxAnswer,
		WriteBufferSize:        writeBuffer,
		Protocols:              new(http.Protocols),
		TLSNextProto:           map[string]func(string, *tls.Conn) http.RoundTripper{},
		TLSClientConfig: &tls.Config{
			MinVersion: tls.VersionTLS12,
			RootCAs:    o.RootCAs,
			NextProtos: []string{"http/1.1"},
			// Otherwise a young connection writes a request in records of one
			// packet each, with a fence check and a system call for each.
			DynamicRecordSizingDisabled: true,
		},
	}
	t.Protocols.SetHTTP1(true)
	if o.ProxyFromEnvironment {
		t.Proxy = http.ProxyFromEnvironment
	}
	return t
}

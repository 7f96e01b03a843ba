package sim

import (
	"bytes"
	"cmp"
	"net"
	"net/http"
	"strconv"
)

// result is the ledger's view of a fault: its outcome, HTTP status and code.
func (r *rule) result(accepted bool) (Outcome, int, int) {
	pick := func(before, after Outcome) Outcome {
		if accepted {
			return after
		}
		return before
	}
	switch r.Kind {
	case Hang:
		return pick(Hung, HungAccepted), 0, 0
	case Reset:
		return pick(ResetBefore, ResetAccepted), 0, 0
	case Garbage, Huge:
		return pick(Garbled, GarbledAccepted), http.StatusOK, 0
	case Redirect:
		return pick(Redirected, RefusedAccepted), http.StatusTemporaryRedirect, 0
	case Throttle:
		return pick(Refused, RefusedAccepted), vocabulary[130429].http, 130429
	default:
		return pick(Refused, RefusedAccepted), r.httpStatus(), r.graphCode()
	}
}

// bare tells that an error comes from a proxy and not from Graph.
func (r *rule) bare() bool { return r.Body == "html" || r.Code == 0 }

func (r *rule) graphCode() int {
	if r.bare() {
		return 0
	}
	return r.Code
}

func (r *rule) httpStatus() int {
	if r.bare() {
		return cmp.Or(r.HTTP, http.StatusBadGateway)
	}
	return cmp.Or(r.HTTP, fail(r.Code, "").HTTP)
}

const gatewayPage = "<html><head><title>502 Bad Gateway</title></head><body><center><h1>502 Bad Gateway</h1></center></body></html>\n"

// misbehave answers as the rule says. It returns nil only when the sender was
// given something.
func (c *call) misbehave(r *rule, trace string) error {
	switch r.Kind {
	case Hang:
		return c.hang()
	case Reset:
		return c.reset()
	case Redirect:
		c.rw.Header().Set("Location", r.Body+c.req.URL.RequestURI())
		c.rw.WriteHeader(http.StatusTemporaryRedirect)
		return nil
	case Garbage:
		return writeBody(c.rw, http.StatusOK, []byte(`{"messaging_product":"whatsapp","contacts":[{"input":`))
	case Huge:
		return c.flood(r.Size)
	case Throttle:
		return fail(130429, "").write(c.rw, trace)
	}
	if r.bare() {
		c.rw.Header().Set("Content-Type", "text/html; charset=utf-8")
		c.rw.WriteHeader(r.httpStatus())
		_, err := c.rw.Write([]byte(gatewayPage))
		return err
	}
	e := fail(r.Code, "")
	e.HTTP = r.httpStatus()
	return e.write(c.rw, trace)
}

// hang keeps the sender waiting until it leaves.
func (c *call) hang() error {
	select {
	case <-c.req.Context().Done():
	case <-c.stopped:
	}
	panic(http.ErrAbortHandler)
}

// reset cuts the connection with a TCP RST where there is one.
func (c *call) reset() error {
	conn, _, err := http.NewResponseController(c.rw).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // without it a close is a polite FIN
	}
	_ = conn.Close()
	return errNoAnswer
}

// flood writes a JSON string that is size bytes long.
func (c *call) flood(size int) error {
	c.rw.Header().Set("Content-Type", "application/json; charset=UTF-8")
	c.rw.Header().Set("Content-Length", strconv.Itoa(size))
	block := bytes.Repeat([]byte("a"), 32<<10)
	block[0] = '"'
	for size > 0 {
		n := min(size, len(block))
		if _, err := c.rw.Write(block[:n]); err != nil {
			return err
		}
		block[0] = 'a'
		size -= n
	}
	return nil
}

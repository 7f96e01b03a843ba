package cloudapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// pingTimeout is how long the platform has to answer a Ping, connecting included.
const pingTimeout = 3 * time.Second

var errStranger = errors.New("what answers at the API's address is not the platform")

// newPinger makes a connection for each question: an old one says nothing of
// whether new ones can be made, and may be dead without anybody having noticed.
func newPinger(o Options) *http.Transport {
	t := newTransport(o)
	t.DisableKeepAlives = true
	return t
}

// Ping asks the platform for any word of its own, over the way that messages
// take: name, proxy, TLS, and Graph's JSON in return. It sends no message and no
// token, so the answer is a refusal, which is all that is needed. The error says
// in a few fixed words what was met instead. It ends within 3 s.
//
// After an error idle connections are dropped: those that were made before the
// trouble may be dead too, and a message on one would be lost without a trace.
func (c *Client) Ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	err := c.ask(ctx)
	if err != nil {
		c.send.CloseIdleConnections()
	}
	return err
}

func (c *Client) ask(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.root.JoinPath("me").String(), nil)
	if err != nil {
		return fmt.Errorf("make request: %w", err)
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "weir")
	res, err := c.ping.RoundTrip(req)
	if err != nil {
		return errors.New(cause(err)) // its own text names addresses
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return errors.New("answer broke off: " + cause(err))
	}
	if parseReply(res.StatusCode, body).err == nil {
		return errStranger
	}
	return nil
}

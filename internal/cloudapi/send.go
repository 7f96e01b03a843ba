package cloudapi

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/weirhq/weir/engine"
)

var _ engine.Sender = (*Client)(nil)

// Send makes one call: at most one request on the wire, at most Timeout long.
// Release means that no byte of it was written, or that a redirect turned it away:
// Local when this node could not reach the platform, else it was not allowed to
// try. Reconcile means that it was written, even in part, and that no answer could
// be read. Fail is always the platform's word: a message that cannot be
// written stops its campaign instead.
func (c *Client) Send(ctx context.Context, m engine.Message) engine.Answer {
	n := c.number(m.Number)
	a := c.attempt(ctx, n, m)
	n.metrics.count(a)
	return a
}

func (c *Client) attempt(ctx context.Context, n *number, m engine.Message) engine.Answer {
	body, refusal := c.encode(m)
	if refusal != nil {
		return *refusal
	}
	token, err := c.token(ctx, m.Number)
	if err != nil {
		return tokenless(err)
	}
	if m.Fence != nil && m.Fence() != nil {
		return release(titleFenced)
	}
	ctx, cancel := context.WithTimeout(ctx, c.options.Timeout)
	defer cancel()
	start := time.Now()
	a := c.fly(ctx, m.Fence, func(ctx context.Context) *http.Request { return newRequest(ctx, n, token, body) })
	if a.Action != engine.Release {
		n.metrics.time.Observe(time.Since(start).Seconds())
	}
	if isTokenRefusal(a) {
		return c.renew(ctx, m.Number, token, a)
	}
	return a
}

// maxTries bounds how many pooled connections may turn out to have ended, as
// when a balancer closes many at once.
const maxTries = 4

// fly makes the call. A pooled connection that ended before a byte was written
// says nothing about the platform or this node's network, and Release would
// rest the whole number for it; so the call takes another connection.
func (c *Client) fly(ctx context.Context, fence func() error, request func(context.Context) *http.Request) engine.Answer {
	for try := 1; ; try++ {
		f := &flight{fence: fence}
		res, err := c.send.RoundTrip(request(f.traced(ctx)))
		if err == nil {
			return f.answered(res)
		}
		a := f.unanswered(err)
		if a.Action != engine.Release || !f.reused || f.fenced.Load() || ctx.Err() != nil || try == maxTries {
			return a
		}
	}
}

// token asks for the number's token and refuses what net/http would not take
// as a header, such as the line break at the end of a file.
func (c *Client) token(ctx context.Context, number string) (string, error) {
	token, err := c.options.Token(ctx, number)
	if err != nil {
		return "", err
	}
	for _, b := range []byte(token) {
		if b <= ' ' || b > '~' {
			return "", errBadToken
		}
	}
	if token == "" {
		return "", errBadToken
	}
	return token, nil
}

// encode writes the request body. What cannot be written stops the campaign,
// spends nothing and fails nobody: "failed" would be the platform's word. For a
// template that is plain, since no row could be sent. A phone without its plus
// cannot come through an import: rows were written past it, nobody knows how
// many, and each would reach a stranger, since Meta prepends the sender's own
// country code. The lane's log names the row to mend.
func (c *Client) encode(m engine.Message) ([]byte, *engine.Answer) {
	p, err := c.plan(m.Template)
	if err != nil {
		return nil, unsendable("the template cannot be filled: "+err.Error(), "a campaign's parameters cannot be changed: create it anew with others")
	}
	if len(m.To) < 2 || m.To[0] != '+' {
		return nil, unsendable("a recipient's phone is not E.164 with +", "correct it: the node's log names the row")
	}
	size := p.size + 256
	for _, v := range m.Values {
		size += len(v) + len(v)/8
	}
	b := append(make([]byte, 0, size), `{"messaging_product":"whatsapp","recipient_type":"individual","to":`...)
	b = appendJSON(b, m.To)
	b = append(b, `,"biz_opaque_callback_data":"`...)
	b = c.signer.append(b, CallbackID{Recipient: m.Recipient, Claim: m.Claim})
	b = append(b, '"')
	return p.append(b, m.Values), nil
}

// newRequest leaves GetBody nil, which forbids net/http to send the body a
// second time. There is no Idempotency-Key header, which would allow it to, and
// which Meta does not honour.
func newRequest(ctx context.Context, n *number, token string, body []byte) *http.Request {
	r := &http.Request{
		Method:        http.MethodPost,
		URL:           n.url,
		Host:          n.url.Host,
		Proto:         "HTTP/1.1",
		ProtoMajor:    1,
		ProtoMinor:    1,
		ContentLength: int64(len(body)),
		Body:          io.NopCloser(bytes.NewReader(body)),
		Header: http.Header{
			"Content-Type":  {"application/json"},
			"Accept":        {"application/json"},
			"User-Agent":    {"weir"},
			"Authorization": {"Bearer " + token},
		},
	}
	return r.WithContext(ctx)
}

// answered reads the response. Whatever its status, the request was received.
func (f *flight) answered(res *http.Response) engine.Answer {
	defer f.land()
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	if err != nil {
		return reconcile("answer broke off: " + cause(err))
	}
	if len(body) > maxAnswer {
		return reconcile("answer is longer than 64 KiB")
	}
	return Classify(res.StatusCode, res.Header, body)
}

// unanswered says what is known of a request that got no answer.
func (f *flight) unanswered(err error) engine.Answer {
	if !f.seal() {
		return reconcile("no answer: " + cause(err))
	}
	switch {
	case f.fenced.Load():
		return release(titleFenced)
	case errors.Is(err, context.Canceled):
		return release("the call was canceled before it was written")
	default:
		a := release("nothing was sent: " + cause(err))
		a.Local = true
		return a
	}
}

const titleFenced = "nothing was sent: this node may no longer send for the number"

func release(title string) engine.Answer {
	return engine.Answer{Action: engine.Release, Title: title}
}

func unsendable(title, advice string) *engine.Answer {
	return &engine.Answer{Action: engine.StopCampaign, Scope: engine.ScopeCampaign, Title: title, Advice: advice, Local: true}
}

func reconcile(title string) engine.Answer {
	return engine.Answer{Action: engine.Reconcile, Title: title}
}

func tokenless(err error) engine.Answer {
	if errors.Is(err, ErrNoToken) {
		return engine.Answer{Action: engine.StopNumber, Scope: engine.ScopeNumber, Title: "access token is missing or malformed", Advice: adviceToken, Local: true}
	}
	a := release("nothing was sent: the access token could not be read")
	a.Local, a.Scope = true, engine.ScopeNumber
	return a
}

// renew asks whether the refused token is still the current one. If not, the
// row goes back as if no call had been made, which for a refused token is true
// in every way that matters: the platform took nothing.
func (c *Client) renew(ctx context.Context, number, refused string, a engine.Answer) engine.Answer {
	if c.options.Renew == nil {
		return a
	}
	current, err := c.options.Renew(ctx, number, refused)
	if err != nil || current == "" || current == refused {
		return a
	}
	c.options.Logger.InfoContext(ctx, "access token was refused and a newer one is in use", "number", number)
	return release("the access token was replaced: the next call uses the new one")
}

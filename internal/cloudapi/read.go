package cloudapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/weirhq/weir/engine"
)

// Errors of the set-up reads. Any other error means that the question was not
// answered (network, outage, throttle) and can be asked again.
var (
	// ErrNotFound: no such number or template, or the token may not see it.
	ErrNotFound = errors.New("not found")
	// ErrNotPermitted: the token is refused, or lacks a permission.
	ErrNotPermitted = errors.New("not permitted")
	// ErrNoReads: the API at the Graph URL does not offer this read, as a
	// simulator or a proxy may not. Worth a warning, no reason to stop.
	ErrNoReads = errors.New("not offered by this API")
)

const (
	readTimeout = 15 * time.Second
	maxRead     = 4 << 20 // bytes of a page of templates
)

// newReader is apart from the send path, whose connections carry nothing but
// sends. A read may be repeated by net/http; it still follows no redirect,
// which could carry the token elsewhere.
func newReader(o Options) *http.Client {
	t := newTransport(o)
	t.MaxConnsPerHost, t.MaxIdleConnsPerHost = 4, 4
	return &http.Client{
		Transport:     t,
		Timeout:       readTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// get reads one object with the token of a number.
func (c *Client) get(ctx context.Context, number string, u *url.URL, out any) error {
	token, err := c.token(ctx, number)
	if err != nil {
		return fmt.Errorf("find access token: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return fmt.Errorf("make request: %w", err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "weir")
	res, err := c.read.Do(req)
	if err != nil {
		return errors.New(cause(err)) // the error itself would repeat the whole address
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxRead))
	if err != nil {
		return errors.New("answer broke off: " + cause(err))
	}
	if !isSuccess(res.StatusCode) {
		return refusal(res.StatusCode, parseReply(res.StatusCode, body).err)
	}
	if err := json.Unmarshal(body, out); err != nil && !isTypeError(err) {
		return fmt.Errorf("answer is not JSON: %w", ErrNoReads)
	}
	return nil
}

// Codes of generic Graph that matter to reads alone.
const (
	codeParameter   = 100  // with a read: a field this version does not have
	codeUnknownPath = 2500 // no such edge
)

func refusal(status int, e *replyError) error {
	if e == nil {
		switch status {
		case http.StatusUnauthorized, http.StatusForbidden:
			return fmt.Errorf("HTTP %d: %w", status, ErrNotPermitted)
		case http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotImplemented:
			return fmt.Errorf("HTTP %d: %w", status, ErrNoReads)
		default:
			return fmt.Errorf("HTTP %d", status)
		}
	}
	a := byCode(*e, status)
	kind := error(nil)
	switch {
	case a.Code == 33 || a.Code == 803:
		kind = ErrNotFound
	case a.Code == codeParameter || a.Code == codeUnknownPath:
		kind = ErrNoReads
	case a.Action == engine.StopNumber:
		kind = ErrNotPermitted
	default:
		return fmt.Errorf("code %d, %s", a.Code, a.Title)
	}
	if advice := Advice(a.Code); advice != "" && kind != ErrNoReads {
		return fmt.Errorf("code %d, %s (%s): %w", a.Code, a.Title, advice, kind)
	}
	return fmt.Errorf("code %d, %s: %w", a.Code, a.Title, kind)
}

// Package notify hides how others want to be told: the headers and the
// signature of a Standard Webhook, Slack's and PagerDuty's JSON, and the words
// for each kind of notice. It promises that one Send is one request, which ends
// within its timeout, follows no redirect, goes to public addresses over TLS
// unless it was told otherwise, and that what an error says holds neither the
// secret part of an address nor anything of the answer but its status. It never
// retries, keeps no position and decides nothing: who is told what, and when
// again, is for its caller.
package notify

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Notice is something that somebody should be told.
type Notice struct {
	ID      string    // the same in every attempt, and of no other notice; without dots
	Origin  string    // names the log that Seq counts in
	Seq     int64     // place in the log, without gaps; 0 in a test
	Kind    string    // as campaign.stopped
	Subject string    // as campaign:12, number:106540352242922, host
	At      time.Time // when it happened
	Facts   []byte    // JSON object; its fields depend on Kind
}

// Options of an endpoint; the zero value works.
type Options struct {
	// Private allows http, any port and addresses that are not public: a
	// receiver in one's own network. Without it, only https on 443 or 8443 to
	// public addresses, whatever the name resolves to when it is dialed.
	Private bool
	Timeout time.Duration  // of one request, all of it; default 10 s
	RootCAs *x509.CertPool // nil: the system's
}

// DefaultTimeout is how long a request may take unless Options say otherwise.
const DefaultTimeout = 10 * time.Second

// Endpoint is one place that is told. It is safe for concurrent use.
type Endpoint struct {
	name   string
	key    string
	url    *url.URL
	client *http.Client
	format formatter
	pages  bool // what it is told of opens incidents
}

// formatter makes the request's body and headers. wanted is false for a notice
// that this kind of endpoint is not told of.
type formatter func(n Notice, now time.Time) (p payload, wanted bool)

type payload struct {
	body   []byte
	header map[string]string
}

// newEndpoint checks address. identity is what makes the endpoint another one
// than the next of the same kind and address, if anything does.
func newEndpoint(kind, address, identity string, opts Options) (*Endpoint, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" { // url.Parse's error holds the address
		return nil, errors.New("not an address: give a whole one, as https://hooks.example.org/weir")
	}
	if err := checkURL(u, opts.Private); err != nil {
		return nil, err
	}
	sum := sha256.Sum256([]byte(kind + "\n" + address + "\n" + identity))
	return &Endpoint{
		name: kind + " " + u.Host, key: hex.EncodeToString(sum[:16]), url: u,
		client: newClient(opts),
	}, nil
}

// newClient makes a client that a name which resolves to somewhere else the
// next time cannot send elsewhere: it looks at the address that is dialed, each
// time, and asks no proxy.
func newClient(opts Options) *http.Client {
	dialer := &net.Dialer{}
	if !opts.Private {
		dialer.Control = publicOnly
	}
	transport := &http.Transport{
		DialContext: dialer.DialContext, DisableKeepAlives: true, DisableCompression: true, MaxResponseHeaderBytes: 16 << 10,
	}
	if opts.RootCAs != nil {
		transport.TLSClientConfig = tlsConfig(opts.RootCAs)
	}
	return &http.Client{
		Transport: transport, Timeout: cmp.Or(opts.Timeout, DefaultTimeout),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// Name is what people call the endpoint: its kind and its host.
func (e *Endpoint) Name() string { return e.name }

// Key names the endpoint where its position is kept, 32 hexadecimal digits. It
// is a hash: the address, which may be a secret, cannot be read from it.
func (e *Endpoint) Key() string { return e.key }

// Wants reports whether this kind of endpoint is told of n. Webhooks are told of
// everything; where people are woken, only of what they can act on.
func (e *Endpoint) Wants(n Notice) bool {
	_, wanted := e.format(n, time.Time{})
	return wanted
}

// Refused is the error of a Send that was answered, and not with a 2xx.
type Refused struct {
	Status     int           // HTTP status
	RetryAfter time.Duration // what the answer asked for; 0 when it did not
}

func (r *Refused) Error() string {
	text := fmt.Sprintf("answered %d %s", r.Status, http.StatusText(r.Status))
	switch {
	case r.Status/100 == 3:
		text += ", a redirect, which is not followed: configure the address it leads to"
	case r.Status == http.StatusUnauthorized, r.Status == http.StatusForbidden, r.Status == http.StatusNotFound, r.Status == http.StatusGone:
		text += ": check the address and its secret"
	}
	return text
}

// Send makes one request and returns the HTTP status of its answer. Anything
// but a 2xx is an error, a *Refused when there was an answer. A notice that the
// endpoint does not want is not sent; its status is 0.
func (e *Endpoint) Send(ctx context.Context, n Notice) (status int, err error) {
	p, wanted := e.format(n, time.Now())
	if !wanted {
		return 0, nil
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.url.String(), bytes.NewReader(p.body))
	if err != nil {
		return 0, fmt.Errorf("make request to %s: %w", e.name, bare(err))
	}
	req.GetBody = nil // what was sent is not sent again behind our back
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "weir")
	for k, v := range p.header {
		req.Header.Set(k, v)
	}
	resp, err := e.client.Do(req)
	if err != nil {
		return 0, fmt.Errorf("notify %s: %w", e.name, bare(err))
	}
	_ = resp.Body.Close() // unread: nothing in it is for us
	if resp.StatusCode/100 != 2 {
		return resp.StatusCode, fmt.Errorf("notify %s: %w", e.name, &Refused{resp.StatusCode, retryAfter(resp.Header, time.Now())})
	}
	return resp.StatusCode, nil
}

// Test sends a test notice, and after one that opened an incident another that
// resolves it. It returns what Send does.
func (e *Endpoint) Test(ctx context.Context) (status int, err error) {
	n := Notice{ID: "test-" + rand.Text(), Origin: "test", Kind: Test, Subject: "test", At: time.Now()}
	if status, err = e.Send(ctx, n); err != nil || !e.pages {
		return status, err
	}
	n.ID, n.Kind = n.ID+"-over", TestOver
	return e.Send(ctx, n)
}

// bare takes the address off an error of net/http.
func bare(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		if u.Timeout() {
			return errors.New("no answer in time")
		}
		return u.Err
	}
	return err
}

// retryAfter reads the header of that name, in seconds or as a date.
func retryAfter(h http.Header, now time.Time) time.Duration {
	text := strings.TrimSpace(h.Get("Retry-After"))
	if seconds, err := strconv.ParseUint(text, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(0, at.Sub(now))
	}
	return 0
}

// encode is JSON as it goes out: what is in it comes from our own database, so
// it cannot fail, and it needs no escaping for a page.
func encode(v any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return []byte(`{}`)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

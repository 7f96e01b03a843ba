package cloudapi

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weirhq/weir/engine"
)

const (
	maxAnswer   = 64 << 10 // bytes of a response that are read; Meta's are under 1 KiB
	writeBuffer = 16 << 10 // one write for a whole request, so one fence check decides it
	maxPlans    = 1024     // compiled templates kept; a campaign has one
)

// ErrNoToken is what a Token function returns for a number without an access
// token. The number is stopped until an operator gives it one; any other error
// only gives the row back.
var ErrNoToken = errors.New("no access token for this number: set WEIR_ACCESS_TOKEN or the number's token file")

var errBadToken = fmt.Errorf("the access token is empty or holds spaces or line breaks: %w", ErrNoToken)

// Options configure a Client. Token and CallbackKey are required.
type Options struct {
	BaseURL string // default https://graph.facebook.com; http only to this machine, unless Plaintext
	Version string // Graph API version, default v25.0
	// Plaintext allows http to other machines: a simulator in the next
	// container. Tokens then cross the network in the clear.
	Plaintext bool

	// Token is asked for each call, by phone_number_id; it should answer from memory.
	Token func(ctx context.Context, number string) (string, error)
	// Renew, when set, is asked for the current token after Meta has refused
	// one. A different token gives the row back; the same one stops the number.
	Renew func(ctx context.Context, number, refused string) (string, error)
	// CallbackKey signs the ids in biz_opaque_callback_data: at least 16 random
	// bytes that belong to the database and outlive the process.
	CallbackKey []byte

	ConnectTimeout time.Duration // default 2 s
	TLSTimeout     time.Duration // default 2 s
	HeaderTimeout  time.Duration // from the written request to the answer's headers; default 8 s
	Timeout        time.Duration // of a whole call; default 10 s
	IdleTimeout    time.Duration // of a pooled connection; default 20 s, under Meta's own
	MaxConns       int           // connections, idle ones included; default 2048

	ProxyFromEnvironment bool           // honour HTTPS_PROXY and NO_PROXY
	RootCAs              *x509.CertPool // nil: the system's

	Registerer prometheus.Registerer // nil: metrics are kept but not registered
	Logger     *slog.Logger          // nil: silent
}

func (o Options) withDefaults() Options {
	o.BaseURL = strings.TrimRight(cmp.Or(o.BaseURL, "https://graph.facebook.com"), "/")
	o.Version = cmp.Or(o.Version, "v25.0")
	o.ConnectTimeout = cmp.Or(o.ConnectTimeout, 2*time.Second)
	o.TLSTimeout = cmp.Or(o.TLSTimeout, 2*time.Second)
	o.HeaderTimeout = cmp.Or(o.HeaderTimeout, 8*time.Second)
	o.Timeout = cmp.Or(o.Timeout, 10*time.Second)
	o.IdleTimeout = cmp.Or(o.IdleTimeout, 20*time.Second)
	o.MaxConns = cmp.Or(o.MaxConns, 2048)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	return o
}

// Client makes Cloud API calls. It implements engine.Sender and is safe for
// concurrent use.
type Client struct {
	options Options
	root    *url.URL
	signer  *signer
	send    *http.Transport // watched connections, for Send alone
	ping    *http.Transport // a connection each, for Ping alone
	read    *http.Client    // set-up reads; may reuse and retry as net/http likes
	metrics *clientMetrics

	numbers sync.Map // phone_number_id → *number
	plans   sync.Map // *engine.Template → *plan
	planned atomic.Int64
}

// New checks the options and makes a client. It makes no call.
func New(o Options) (*Client, error) {
	o = o.withDefaults()
	root, err := parseRoot(o)
	if err != nil {
		return nil, err
	}
	if o.Token == nil {
		return nil, errors.New("cloudapi options: Token is required")
	}
	if len(o.CallbackKey) < minKey {
		return nil, fmt.Errorf("cloudapi options: %w", errShortKey)
	}
	metrics, err := newClientMetrics(o.Registerer)
	if err != nil {
		return nil, err
	}
	return &Client{
		options: o,
		root:    root,
		signer:  newSigner(o.CallbackKey),
		send:    newTransport(o),
		ping:    newPinger(o),
		read:    newReader(o),
		metrics: metrics,
	}, nil
}

// parseRoot refuses addresses that would send tokens over the network in the
// clear, or that carry a secret which net/http would then put into its errors.
func parseRoot(o Options) (*url.URL, error) {
	u, err := url.Parse(o.BaseURL)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" {
		return nil, errors.New("the Graph URL is not an address like https://graph.facebook.com")
	}
	if u.Scheme != "https" && (u.Scheme != "http" || !o.Plaintext && !isLocal(u.Hostname())) {
		return nil, fmt.Errorf("the Graph URL %s is not https: tokens would cross the network in the clear", u)
	}
	u.Path = "/" + strings.Trim(u.Path, "/") // JoinPath keeps an empty path relative
	return u.JoinPath(o.Version), nil
}

func isLocal(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// Close drops idle connections. Calls in flight go on.
func (c *Client) Close() {
	c.send.CloseIdleConnections()
	c.read.CloseIdleConnections()
}

// number is what a call needs of its sender, found once: the address and the
// metrics, so that a send looks up no label.
type number struct {
	url     *url.URL
	metrics *numberMetrics
}

// Announce makes the metric series of a number before its first call, so that
// they exist from the start.
func (c *Client) Announce(id string) { c.number(id) }

func (c *Client) number(id string) *number {
	if n, ok := c.numbers.Load(id); ok {
		return n.(*number)
	}
	n := &number{url: c.root.JoinPath(url.PathEscape(id), "messages"), metrics: c.metrics.number(id)}
	kept, _ := c.numbers.LoadOrStore(id, n)
	return kept.(*number)
}

// plan compiles each template once. Templates are recognised by their pointer;
// when a program makes new ones without end the cache starts over.
func (c *Client) plan(t *engine.Template) (*plan, error) {
	if p, ok := c.plans.Load(t); ok {
		return p.(*plan), nil
	}
	p, err := compile(t)
	if err != nil {
		return nil, err
	}
	if c.planned.Add(1) > maxPlans {
		c.plans.Clear()
		c.planned.Store(1)
	}
	c.plans.Store(t, p)
	return p, nil
}

package sim

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Options describe the platform to simulate. The zero value accepts any
// bearer token, number and template, answers at once, and sends no webhooks.
type Options struct {
	// Seed decides every message's fate. The same seed, recipient and callback
	// data always fare the same.
	Seed uint64

	// WebhookURL receives status webhooks; empty sends none.
	WebhookURL string
	// AppSecret signs webhook bodies (HMAC-SHA256, X-Hub-Signature-256). Empty
	// leaves them unsigned.
	AppSecret string
	// VerifyToken, when set, makes Run perform the subscription handshake first.
	VerifyToken string
	// Transport carries webhooks; nil means a private http.Transport.
	Transport http.RoundTripper
	// Workers bounds webhook requests in flight; 0 means 32.
	Workers int

	// Tokens are the accepted bearer tokens; empty accepts any non-empty one.
	Tokens []string
	// Numbers are the known senders; empty accepts every number id.
	Numbers []Number
	// AutoNumbers accepts unknown number ids beside the listed ones, at
	// AutoThroughput messages per second; 0 means Meta's default of 80.
	AutoNumbers    bool
	AutoThroughput int
	// Templates are the known templates; empty accepts every template.
	Templates []Template
	// AutoTemplates accepts unknown template names beside the listed ones: their
	// parameters are checked for shape, not against a definition.
	AutoTemplates bool

	// Latency is the time from a request's receipt to its answer.
	Latency Spread
	// Sent, Delivered and Read are the delays of the statuses: Sent after the
	// answer, each of the others after the one before it.
	Sent, Delivered, Read Spread
	// ReadShare of delivered messages are read (0..1).
	ReadShare float64
	// SentOnlyShare of messages never get beyond sent (0..1), as for a phone
	// that stays offline.
	SentOnlyShare float64
	// Failures are messages accepted first and failed by webhook later.
	Failures []Failure

	// EarlyShare of messages have their first status due at once, before the
	// answer to the request has left (needs some Latency to be seen).
	EarlyShare float64
	// ReorderShare of messages get their later statuses before sent.
	ReorderShare float64
	// DuplicateShare of acknowledged statuses are delivered a second time.
	DuplicateShare float64
	// BatchSize is the most statuses in one webhook; 0 means 1, Meta's cap is 1000.
	BatchSize int
	// BatchInterval is how long a batch smaller than BatchSize waits for company.
	BatchInterval time.Duration
	// RetryBase is the wait before the second retry of a refused webhook; it
	// doubles from there up to RetryMost (the first retry is immediate). 0 means 1 s.
	RetryBase time.Duration
	// RetryMost is the longest wait between two retries; 0 means an hour.
	RetryMost time.Duration
	// RetryFor is how long a refused webhook is retried; 0 means Meta's 7 days.
	RetryFor time.Duration

	// Tried, when set, hears of every webhook request once it is over. It is
	// called by several goroutines at once, and webhooks wait while it runs.
	Tried func(Try)

	// Logger hears about webhooks refused and handshakes; nil discards.
	Logger *slog.Logger
}

// Try is one webhook request: what it told, and what came back.
type Try struct {
	Began, Ended int64 // Unix ns, on the ledger's clock
	HTTP         int   // 0: no answer
	Told         []Told
}

// Told is one status of a webhook request.
type Told struct {
	Seq    uint64 // the ledger line of the message
	Status string // sent, delivered, read, failed
	Again  bool   // a second delivery of an acknowledged status
}

// Spread is a delay drawn evenly from [Base, Base+Jitter).
type Spread struct {
	Base, Jitter time.Duration
}

// Failure is a share (0..1) of messages that fail by webhook with Code.
type Failure struct {
	Code  int
	Share float64
}

// Number is one sender: a business phone number.
type Number struct {
	// ID is the phone_number_id in request paths.
	ID string
	// WABA owns the number and its templates; empty means a made-up one.
	WABA string
	// Portfolio shares the 24 h limit between numbers; empty means the WABA.
	Portfolio string
	// Display is the number itself in E.164 with +; empty derives one from ID.
	Display string
	// Name is the verified name.
	Name string
	// Throughput is in messages per second; 0 means Meta's default of 80, or
	// the fixed 20 of a number that is also on the WhatsApp Business app.
	Throughput int
	// Quality is GREEN, YELLOW or RED; empty means GREEN.
	Quality string
	// MessagingLimit is the portfolio's 24 h tier; empty means TIER_UNLIMITED.
	MessagingLimit string
	// OnBizApp marks a coexistence number.
	OnBizApp bool
	// Test marks a test number, which may only message Allowed (E.164, at most 5).
	Test    bool
	Allowed []string
}

const (
	defaultThroughput = 80 // Meta, "Throughput", 2026-09-11
	coexistThroughput = 20 // the same page: fixed for coexistence numbers
	autoWABA          = "100000000000001"
	maxBatch          = 1000 // Meta, "Create a webhook endpoint": updates per POST
)

func (o Options) withDefaults() Options {
	o.Workers = cmp.Or(o.Workers, 32)
	o.BatchSize = min(cmp.Or(o.BatchSize, 1), maxBatch)
	o.RetryBase = cmp.Or(o.RetryBase, time.Second)
	o.RetryMost = cmp.Or(o.RetryMost, time.Hour)
	o.RetryFor = cmp.Or(o.RetryFor, 7*24*time.Hour)
	o.AutoNumbers = o.AutoNumbers || len(o.Numbers) == 0
	o.AutoTemplates = o.AutoTemplates || len(o.Templates) == 0
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

func (o Options) validate() error {
	var errs []error
	if o.WebhookURL != "" {
		if u, err := url.Parse(o.WebhookURL); err != nil || u.Host == "" {
			errs = append(errs, fmt.Errorf("webhook URL %q: need an absolute http(s) URL", o.WebhookURL))
		}
	}
	failing := 0.0
	for _, f := range o.Failures {
		errs = append(errs, checkShare("share of failures", f.Share))
		failing += f.Share
	}
	errs = append(errs,
		checkShare("sum of the failures' shares", failing),
		checkShare("ReadShare", o.ReadShare), checkShare("SentOnlyShare", o.SentOnlyShare),
		checkShare("EarlyShare", o.EarlyShare), checkShare("ReorderShare", o.ReorderShare),
		checkShare("DuplicateShare", o.DuplicateShare))
	if o.Workers < 0 || o.BatchSize < 0 {
		errs = append(errs, errors.New("workers and batch size must not be negative"))
	}
	seen := map[string]bool{}
	for _, n := range o.Numbers {
		if n.ID == "" || seen[n.ID] {
			errs = append(errs, fmt.Errorf("number id %q: need one id per number, each once", n.ID))
		}
		seen[n.ID] = true
	}
	return errors.Join(errs...)
}

func checkShare(name string, v float64) error {
	if v >= 0 && v <= 1 {
		return nil
	}
	return fmt.Errorf("%s is %v: need 0..1", name, v)
}

func (n Number) withDefaults() Number {
	n.WABA = cmp.Or(n.WABA, autoWABA)
	n.Portfolio = cmp.Or(n.Portfolio, n.WABA)
	n.Name = cmp.Or(n.Name, "Simulated Business")
	n.Quality = cmp.Or(n.Quality, "GREEN")
	n.MessagingLimit = cmp.Or(n.MessagingLimit, "TIER_UNLIMITED")
	n.Display = "+" + strings.TrimPrefix(cmp.Or(n.Display, displayFor(n.ID)), "+")
	if n.OnBizApp {
		n.Throughput = cmp.Or(n.Throughput, coexistThroughput)
	}
	n.Throughput = cmp.Or(n.Throughput, defaultThroughput)
	return n
}

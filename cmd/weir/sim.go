package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/weirhq/weir/internal/sim"
)

type simCmd struct {
	Listen      string        `default:"127.0.0.1:9400" env:"WEIR_SIM_LISTEN" help:"Address to serve the simulated Cloud API on."`
	WebhookURL  string        `placeholder:"URL" help:"Where to deliver status webhooks, for example http://127.0.0.1:8080/webhooks/whatsapp. Unset: none are sent."`
	AppSecret   string        `env:"WEIR_APP_SECRET" help:"Signs webhooks, as Meta's app secret does."`
	VerifyToken string        `env:"WEIR_VERIFY_TOKEN" help:"Performs the subscription handshake first."`
	WABA        string        `name:"waba" placeholder:"ID" help:"Business account of the known numbers."`
	Throughput  int           `default:"80" help:"Messages per second each number may send, both directions."`
	Number      []string      `placeholder:"ID" help:"Known numbers. None: every number id is accepted."`
	Templates   string        `type:"existingfile" placeholder:"FILE" help:"Templates to check messages against, as Meta's GET message_templates returns them. None: every template is accepted."`
	Latency     time.Duration `default:"150ms" help:"Time from a request to its answer, give or take a third."`
	ReadShare   float64       `default:"0.6" help:"Share of delivered messages that are read (0 to 1)."`
	FailShare   float64       `default:"0.01" help:"Share of messages that are accepted and then fail with 131026 (0 to 1)."`
	Seed        uint64        `default:"1" help:"Decides every message's fate."`
}

// Help shows an example.
func (simCmd) Help() string {
	return `Rehearse a campaign on it: point WEIR_GRAPH_URL at it, and it at weir serve.

  weir sim --webhook-url http://127.0.0.1:8080/webhooks/whatsapp --app-secret s3cret --verify-token hello

What it saw is at /sim/summary and /sim/ledger. It can be made to misbehave, and
to behave again:

  curl -d '{"kind":"throttle","duration":"10s"}' http://127.0.0.1:9400/sim/behavior
  curl -X DELETE http://127.0.0.1:9400/sim/behavior
  curl -d '{"field":"message_template_status_update","event":"PAUSED","template":"order_update","language":"en_US"}' \
    http://127.0.0.1:9400/sim/news

A person writes to a number, or taps a template's button (with "payload"):

  curl -d '{"from":"+4915112345678","to":"106540352242922","text":"STOP"}' http://127.0.0.1:9400/sim/inbound

Kinds: outage, error (with "code"), throttle, hang, reset, slow, garbage, fail,
hold, token_revoked, template_status, webhook_blackout, webhook_drop and more.`
}

func (c simCmd) Run(ctx context.Context, s *session) error {
	opts := sim.Options{
		Seed: c.Seed, WebhookURL: c.WebhookURL, AppSecret: c.AppSecret, VerifyToken: c.VerifyToken,
		Latency:   around(c.Latency),
		Sent:      sim.Spread{Base: 200 * time.Millisecond, Jitter: 300 * time.Millisecond},
		Delivered: sim.Spread{Base: 500 * time.Millisecond, Jitter: time.Second},
		Read:      sim.Spread{Base: time.Second, Jitter: 5 * time.Second}, ReadShare: c.ReadShare,
		Failures:       []sim.Failure{{Code: 131026, Share: c.FailShare}},
		AutoThroughput: c.Throughput,
		Logger:         s.log,
	}
	for _, id := range c.Number {
		opts.Numbers = append(opts.Numbers, sim.Number{ID: id, WABA: c.WABA, Throughput: c.Throughput})
	}
	if c.Templates != "" {
		templates, err := readTemplates(c.Templates)
		if err != nil {
			return err
		}
		opts.Templates = templates
	}
	platform, err := sim.New(opts)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", c.Listen)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	_, _ = fmt.Fprintf(s.std.err, "simulated Cloud API on http://%s (summary at /sim/summary)\n", l.Addr())
	return serveSim(ctx, platform, l)
}

func readTemplates(path string) ([]sim.Template, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open templates: %w", err)
	}
	defer f.Close()
	return sim.ParseTemplates(f)
}

// serveSim runs a simulator on l until ctx ends.
func serveSim(ctx context.Context, s *sim.Sim, l net.Listener) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return s.Run(ctx) })
	g.Go(func() error {
		return serveHTTP(ctx, &http.Server{Handler: s.Handler(), ReadHeaderTimeout: 5 * time.Second}, l)
	})
	return g.Wait()
}

// serveHTTP serves until ctx ends, then lets requests under way finish.
func serveHTTP(ctx context.Context, srv *http.Server, l net.Listener) error {
	drained := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(drained)
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		if srv.Shutdown(grace) != nil {
			_ = srv.Close() // whoever has not finished by now is cut off
		}
	})
	err := srv.Serve(l)
	if errors.Is(err, http.ErrServerClosed) {
		<-drained
		return nil
	}
	stop()
	return fmt.Errorf("serve %s: %w", l.Addr(), err)
}

func around(d time.Duration) sim.Spread { return sim.Spread{Base: d * 2 / 3, Jitter: d * 2 / 3} }

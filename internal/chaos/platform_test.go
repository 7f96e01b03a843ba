//go:build !race

package chaos

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirhq/weir/internal/sim"
)

const appSecret = "chaos"

// platform is the simulated Cloud API, with its webhooks going to whichever
// place takes them.
type platform struct {
	*sim.Sim
	addr string
	door *balancer
	seen atomic.Int64 // requests so far
	stop func() error

	mu    sync.Mutex
	tries []sim.Try
}

func newPlatform(seed uint64) (*platform, error) {
	p := &platform{door: &balancer{transport: &http.Transport{
		DialContext:           (&net.Dialer{Timeout: time.Second}).DialContext,
		ResponseHeaderTimeout: 2 * time.Second, MaxIdleConnsPerHost: 16,
	}}}
	between := func(least, most int) sim.Spread {
		return sim.Spread{Base: time.Duration(least) * time.Millisecond, Jitter: time.Duration(most-least) * time.Millisecond}
	}
	var err error
	p.Sim, err = sim.New(sim.Options{
		Seed: seed, WebhookURL: "http://nodes/webhooks/whatsapp", AppSecret: appSecret, Transport: p.door, Workers: 16,
		Latency: between(80, 200), Sent: between(100, 500), Delivered: between(200, 600), Read: between(200, 1000), ReadShare: 0.5,
		Failures: []sim.Failure{{Code: 131026, Share: 0.02}}, SentOnlyShare: 0.05,
		EarlyShare: 0.1, ReorderShare: 0.1, DuplicateShare: 0.1, BatchSize: 20, BatchInterval: 100 * time.Millisecond,
		RetryBase: 100 * time.Millisecond, RetryMost: time.Second, AutoThroughput: 1000, Tried: p.tried,
	})
	if err != nil {
		return nil, err
	}
	if _, err := p.Misbehave(sim.Behavior{Kind: sim.Fault, Code: 131016, Probability: 0.01}); err != nil {
		return nil, err
	}
	return p, p.serve()
}

func (p *platform) tried(t sim.Try) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tries = append(p.tries, t)
}

func (p *platform) serve() error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listen for the platform: %w", err)
	}
	handler := p.Handler()
	server := &http.Server{Handler: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		p.seen.Add(1)
		handler.ServeHTTP(rw, r)
	})}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 2)
	go func() { ended <- p.Run(ctx) }()
	go func() { ended <- server.Serve(l) }()
	p.addr = l.Addr().String()
	p.stop = func() error {
		cancel()
		err := errors.Join(server.Close(), <-ended, <-ended)
		p.door.transport.CloseIdleConnections()
		if errors.Is(err, http.ErrServerClosed) {
			return nil
		}
		return err
	}
	return nil
}

// balancer stands before the nodes' receivers: it takes them in turn and
// leaves out for a second whoever did not answer, or not with 200.
type balancer struct {
	transport *http.Transport

	mu    sync.Mutex
	addrs []string
	sick  map[string]time.Time
	next  int
}

// RoundTrip is one webhook request.
func (b *balancer) RoundTrip(r *http.Request) (*http.Response, error) {
	addr, err := b.choose()
	if err != nil {
		return nil, err
	}
	out := r.Clone(r.Context())
	out.URL.Host = addr
	res, err := b.transport.RoundTrip(out)
	if err != nil || res.StatusCode != http.StatusOK {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.sick[addr] = time.Now().Add(time.Second)
	}
	return res, err
}

func (b *balancer) choose() (string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for range b.addrs {
		b.next = (b.next + 1) % len(b.addrs)
		if addr := b.addrs[b.next]; time.Now().After(b.sick[addr]) {
			return addr, nil
		}
	}
	return "", errors.New("no receiver answers")
}

func (b *balancer) add(addr string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.sick == nil {
		b.sick = map[string]time.Time{}
	}
	b.addrs = append(b.addrs, addr)
}

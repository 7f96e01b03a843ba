package sim

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
)

// Sim is a running platform. Serve its Handler over HTTP and keep Run going;
// every method is safe for concurrent use.
type Sim struct {
	opts    Options
	world   atomic.Pointer[world]
	wake    chan struct{}
	stopped chan struct{} // closed when Run ends: hanging senders are let go
	running atomic.Bool
}

// New makes a platform. It fails on options that contradict themselves, naming
// each of them.
func New(opts Options) (*Sim, error) {
	opts = opts.withDefaults()
	if err := opts.validate(); err != nil {
		return nil, fmt.Errorf("check simulator options: %w", err)
	}
	s := &Sim{opts: opts, wake: make(chan struct{}, 1), stopped: make(chan struct{})}
	s.Reset()
	return s, nil
}

// Reset forgets every request, status, limit and misbehaviour, and all numbers
// and templates but those of the options.
func (s *Sim) Reset() {
	w := newWorld(&s.opts, s.wake)
	s.world.Store(w)
	w.signal()
}

// Run performs the webhook handshake and delivers status webhooks until ctx
// ends, then stops its goroutines and lets hanging senders go. It runs once.
// The only errors are a second call and a receiver that rejects the verify
// token; a receiver that is down is waited for.
func (s *Sim) Run(ctx context.Context) error {
	if !s.running.CompareAndSwap(false, true) {
		return errors.New("run simulator: it has been run before, make a new one")
	}
	defer close(s.stopped)
	if s.opts.WebhookURL == "" {
		<-ctx.Done()
		return nil
	}
	transport := s.opts.Transport
	if transport == nil {
		own := &http.Transport{MaxIdleConnsPerHost: s.opts.Workers, MaxConnsPerHost: s.opts.Workers}
		defer own.CloseIdleConnections()
		transport = own
	}
	p := &poster{opts: &s.opts, client: &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	if s.opts.VerifyToken != "" {
		if err := p.handshake(ctx); err != nil {
			return err
		}
	}
	p.run(ctx, s)
	return nil
}

// Ledger returns every request received in full so far, in order. It copies:
// for millions of them, stream GET /sim/ledger.
func (s *Sim) Ledger() []Entry { return slices.Collect(s.world.Load().entries(1)) }

// Phone returns the recipient of a ledger line in E.164, or "" if there is no
// such line or it has none. It is for tests: nothing else reveals numbers.
func (s *Sim) Phone(seq uint64) string {
	w := s.world.Load()
	w.mu.Lock()
	defer w.mu.Unlock()
	if seq == 0 || seq > uint64(w.book.n) {
		return ""
	}
	if rec := w.book.at(int(seq - 1)); rec.phone != 0 {
		return phoneText(rec.phone)
	}
	return ""
}

// Misbehave puts a misbehaviour into force and returns its id. It fails on an
// unknown kind or one that lacks what it needs.
func (s *Sim) Misbehave(b Behavior) (int, error) {
	b, err := b.withDefaults()
	if err != nil {
		return 0, fmt.Errorf("check behavior: %w", err)
	}
	return s.world.Load().misbehave(b), nil
}

// Behave ends the misbehaviour with that id, or all of them for 0, and returns
// how many there were.
func (s *Sim) Behave(id int) int { return s.world.Load().clear(id) }

// Handler serves the Cloud API (with and without a version in the path) and
// the simulator's own endpoints under /sim/.
func (s *Sim) Handler() http.Handler {
	mux := http.NewServeMux()
	for _, prefix := range []string{"", "/{version}"} {
		mux.Handle("POST "+prefix+"/{number}/messages", s.serveSend(false))
		mux.Handle("POST "+prefix+"/{number}/marketing_messages", s.serveSend(true))
		mux.HandleFunc("GET "+prefix+"/{id}/message_templates", s.serveRead((*call).templates))
		mux.HandleFunc("GET "+prefix+"/{id}/phone_numbers", s.serveRead((*call).phoneNumbers))
		mux.HandleFunc("GET "+prefix+"/{id}", s.serveRead((*call).node))
	}
	mux.HandleFunc("/", s.serveRead((*call).unknownPath))
	s.admin(mux)
	return mux
}

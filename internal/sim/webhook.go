package sim

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"
)

// postTimeout is how long the receiver may take. Meta documents no figure;
// senders' reports range from 3 to 20 s.
const postTimeout = 10 * time.Second

// poster delivers webhooks.
type poster struct {
	opts   *Options
	client *http.Client
}

// handshake performs the subscription check until the receiver answers it. It
// gives up only on an answer that no later try would change: a wrong token.
func (p *poster) handshake(ctx context.Context) error {
	challenge := strconv.FormatUint(mix(p.opts.Seed^0x1158201444)>>1, 10)
	u, err := url.Parse(p.opts.WebhookURL)
	if err != nil {
		return fmt.Errorf("parse webhook URL: %w", err)
	}
	q := u.Query()
	q.Set("hub.mode", "subscribe")
	q.Set("hub.challenge", challenge)
	q.Set("hub.verify_token", p.opts.VerifyToken)
	u.RawQuery = q.Encode()
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, 2*time.Second) {
		status, body, err := p.do(ctx, http.MethodGet, u.String(), nil)
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil && status == http.StatusOK && string(body) == challenge:
			return nil
		case status == http.StatusForbidden || status == http.StatusUnauthorized:
			return fmt.Errorf("webhook handshake: the receiver answered %d: its verify token is not the simulator's", status)
		}
		p.opts.Logger.Warn("webhook handshake not answered, trying again", "http", status, "error", err, "in", wait)
		if !pause(ctx, wait) {
			return nil
		}
	}
}

func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// do makes a request and returns the status and the beginning of the body. A
// request with a body is a signed webhook.
func (p *poster) do(ctx context.Context, method, to string, hook *signed) (int, []byte, error) {
	ctx, cancel := context.WithTimeout(ctx, postTimeout)
	defer cancel()
	var body io.Reader
	if hook != nil {
		body = bytes.NewReader(hook.body)
	}
	req, err := http.NewRequestWithContext(ctx, method, to, body)
	if err != nil {
		return 0, nil, fmt.Errorf("make webhook request: %w", err)
	}
	req.Header.Set("User-Agent", "facebookexternalua")
	req.Header.Set("Accept", "*/*")
	if hook != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if hook != nil && hook.signature != "" {
		req.Header.Set("X-Hub-Signature-256", hook.signature)
	}
	resp, err := p.client.Do(req)
	if err != nil {
		return 0, nil, fmt.Errorf("call webhook: %w", err)
	}
	defer func() { _ = resp.Body.Close() }() // nothing is lost with it
	head, err := io.ReadAll(io.LimitReader(resp.Body, 4<<10))
	if err != nil {
		return resp.StatusCode, nil, fmt.Errorf("read webhook answer: %w", err)
	}
	return resp.StatusCode, head, nil
}

// signed is a webhook's body and its X-Hub-Signature-256, if it has one.
type signed struct {
	body      []byte
	signature string
}

// deliver tries a batch once. Only 200 counts as taken.
func (p *poster) deliver(ctx context.Context, b *batch, buf []byte) []byte {
	var u updates
	if b.raw != nil {
		buf = append(buf[:0], b.raw...)
	} else {
		u = b.world.updates(b)
		buf = u.append(buf[:0])
	}
	hook := signed{body: buf}
	if secret := p.opts.AppSecret; secret != "" {
		if b.world.rules.pick(onSigning, &u.subject, b.world.now()) != nil {
			secret += "?"
		}
		hook.signature = sign(secret, buf)
	}
	began := b.world.now()
	status, _, err := p.do(ctx, http.MethodPost, p.opts.WebhookURL, &hook)
	if p.opts.Tried != nil {
		p.opts.Tried(b.world.try(b, began, status))
	}
	if status == http.StatusOK {
		b.world.acked(b)
		return buf
	}
	if ctx.Err() == nil {
		p.opts.Logger.Debug("webhook refused", "http", status, "error", err, "tries", b.tries+1, "statuses", len(b.events))
	}
	b.world.refused(b)
	return buf
}

func sign(secret string, body []byte) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(body)
	return "sha256=" + hex.EncodeToString(mac.Sum(nil))
}

// run sends batches with Workers requests in flight until ctx ends.
func (p *poster) run(ctx context.Context, s *Sim) {
	jobs := make(chan *batch)
	var wg sync.WaitGroup
	for range p.opts.Workers {
		wg.Go(func() {
			var buf []byte
			for b := range jobs {
				buf = p.deliver(ctx, b, buf)
			}
		})
	}
	dispatch(ctx, s, jobs)
	close(jobs)
	wg.Wait()
}

// dispatch hands out the batches as they fall due.
func dispatch(ctx context.Context, s *Sim, jobs chan<- *batch) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil {
		b, wait := s.world.Load().nextBatch()
		if b != nil {
			select {
			case jobs <- b:
			case <-ctx.Done():
				b.world.putBack(b)
			}
			continue
		}
		timer.Reset(wait)
		select {
		case <-timer.C:
		case <-s.wake:
		case <-ctx.Done():
		}
	}
}

// try describes a webhook request that is over.
func (w *world) try(b *batch, began int64, status int) Try {
	w.mu.Lock()
	defer w.mu.Unlock()
	t := Try{Began: w.wall + began, Ended: w.wall + w.now(), HTTP: status, Told: make([]Told, len(b.events))}
	for i, e := range b.events {
		t.Told[i] = Told{
			Seq: uint64(e.ref) + 1, Again: e.again,
			Status: w.book.at(int(e.ref)).plan.steps()[e.step].String(),
		}
	}
	return t
}

// putBack keeps a batch that nobody could try.
func (w *world) putBack(b *batch) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.out.retries.push(b)
}

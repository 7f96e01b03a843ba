package bench

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/weirhq/weir/engine"
	"github.com/weirhq/weir/internal/cloudapi"
)

const (
	secret      = "bench-app-secret"
	postStatus  = 100 // statuses of one webhook
	postWaits   = 50 * time.Millisecond
	postsAtOnce = 8
)

// withStatuses is a durable campaign while the platform says sent, delivered and
// read of every message, a hundred statuses a webhook. It has ended when all of
// that is in the database too.
func withStatuses(ctx context.Context, b *Bench) (func(context.Context) error, error) {
	messages := make(chan arrival, b.opts.Rows)
	send, err := b.lanes(ctx, b.opts.Rows, func(c *counted) engine.Store { return c }, func(a arrival) { messages <- a })
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		err := b.receiving(ctx, b.Store, func(ctx context.Context, url string) error {
			posts, ctx := errgroup.WithContext(ctx)
			for range postsAtOnce {
				posts.Go(func() error { return herald(ctx, url, messages) })
			}
			err := send(ctx)
			close(messages)
			return errors.Join(err, posts.Wait())
		})
		if err != nil {
			return err
		}
		read, err := scalar[int](ctx, b.Pool(), `SELECT count(*) FROM recipients WHERE status = 'read'`)
		if err == nil && read != b.opts.Rows {
			err = fmt.Errorf("%d of %d messages are read: statuses were lost", read, b.opts.Rows)
		}
		return err
	}, nil
}

// receiving runs a webhook receiver over a store, and lends its address.
func (b *Bench) receiving(ctx context.Context, to engine.StatusStore, f func(ctx context.Context, url string) error) error {
	tracker, err := engine.NewTracker(engine.TrackerOptions{Store: to, Logger: b.opts.Logger})
	if err != nil {
		return err
	}
	key, err := b.InstanceKey(ctx)
	if err != nil {
		return err
	}
	receiver, err := cloudapi.NewReceiver(cloudapi.ReceiverOptions{Submit: tracker.Submit, AppSecrets: []string{secret}, CallbackKey: key})
	if err != nil {
		return err
	}
	return during(ctx, tracker.Run, func(ctx context.Context) error { return serving(ctx, receiver, f) })
}

// serving runs an HTTP server on this machine.
func serving(ctx context.Context, h http.Handler, f func(ctx context.Context, url string) error) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	server := &http.Server{Handler: h, ReadHeaderTimeout: 5 * time.Second}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	err = f(ctx, "http://"+l.Addr().String())
	err = errors.Join(err, server.Close())
	<-ended
	return err
}

// herald delivers what the platform says about the messages.
func herald(ctx context.Context, url string, messages <-chan arrival) error {
	var client http.Client
	defer client.CloseIdleConnections()
	for {
		about := gather(messages)
		if len(about) == 0 {
			return nil
		}
		body := webhook(about, "sent", "delivered", "read")
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
		if err != nil {
			return fmt.Errorf("deliver statuses: %w", err)
		}
		req.Header.Set("X-Hub-Signature-256", sign(body))
		res, err := client.Do(req)
		if err != nil {
			return fmt.Errorf("deliver statuses: %w", err)
		}
		if err := res.Body.Close(); err != nil || res.StatusCode != http.StatusOK {
			return fmt.Errorf("deliver statuses: answered %s, %w", res.Status, err)
		}
	}
}

// gather waits for a webhook's worth of messages; none means that none will come.
func gather(messages <-chan arrival) (about []arrival) {
	late := time.NewTimer(postWaits)
	defer late.Stop()
	for len(about) < postStatus/3 {
		select {
		case m, ok := <-messages:
			if !ok {
				return about
			}
			about = append(about, m)
		case <-late.C:
			if len(about) > 0 {
				return about
			}
			late.Reset(postWaits)
		}
	}
	return about
}

func sign(body []byte) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(body)
	return "sha256=" + hex.EncodeToString(mac.Sum(nil))
}

// webhook is a body as Meta sends it, with these statuses of each message.
func webhook(about []arrival, statuses ...string) []byte {
	var b bytes.Buffer
	b.WriteString(`{"object":"whatsapp_business_account","entry":[{"id":"` + account + `","changes":[{"value":{"messaging_product":"whatsapp",` +
		`"metadata":{"display_phone_number":"15550783881","phone_number_id":"` + about[0].number + `"},"statuses":[`)
	at := strconv.FormatInt(time.Now().Unix(), 10)
	for i, m := range about {
		for j, status := range statuses {
			if i+j > 0 {
				b.WriteByte(',')
			}
			b.WriteString(`{"id":"` + m.id + `","status":"` + status + `","timestamp":"` + at + `","recipient_id":"5511987654321",` +
				`"biz_opaque_callback_data":"` + m.callback + `",` +
				`"conversation":{"id":"d1a4b1c0","expiration_timestamp":"1750116480","origin":{"type":"utility"}},` +
				`"pricing":{"billable":true,"pricing_model":"PMP","type":"regular","category":"utility"}}`)
		}
	}
	b.WriteString(`]},"field":"messages"}]}]}`)
	return b.Bytes()
}

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/sync/errgroup"

	"github.com/weirhq/weir/engine"
	"github.com/weirhq/weir/internal/api"
	"github.com/weirhq/weir/internal/cloudapi"
	"github.com/weirhq/weir/internal/jobs"
	"github.com/weirhq/weir/migrations"
)

type serveCmd struct {
	graph
	told
	words
	Listen        string        `env:"WEIR_LISTEN" default:":8080" help:"Address for webhooks, metrics and health."`
	NodeID        string        `env:"WEIR_NODE_ID" help:"This node's name in leases and logs. Default: host name and a random suffix."`
	AppSecret     []string      `env:"WEIR_APP_SECRET" help:"Meta's app secret, which signs webhooks; two, comma-separated, while it is being changed."`
	VerifyToken   string        `env:"WEIR_VERIFY_TOKEN" help:"Answers Meta's subscription handshake."`
	NoWebhooks    bool          `env:"WEIR_NO_WEBHOOKS" help:"This node receives no webhooks (others must)."`
	APIToken      string        `name:"api-token" env:"WEIR_API_TOKEN" help:"Lets other systems in at /v1, as Authorization: Bearer. Unset: nobody."`
	LeaseTTL      time.Duration `env:"WEIR_LEASE_TTL" default:"10s" help:"How long a number stays owned without a heartbeat."`
	UnknownWindow time.Duration `env:"WEIR_UNKNOWN_WINDOW" default:"30m" help:"Healthy webhook time before a campaign's policy decides for an unknown recipient."`
}

// Help shows an example.
func (serveCmd) Help() string {
	return `  WEIR_ACCESS_TOKEN_FILE=/etc/weir/token WEIR_APP_SECRET=… WEIR_VERIFY_TOKEN=… weir serve --listen :8080

Serves /webhooks/whatsapp, /metrics, /healthz and /readyz, and with WEIR_API_TOKEN
GET /v1/breakers, GET /v1/breakers/{scope}/events?after=MARK&wait=30 and
POST /v1/breakers/{scope}: {"state": "open", "for": "10m", "reason": "…"}. SIGTERM
hands over cleanly.`
}

func (c serveCmd) Run(ctx context.Context, s *session) error {
	if len(c.AppSecret) == 0 && !c.NoWebhooks {
		return usagef("serve needs WEIR_APP_SECRET to trust webhooks (Meta's app dashboard: Settings, Basic); a node that receives none says --no-webhooks")
	}
	if c.APIToken != "" && len(c.APIToken) < 16 {
		return usagef("WEIR_API_TOKEN is shorter than 16 characters and could be guessed: `openssl rand -hex 24` makes one")
	}
	if c.UnknownWindow < time.Second {
		return usagef("--unknown-window must be at least 1s, and in earnest longer than Meta's webhooks take: 30m")
	}
	if _, err := c.table(); err != nil {
		return err
	}
	if _, err := c.endpoints(); err != nil {
		return err
	}
	if c.AccessToken == "" && c.AccessTokenFile == "" {
		s.log.WarnContext(ctx, "no WEIR_ACCESS_TOKEN and no WEIR_ACCESS_TOKEN_FILE: only numbers with a --token-file of their own can send")
	}
	if c.VerifyToken == "" && !c.NoWebhooks {
		s.log.WarnContext(ctx, "no WEIR_VERIFY_TOKEN: Meta's subscription handshake will be refused")
	}
	return s.with(ctx, func(db *database) error {
		n, err := c.node(ctx, db, s.log)
		if err != nil {
			return err
		}
		l, err := net.Listen("tcp", c.Listen)
		if err != nil {
			return fmt.Errorf("listen: %w", err)
		}
		s.log.InfoContext(ctx, "serving", "node", n.id, "listen", l.Addr().String())
		return n.run(ctx, l)
	})
}

// node is one member of a fleet, assembled and not yet running.
type node struct {
	id      string
	db      *database
	client  *cloudapi.Client
	inbox   *inbox
	lanes   *engine.Node
	jobs    *jobs.Runner
	http    api.Options
	listens bool // receives webhooks
	log     *slog.Logger
}

func (c serveCmd) node(ctx context.Context, db *database, log *slog.Logger) (*node, error) {
	reg := prometheus.NewRegistry()
	reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		newRecipientCollector(db.Store, log), newBreakerCollector(db.Store, log), newPauseCollector(db.Store, log), newFleetCollector(db.Store, log))
	n := &node{id: cmp.Or(c.NodeID, nodeName()), db: db, listens: !c.NoWebhooks, log: log}
	var err error
	if n.client, err = c.client(ctx, db.Store, log, reg); err != nil {
		return nil, err
	}
	tracker, err := engine.NewTracker(engine.TrackerOptions{Store: db, Registry: reg, Logger: log})
	if err != nil {
		return nil, err
	}
	n.inbox = &inbox{Tracker: tracker}
	sender, err := newSieve(n.client)
	if err != nil {
		return nil, err
	}
	if n.lanes, err = engine.NewNode(engine.Options{
		ID: n.id, Store: db, Sender: sender, TTL: c.LeaseTTL, Ping: n.client.Ping, Registry: reg, Logger: log,
	}); err != nil {
		return nil, err
	}
	if n.jobs, err = c.jobs(ctx, n); err != nil {
		return nil, err
	}
	n.http = api.Options{
		Metrics: promhttp.HandlerFor(reg, promhttp.HandlerOpts{}), Ready: n.ready, Logger: log,
		Token: c.APIToken, Force: db.ForceBreaker, Breakers: db.BreakerList, Events: db.BreakerEvents,
	}
	if n.listens {
		n.http.Webhooks, err = c.receiver(ctx, n, reg)
	}
	return n, err
}

func (c serveCmd) jobs(ctx context.Context, n *node) (*jobs.Runner, error) {
	endpoints, err := c.endpoints()
	if err != nil {
		return nil, err
	}
	for _, e := range endpoints {
		n.log.InfoContext(ctx, "notices are sent", "endpoint", e.Name())
	}
	return jobs.New(jobs.Options{Store: n.db.Store, UnknownWindow: c.UnknownWindow, Endpoints: endpoints, Logger: n.log})
}

func (c serveCmd) receiver(ctx context.Context, n *node, reg prometheus.Registerer) (*cloudapi.Receiver, error) {
	key, err := n.db.InstanceKey(ctx)
	if err != nil {
		return nil, err
	}
	table, err := c.table()
	if err != nil {
		return nil, err
	}
	return cloudapi.NewReceiver(cloudapi.ReceiverOptions{
		Submit: n.inbox.Submit, AppSecrets: c.AppSecret, VerifyToken: c.VerifyToken,
		CallbackKey: key, Wish: table.Read, Registerer: reg, Logger: n.log,
	})
}

// run serves on l until ctx ends, and closes in the data's order: lanes
// (claiming, then sending, then the last results, then the leases), HTTP, the
// statuses still queued, jobs.
func (n *node) run(ctx context.Context, l net.Listener) error {
	defer n.client.Close()
	return inOrder(ctx,
		n.lanes.Run,
		func(ctx context.Context) error { return n.serveHTTP(ctx, l) },
		n.inbox.Run,
		n.receiving,
		n.watchPostgres,
		n.stands,
		n.jobs.Run,
	)
}

// serveHTTP lets go of those who wait for an event as soon as the node leaves.
func (n *node) serveHTTP(ctx context.Context, l net.Listener) error {
	opts := n.http
	opts.Leaving = ctx.Done()
	return serveHTTP(ctx, api.Server(api.Handler(opts)), l)
}

// receiving tells the fleet that this node's receiver is up: healthy webhook
// time is counted from it.
func (n *node) receiving(ctx context.Context) error {
	if !n.listens {
		<-ctx.Done()
		return nil
	}
	for tick := time.NewTicker(5 * time.Second); ; {
		if err := n.db.ReceiverSeen(ctx, n.id, n.inbox.heard.Swap(false)); err != nil && ctx.Err() == nil {
			n.log.WarnContext(ctx, "webhook receiver could not report that it is up", "err", err)
		}
		select {
		case <-ctx.Done():
			tick.Stop()
			return nil
		case <-tick.C:
		}
	}
}

// watchPostgres brings the private server back when something else has killed
// it: nobody else would. An operator's server has an operator.
func (n *node) watchPostgres(ctx context.Context) error {
	for tick := time.NewTicker(5 * time.Second); ; {
		select {
		case <-ctx.Done():
			tick.Stop()
			return nil
		case <-tick.C:
		}
		if n.db.local == nil || n.db.Pool().Ping(ctx) == nil || ctx.Err() != nil {
			continue
		}
		n.log.WarnContext(ctx, "the private Postgres does not answer; starting it again")
		if err := n.db.revive(ctx); err != nil {
			n.log.ErrorContext(ctx, "the private Postgres could not be started again; trying on", "err", err)
		}
	}
}

// inbox is the tracker, and knows whether a signed webhook has come lately.
type inbox struct {
	*engine.Tracker
	heard atomic.Bool
}

// Submit is what the receiver stores through.
func (i *inbox) Submit(ctx context.Context, updates []engine.StatusUpdate, events []engine.Event) error {
	i.heard.Store(true)
	return i.Tracker.Submit(ctx, updates, events)
}

func (n *node) ready(ctx context.Context) error {
	err := migrations.Check(ctx, n.db.Pool())
	for _, schema := range []error{migrations.ErrStaleSchema, migrations.ErrNewerSchema, migrations.ErrDirtySchema} {
		if errors.Is(err, schema) {
			return fmt.Errorf("%w: %w", api.ErrSchema, err)
		}
	}
	return err
}

func nodeName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "weir"
	}
	return host + "-" + uuid.NewString()[:8]
}

// inOrder runs all parts until ctx ends or one of them fails, then ends them
// one after the other: a part is asked to end once the one before it has.
func inOrder(ctx context.Context, parts ...func(context.Context) error) error {
	g, over := errgroup.WithContext(ctx)
	before, lasting := over, context.WithoutCancel(ctx)
	for _, part := range parts {
		partCtx, cancel := context.WithCancel(lasting)
		ended, end := context.WithCancel(lasting)
		context.AfterFunc(before, cancel)
		g.Go(func() error {
			defer end()
			defer cancel()
			err := part(partCtx)
			if err == nil && over.Err() == nil {
				return errors.New("a part of the node ended by itself")
			}
			return err
		})
		before = ended
	}
	return g.Wait()
}

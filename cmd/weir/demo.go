package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/weirhq/weir/internal/localpg"
	"github.com/weirhq/weir/internal/sim"
	"github.com/weirhq/weir/internal/store"
	"github.com/weirhq/weir/migrations"
)

type demoCmd struct {
	Recipients int     `default:"10000" help:"People in the audience."`
	Limit      float64 `default:"250" help:"Messages per second that each of the two numbers may send."`
	Keep       bool    `help:"Keep the demo's files and say where they are."`
}

// Help says what it is.
func (demoCmd) Help() string {
	return `Everything on this machine: a private Postgres, a simulated Cloud API, a node,
two numbers and a campaign; live progress; and a proof at the end, in which the
simulator's ledger must equal the database. It touches nothing else.`
}

const (
	demoName     = "demo"
	demoDatabase = "weir_demo"
	demoSecret   = "demo-app-secret"
	demoWABA     = "102290129340398"
	settleWithin = 30 * time.Second // for the last status webhooks
)

func (c demoCmd) numbers() []string { return []string{"106540352242922", "106540352242923"} }

func (c demoCmd) Run(ctx context.Context, s *session) (err error) {
	if c.Recipients < 1 || c.Limit < 2 {
		return usagef("the demo needs at least one recipient and a limit of at least 2")
	}
	dir, err := os.MkdirTemp("", "weir-demo-")
	if err != nil {
		return fmt.Errorf("make demo directory: %w", err)
	}
	if !c.Keep {
		defer os.RemoveAll(dir)
	}
	say(s.std, "starting a private Postgres")
	url, local, err := s.demoPostgres(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, local.Close()) }()
	s.DatabaseURL, s.LeaseDatabaseURL = url, ""
	if err := migrations.Up(ctx, url); err != nil {
		return err
	}
	return c.play(ctx, s, dir)
}

// demoPostgres gives the demo a database of its own on the private server.
func (s *session) demoPostgres(ctx context.Context) (string, *localpg.Server, error) {
	local, err := localpg.Start(ctx, localpg.Options{Dir: s.DataDir, Logger: s.log})
	if err != nil {
		return "", nil, fmt.Errorf("start the private Postgres: %w", err)
	}
	if err := local.ResetDatabase(ctx, demoDatabase); err != nil {
		return "", nil, errors.Join(err, local.Close())
	}
	return local.URL(demoDatabase), local, nil
}

// play runs the simulator and a node, and the campaign on them.
func (c demoCmd) play(ctx context.Context, s *session, dir string) error {
	platform, hooks, err := demoListeners()
	if err != nil {
		return err
	}
	opts := c.platform(hooks.Addr().String())
	opts.Logger = s.log
	meta, err := sim.New(opts)
	if err != nil {
		return err
	}
	api := graph{GraphURL: "http://" + platform.Addr().String(), GraphVersion: "v25.0", AccessToken: "demo"}
	running, stop := context.WithCancel(ctx)
	work, running := errgroup.WithContext(running)
	machine := &hiccups{}
	work.Go(func() error { return machine.run(running) })
	work.Go(func() error { return serveSim(running, meta, platform) })
	work.Go(func() error {
		return s.with(running, func(db *database) error {
			n, err := serveCmd{graph: api, AppSecret: []string{demoSecret}, VerifyToken: "demo", LeaseTTL: 10 * time.Second, UnknownWindow: 30 * time.Minute}.node(running, db, s.log)
			if err != nil {
				return err
			}
			return n.run(running, hooks)
		})
	})
	campaignErr := s.with(running, func(db *database) error {
		return c.campaign(running, &demo{session: s, graph: api, sim: meta, db: db, dir: dir, machine: machine})
	})
	stop()
	if err := work.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		return errors.Join(campaignErr, err)
	}
	return campaignErr
}

func demoListeners() (platform, hooks net.Listener, err error) {
	if platform, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return nil, nil, fmt.Errorf("listen: %w", err)
	}
	if hooks, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("listen: %w", err), platform.Close())
	}
	return platform, hooks, nil
}

// platform is Meta as the demo has it: statuses come late, twice and out of
// order, and one message in a hundred fails after it was accepted.
func (c demoCmd) platform(receiver string) sim.Options {
	ms := func(base, jitter int) sim.Spread {
		return sim.Spread{Base: time.Duration(base) * time.Millisecond, Jitter: time.Duration(jitter) * time.Millisecond}
	}
	opts := sim.Options{
		Seed: 1, WebhookURL: "http://" + receiver + "/webhooks/whatsapp", AppSecret: demoSecret, VerifyToken: "demo",
		Latency: ms(80, 60), Sent: ms(100, 200), Delivered: ms(200, 600), Read: ms(300, 1500), ReadShare: 0.6,
		Failures: []sim.Failure{{Code: 131026, Share: 0.01}}, EarlyShare: 0.05, ReorderShare: 0.1, DuplicateShare: 0.1,
		BatchSize: 20, BatchInterval: 50 * time.Millisecond,
		Templates: []sim.Template{{Name: "order_update", Language: "en_US", Category: "UTILITY", Components: []sim.Component{
			{Type: "BODY", Text: "Hello {{1}}, your order {{2}} is on its way."},
		}}},
	}
	for _, id := range c.numbers() {
		opts.Numbers = append(opts.Numbers, sim.Number{ID: id, WABA: demoWABA, Throughput: int(c.Limit)})
	}
	return opts
}

// demo is the stage a campaign is played on.
type demo struct {
	*session
	graph
	sim     *sim.Sim
	db      *database
	dir     string
	machine *hiccups
}

func (c demoCmd) campaign(ctx context.Context, d *demo) error {
	for _, id := range c.numbers() {
		add := numberAddCmd{graph: d.graph, ID: id, WABA: demoWABA, Limit: &c.Limit, Headroom: 0.1, Burst: 1, NoVerify: true}
		if err := add.Run(ctx, d.session); err != nil {
			return err
		}
	}
	file := filepath.Join(d.dir, "people.csv")
	if err := writePeople(file, c.Recipients); err != nil {
		return err
	}
	say(d.std, "importing %s", file)
	create := campaignCreateCmd{
		graph: d.graph, Name: demoName, Template: "order_update", Language: "en_US", Number: c.numbers(), CSV: file, PhoneColumn: "phone",
		Param: []string{"body.1=first_name", "body.2=order"}, OnUnknown: "fail", MaxAttempts: 5, Retry: "full", Start: true,
	}
	talk := *d.session
	talk.std.out = d.std.err // the id is talk here
	if err := create.Run(ctx, &talk); err != nil {
		return err
	}
	end, err := d.watch(ctx, d.db.Store, demoName, time.Second)
	if err != nil {
		return err
	}
	if end != store.Finished {
		return fmt.Errorf("the campaign ended %s instead of finished", end)
	}
	return c.prove(ctx, d)
}

// writePeople makes an audience, with the kinds of rows that real files have:
// a few that no one can send to, and a few people twice.
func writePeople(path string, n int) error {
	f, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("make audience: %w", err)
	}
	defer f.Close()
	w := bufio.NewWriter(f)
	_, _ = fmt.Fprintln(w, "phone,first_name,order")
	names := []string{"Ana", "Bruno", "Chidi", "Dilek", "Émile", "Fatima", "Göran", "Hana"}
	for i := range n {
		_, _ = fmt.Fprintf(w, "+49151%08d,%s,A-%06d\n", 10_000_000+i, names[i%len(names)], i)
	}
	_, _ = fmt.Fprint(w, "+4915110000000,Ana,A-again\n4.479E+11,Ivo,A-lost\n,Jon,A-none\n+4915199999999,,A-nameless\n")
	if err := errors.Join(w.Flush(), f.Close()); err != nil {
		return fmt.Errorf("write audience: %w", err)
	}
	return nil
}

func say(std streams, format string, args ...any) {
	_, _ = fmt.Fprintf(std.err, "» "+format+"\n", args...)
}

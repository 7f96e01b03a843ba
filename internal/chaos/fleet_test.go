//go:build !race

package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weirhq/weir/internal/sim"
)

// What every run has in common. The times are the shortest that serve takes.
const (
	leaseTTL      = 7 * time.Second
	quarantine    = 4 * time.Second        // serve's own
	poll          = 750 * time.Millisecond // likewise
	unknownWindow = 8 * time.Second
	claimAge      = 2 * time.Second

	// A machine that runs many tests at once can take longer to log in than
	// Weir would wait: no fault of the fleet's.
	patientConnect = "&connect_timeout=60"

	numberLimit = 12.5
	headroom    = 0.2
)

var numberIDs = []string{"106540352242922", "106540352242923", "106540352242924"}

// fleet is one run: a database, a platform, and nodes with links between them.
type fleet struct {
	fault     fault
	run       Run
	rng       *rand.Rand // of the goroutine that strikes
	dir, keep string
	server    *server
	base      string // URL of the database, without links
	own       *link  // the suite's and the operator's way to it
	standby   *server
	// replication is the standby's way to the server it follows.
	replication *link
	name        string // of the database
	pool        *pgxpool.Pool
	platform    *platform
	toxiproxy   *toxiproxy.ApiServer
	places      []*place
	ids         map[string]int64 // campaigns by name
	past        *History         // what a server that was left behind had noted
	hiccups     hiccups
	stop        context.CancelFunc
	watched     sync.WaitGroup

	mu      sync.Mutex
	callers map[string]string // hash of the token → node
	marks   []Mark
	calls   []Call
}

// raise makes everything and lets it send.
func raise(ctx context.Context, fault fault, rng *rand.Rand) (*fleet, error) {
	f := &fleet{
		fault: fault, rng: rng, toxiproxy: newToxiproxy(), callers: map[string]string{}, ids: map[string]int64{},
		dir: filepath.Join(shop.dir, fault.name), keep: filepath.Join(shop.keep, fault.name),
		run: Run{
			Fault: fault.name, About: fault.about, Began: time.Now(), Nodes: fault.nodes, TTL: leaseTTL, Quarantine: quarantine, Poll: poll,
			Window: unknownWindow, ClaimAge: claimAge, Flowing: !fault.deaf, Skewed: fault.skewed,
		},
	}
	measuring, stop := context.WithCancel(context.WithoutCancel(ctx))
	f.stop = stop
	go f.hiccups.run(measuring)
	err := errors.Join(os.RemoveAll(f.keep), os.MkdirAll(f.dir, 0o711), os.MkdirAll(f.keep, 0o755))
	for _, step := range []func(context.Context) error{f.openDatabase, f.openPlatform, f.numbers, f.campaigns, f.nodes, f.begin} {
		if err == nil {
			err = step(ctx)
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("raise a fleet: %w", err), f.raze())
	}
	f.watched.Go(func() { f.watch(measuring) })
	return f, nil
}

func (f *fleet) openDatabase(ctx context.Context) (err error) {
	if f.server, err = shared(); f.fault.private {
		f.server, err = startServer(ctx, "pg-"+f.fault.name, f.fault.skewed)
	}
	if err != nil {
		return err
	}
	if f.name, err = f.server.database(ctx); err != nil {
		return err
	}
	addr, err := f.server.addr()
	if err != nil {
		return err
	}
	if f.own, err = newLink(f.toxiproxy, "suite", addr); err != nil {
		return err
	}
	f.base = f.server.local.LoopbackURL(f.name)
	if f.fault.standby {
		if f.replication, err = newLink(f.toxiproxy, "replication", addr); err != nil {
			return err
		}
		if f.standby, err = f.server.follow(ctx, f.replication); err != nil {
			return err
		}
	}
	f.pool, err = pgxpool.New(ctx, f.url(f.own))
	return err
}

// url is the database's address behind a link.
func (f *fleet) url(l *link) string {
	u, err := url.Parse(f.base)
	if err != nil {
		panic(err) // localpg made it
	}
	u.Host = l.addr()
	return u.String() + patientConnect
}

func (f *fleet) openPlatform(context.Context) (err error) {
	f.platform, err = newPlatform(f.rng.Uint64())
	return err
}

// raze ends everything that raise began.
func (f *fleet) raze() error {
	f.stop()
	f.watched.Wait()
	for _, p := range f.places {
		if p.node != nil {
			p.node.destroy()
		}
		for _, l := range []*link{p.db, p.api, p.hook} {
			l.close()
		}
	}
	var errs []error
	if f.platform != nil && f.platform.stop != nil {
		errs = append(errs, f.platform.stop())
	}
	if f.pool != nil {
		f.pool.Close()
	}
	for _, l := range []*link{f.own, f.replication} {
		if l != nil {
			l.close()
		}
	}
	for _, s := range []*server{f.standby, f.server} {
		if f.fault.private && s != nil && s.local != nil {
			errs = append(errs, s.local.Close())
		}
	}
	return errors.Join(errs...)
}

// end asks every node to end, and proves that each still can. What is stopped
// or dead already stays so.
func (f *fleet) end(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	var errs []error
	for _, p := range f.places {
		select {
		case <-p.node.over:
			continue
		default:
		}
		errs = append(errs, p.node.signal(syscall.SIGTERM), p.node.ended(ctx))
		select {
		case <-p.node.over:
			if p.node.err != nil {
				errs = append(errs, fmt.Errorf("node %s was asked to end: %w", p.node.id, p.node.err))
			}
		default:
		}
	}
	return errors.Join(errs...)
}

// know remembers whose token a node has.
func (f *fleet) know(id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.callers[sim.HashToken("token-"+id)] = id
}

// now is the run's clock.
func (f *fleet) now() time.Duration { return time.Since(f.run.Began) }

// mark notes that a fault is in force; over notes its end.
func (f *fleet) mark(kind string, n *node) (over func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	i := len(f.marks)
	m := Mark{Kind: kind, From: f.now()}
	m.Over = m.From
	if n != nil {
		m.Node = n.id
	}
	f.marks = append(f.marks, m)
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.marks[i].Over = f.now()
	}
}

// sending waits until the platform has had so many requests.
func (f *fleet) sending(ctx context.Context, requests int64) error {
	return until(ctx, fmt.Sprint(requests, " requests were made"), func() (bool, error) { return f.platform.seen.Load() >= requests, nil })
}

// owner is the place that holds the first number.
func (f *fleet) owner(ctx context.Context) (*place, error) {
	var found *place
	err := until(ctx, "the first number has an owner", func() (bool, error) {
		var holder string
		err := f.pool.QueryRow(ctx, `SELECT coalesce(max(holder), '') FROM number_leases
			WHERE number_id = $1 AND NOT released AND expires_at > now()`, numberIDs[0]).Scan(&holder)
		for _, p := range f.places {
			if p.node.id == holder {
				found = p
			}
		}
		return found != nil, err
	})
	return found, err
}

// rest waits until nothing more will happen. When patience ends first, the
// history says what was left.
func (f *fleet) rest(ctx context.Context) {
	const busy = `SELECT EXISTS (SELECT FROM campaigns WHERE state NOT IN ('finished', 'canceled', 'draft'))
		OR EXISTS (SELECT FROM recipients r JOIN campaigns c ON c.id = r.campaign_id
			WHERE r.status IN ('pending', 'sending', 'unknown') AND c.state <> 'draft')
		OR EXISTS (SELECT FROM claims) OR EXISTS (SELECT FROM unknowns)`
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	for {
		waits := true
		err := f.pool.QueryRow(ctx, busy).Scan(&waits)
		if err == nil && !waits && f.platform.Summary(sim.SummaryQuery{}).Webhooks.Pending == 0 {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

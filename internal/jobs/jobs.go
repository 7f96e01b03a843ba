// Package jobs hides River: the handful of jobs that carry a campaign from
// its start to its end. It promises that losing every job loses nothing (a
// tender looks at the campaigns' rows and puts missing jobs back), and that a
// job may run twice, late or on two nodes at once, because every decision is a
// statement of the store's that looks again under its own lock. It never moves
// a recipient's message and never holds one job a recipient.
//
//	start_campaign    at start_at: scheduled → running
//	finish_campaign   once every recipient is settled, or the campaign's time is
//	                  over: expires who is left, then running → finished; once a
//	                  cancel is confirmed: cancels who is left, then → canceled
//	report_campaign   once it is over: what it came to is counted from its rows, held
//	                  to what is promised, and kept
//	resolve_unknowns  every window/10: evidence or the campaign's policy
//	tend              every 2 s: looks which campaigns are due to start, which may
//	                  finish, which pauses are over and end by themselves, which
//	                  pauses and cancels nobody is awaited for, whose fallback
//	                  numbers stand in, and when windows open next
//	sweep             every minute: statuses that found no recipient are tried
//	                  again, old webhook events, waits and failures are deleted
//	fold_counts       every minute: the log of counts is replaced by its sums
//	tell              every 2 s: what happened gets its place in the log of notices,
//	                  and endpoints that have not been told yet get a deliver
//	deliver           tells one endpoint what it has not been told, in order; only
//	                  nodes that know the endpoint work it
package jobs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivertype"

	"github.com/weirhq/weir/engine"
	"github.com/weirhq/weir/internal/notify"
	"github.com/weirhq/weir/internal/store"
)

// Options of a Runner; Store is required.
type Options struct {
	Store         *store.Store
	Logger        *slog.Logger  // default: discard
	UnknownWindow time.Duration // of healthy webhook time before a policy decides; default 30 min
	TendEvery     time.Duration // how often the campaigns are looked at; default 2 s
	Quarantine    time.Duration // how long after its expiry a lease's holder may still send; default engine.DefaultQuarantine
	Endpoints     []*notify.Endpoint

	hold time.Duration // of a claim to deliver; tests shorten it
}

// Runner works the jobs of one node.
type Runner struct {
	opts Options
}

// New makes a Runner; it connects only when run.
func New(opts Options) (*Runner, error) {
	if opts.Store == nil {
		return nil, errors.New("new jobs runner: a store is needed")
	}
	opts.Logger = cmp.Or(opts.Logger, slog.New(slog.DiscardHandler))
	opts.UnknownWindow = cmp.Or(opts.UnknownWindow, 30*time.Minute)
	opts.TendEvery = cmp.Or(opts.TendEvery, 2*time.Second)
	opts.Quarantine = cmp.Or(opts.Quarantine, engine.DefaultQuarantine)
	opts.hold = cmp.Or(opts.hold, claimHold)
	if _, err := newClient(opts); err != nil {
		return nil, err
	}
	return &Runner{opts: opts}, nil
}

func newClient(opts Options) (*river.Client[pgx.Tx], error) {
	client, err := river.NewClient(riverpgxv5.New(opts.Store.Pool()), &river.Config{
		Queues:  queues(opts),
		Workers: workers(opts),
		// Polling only: a notification costs every writer a lock, and is lost
		// behind a transaction pooler.
		PollOnly:          true,
		FetchPollInterval: time.Second,
		JobTimeout:        time.Minute,
		// What a killed node leaves running blocks its kind until it is rescued.
		// A worker with a longer timeout of its own is left alone for that long.
		RescueStuckJobsAfter:        90 * time.Second,
		CompletedJobRetentionPeriod: time.Hour,
		SoftStopTimeout:             5 * time.Second,
		PeriodicJobs:                periodic(opts),
		Logger:                      quiet(opts.Logger),
	})
	if err != nil {
		return nil, fmt.Errorf("new river client: %w", err)
	}
	return client, nil
}

// Run works jobs until ctx ends, lets those under way finish, and returns. A
// database that is away when it starts is waited for, as one that goes away
// later is: a node must not die of what it is made to outlive.
func (r *Runner) Run(ctx context.Context) error {
	client, err := r.start(ctx)
	if client == nil {
		return err
	}
	<-ctx.Done()
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), 15*time.Second)
	defer cancel()
	if err := client.Stop(stop); err != nil {
		return fmt.Errorf("stop river: %w", err)
	}
	return nil
}

// start tries with a new client each time until one runs or ctx ends: a client
// whose start has failed half-way promises nothing about a second.
func (r *Runner) start(ctx context.Context) (*river.Client[pgx.Tx], error) {
	for {
		client, err := newClient(r.opts)
		if err != nil {
			return nil, err
		}
		if err = see(ctx, r.opts); err == nil {
			err = client.Start(context.WithoutCancel(ctx))
		}
		if err == nil {
			return client, nil
		}
		if ctx.Err() != nil {
			return nil, nil
		}
		r.opts.Logger.WarnContext(ctx, "jobs not started yet; trying again", "err", err)
		select {
		case <-ctx.Done():
			return nil, nil
		case <-time.After(startAgain):
		}
	}
}

const startAgain = time.Second

func periodic(opts Options) []*river.PeriodicJob {
	every := func(d time.Duration, id string, args river.JobArgs) *river.PeriodicJob {
		return river.NewPeriodicJob(river.PeriodicInterval(d),
			func() (river.JobArgs, *river.InsertOpts) { return args, nil },
			&river.PeriodicJobOpts{ID: id, RunOnStart: true})
	}
	return []*river.PeriodicJob{
		every(opts.TendEvery, "tend", tendArgs{}),
		every(opts.TendEvery, "tell", tellArgs{}),
		every(sweepEvery, "sweep", sweepArgs{}),
		every(sweepEvery, "fold_counts", foldArgs{}),
		every(resolveEvery(opts), "resolve_unknowns", resolveArgs{}),
	}
}

const sweepEvery = time.Minute

func resolveEvery(opts Options) time.Duration {
	return min(max(opts.UnknownWindow/10, time.Second), time.Minute)
}

func workers(opts Options) *river.Workers {
	w := river.NewWorkers()
	desk := desk{store: opts.Store, log: opts.Logger}
	river.AddWorker(w, &startWorker{desk: desk, steady: steady[startArgs]{every: opts.TendEvery}})
	river.AddWorker(w, &finishWorker{desk: desk, steady: steady[finishArgs]{every: opts.TendEvery, timeout: finishTimeout}})
	river.AddWorker(w, &reportWorker{desk: desk, steady: steady[reportArgs]{every: reportAgain, timeout: finishTimeout}})
	river.AddWorker(w, &resolveWorker{desk: desk, steady: steady[resolveArgs]{every: resolveEvery(opts)}, window: opts.UnknownWindow})
	river.AddWorker(w, &tendWorker{desk: desk, steady: steady[tendArgs]{every: opts.TendEvery}, quarantine: opts.Quarantine})
	river.AddWorker(w, &tellWorker{desk: desk, steady: steady[tellArgs]{every: opts.TendEvery}, opts: opts})
	river.AddWorker(w, &deliverWorker{desk: desk, steady: steady[deliverArgs]{every: opts.TendEvery}, opts: opts})
	river.AddWorker(w, &sweepWorker{desk: desk, steady: steady[sweepArgs]{every: sweepEvery}})
	river.AddWorker(w, &foldWorker{desk: desk, steady: steady[foldArgs]{every: sweepEvery}})
	return w
}

// quiet keeps River's own talk to warnings: its state changes are not the
// operator's.
func quiet(log *slog.Logger) *slog.Logger { return slog.New(warnings{log.Handler()}) }

type warnings struct{ slog.Handler }

func (w warnings) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn && w.Handler.Enabled(ctx, level)
}

func (w warnings) WithAttrs(as []slog.Attr) slog.Handler { return warnings{w.Handler.WithAttrs(as)} }

func (w warnings) WithGroup(name string) slog.Handler { return warnings{w.Handler.WithGroup(name)} }

// once keeps one job of a kind and its arguments alive at a time.
func once() river.InsertOpts {
	return river.InsertOpts{UniqueOpts: river.UniqueOpts{ByArgs: true, ByState: []rivertype.JobState{
		rivertype.JobStateAvailable, rivertype.JobStatePending, rivertype.JobStateRetryable,
		rivertype.JobStateRunning, rivertype.JobStateScheduled,
	}}}
}

// Schedule puts a campaign's start at an instant. Twice is once; another
// instant is another job, and the campaign's row decides which of them starts
// it, so a start may be moved either way. The finish job comes with the start.
func Schedule(ctx context.Context, pool *pgxpool.Pool, campaign int64, at time.Time) error {
	client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{})
	if err != nil {
		return fmt.Errorf("new river client: %w", err)
	}
	opts := once()
	opts.ScheduledAt = at
	if _, err := client.Insert(ctx, startArgs{Campaign: campaign, At: at.UnixMilli()}, &opts); err != nil {
		return fmt.Errorf("insert start of campaign %d: %w", campaign, err)
	}
	return nil
}

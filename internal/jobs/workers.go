package jobs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"github.com/weirhq/weir/internal/store"
)

type startArgs struct {
	Campaign int64 `json:"campaign"`
}

func (startArgs) Kind() string                 { return "start_campaign" }
func (startArgs) InsertOpts() river.InsertOpts { return once() }

// startWorker turns a scheduled campaign to running once its time has come.
type startWorker struct {
	river.WorkerDefaults[startArgs]
	store *store.Store
	log   *slog.Logger
}

func (w *startWorker) Work(ctx context.Context, job *river.Job[startArgs]) error {
	wait, err := start(ctx, w.store, w.log, job.Args.Campaign)
	if err == nil && wait > 0 {
		return river.JobSnooze(wait)
	}
	return err
}

func start(ctx context.Context, s *store.Store, log *slog.Logger, campaign int64) (wait time.Duration, err error) {
	started, wait, err := s.MarkScheduledStart(ctx, campaign)
	if started {
		log.InfoContext(ctx, "campaign started", "campaign", campaign)
	}
	return wait, err
}

type finishArgs struct {
	Campaign int64 `json:"campaign"`
}

func (finishArgs) Kind() string                 { return "finish_campaign" }
func (finishArgs) InsertOpts() river.InsertOpts { return once() }

// finishWorker looks at one campaign, again and again until it is over. It
// snoozes in place, so a campaign costs one job row however long it runs.
type finishWorker struct {
	river.WorkerDefaults[finishArgs]
	store *store.Store
	log   *slog.Logger
	every time.Duration
}

func (w *finishWorker) Work(ctx context.Context, job *river.Job[finishArgs]) error {
	finished, err := w.store.FinishCampaign(ctx, job.Args.Campaign)
	if err != nil {
		return err
	}
	if finished {
		w.log.InfoContext(ctx, "campaign finished", "campaign", job.Args.Campaign)
		return nil
	}
	c, err := w.store.FindCampaign(ctx, strconv.FormatInt(job.Args.Campaign, 10))
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil
	case err != nil:
		return err
	case c.State == store.Running || c.State == store.Scheduled:
		return river.JobSnooze(w.every)
	default: // stopped: whoever starts it again makes a new job
		return nil
	}
}

type resolveArgs struct{}

func (resolveArgs) Kind() string                 { return "resolve_unknowns" }
func (resolveArgs) InsertOpts() river.InsertOpts { return once() }

// resolveWorker lets each campaign's policy decide for recipients whose
// outcome stayed unknown through a window of healthy webhook time.
type resolveWorker struct {
	river.WorkerDefaults[resolveArgs]
	store  *store.Store
	log    *slog.Logger
	window time.Duration
}

func (w *resolveWorker) Work(ctx context.Context, _ *river.Job[resolveArgs]) error {
	got, err := w.store.ResolveUnknowns(ctx, w.window)
	if err != nil {
		return err
	}
	if got.Dead+got.Resent > 0 {
		w.log.InfoContext(ctx, "unknown recipients resolved by policy", "dead", got.Dead, "resent", got.Resent)
	}
	return nil
}

type tendArgs struct{}

func (tendArgs) Kind() string                 { return "tend" }
func (tendArgs) InsertOpts() river.InsertOpts { return once() }

// tendWorker is what makes losing jobs harmless: the campaigns' rows are the
// truth, and it makes the jobs agree with them.
type tendWorker struct {
	river.WorkerDefaults[tendArgs]
	store *store.Store
	log   *slog.Logger
}

func (w *tendWorker) Work(ctx context.Context, _ *river.Job[tendArgs]) error {
	client, err := river.ClientFromContextSafely[pgx.Tx](ctx)
	if err != nil {
		return fmt.Errorf("find river client: %w", err)
	}
	active, err := w.store.Campaigns(ctx, store.Scheduled, store.Running)
	if err != nil {
		return err
	}
	for _, c := range active {
		if c.State == store.Scheduled {
			_, err = start(ctx, w.store, w.log, c.ID)
		} else {
			_, err = client.Insert(ctx, finishArgs{Campaign: c.ID}, nil)
		}
		if err != nil {
			return fmt.Errorf("tend campaign %d: %w", c.ID, err)
		}
	}
	return nil
}

type sweepArgs struct{}

func (sweepArgs) Kind() string                 { return "sweep" }
func (sweepArgs) InsertOpts() river.InsertOpts { return once() }

// sweepWorker does what is never urgent.
type sweepWorker struct {
	river.WorkerDefaults[sweepArgs]
	store *store.Store
	log   *slog.Logger
}

func (w *sweepWorker) Work(ctx context.Context, _ *river.Job[sweepArgs]) error {
	placed, err := w.store.RetryUnmatched(ctx, 0)
	if err != nil {
		return err
	}
	if placed > 0 {
		w.log.InfoContext(ctx, "statuses found their recipients late", "placed", placed)
	}
	return w.store.FoldCounts(ctx)
}

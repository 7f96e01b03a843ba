package jobs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"github.com/weirhq/weir/internal/store"
)

// desk is what every worker works with.
type desk struct {
	store *store.Store
	log   *slog.Logger
}

// steady is a worker that after an error comes again when it would have come
// anyway. River's own wait grows with the errors to hours, and a job that waits
// keeps the next one of its kind out.
type steady[T river.JobArgs] struct {
	river.WorkerDefaults[T]
	every   time.Duration
	timeout time.Duration // 0: the client's
}

// NextRetry is one period from now.
func (s steady[T]) NextRetry(*river.Job[T]) time.Time { return time.Now().Add(s.every) }

// Timeout is the longest one run may take.
func (s steady[T]) Timeout(*river.Job[T]) time.Duration { return s.timeout }

// finishTimeout lets the last look read ten million rows on a slow disk, and
// the expiry of as many go on for a good while: what it did before it was cut
// off stays done. A killed node's job is taken up again only after this time.
const finishTimeout = 10 * time.Minute

// startArgs name the instant too: a start that was moved is another job.
type startArgs struct {
	Campaign int64 `json:"campaign"`
	At       int64 `json:"at"` // milliseconds since 1970
}

func (startArgs) Kind() string                 { return "start_campaign" }
func (startArgs) InsertOpts() river.InsertOpts { return once() }

// startWorker turns a scheduled campaign to running once its time has come.
type startWorker struct {
	desk
	steady[startArgs]
}

func (w *startWorker) Work(ctx context.Context, job *river.Job[startArgs]) error {
	wait, err := w.start(ctx, job.Args.Campaign)
	if err == nil && wait > 0 {
		return river.JobSnooze(wait)
	}
	return err
}

// start runs a campaign whose time has come. wait is how long there is still
// to wait.
func (d desk) start(ctx context.Context, campaign int64) (wait time.Duration, err error) {
	started, wait, err := d.store.MarkScheduledStart(ctx, campaign)
	if started {
		d.log.InfoContext(ctx, "campaign started", "campaign", campaign)
	}
	return wait, err
}

type finishArgs struct {
	Campaign int64 `json:"campaign"`
}

func (finishArgs) Kind() string                 { return "finish_campaign" }
func (finishArgs) InsertOpts() river.InsertOpts { return once() }

// finishWorker ends one campaign, finished or canceled, of which the tender has
// seen that it may end.
// It looks again under the campaign's lock, and ends itself when it was wrong.
type finishWorker struct {
	desk
	steady[finishArgs]
}

func (w *finishWorker) Work(ctx context.Context, job *river.Job[finishArgs]) error {
	finished, err := w.store.FinishCampaign(ctx, job.Args.Campaign)
	if finished {
		w.log.InfoContext(ctx, "campaign is over", "campaign", job.Args.Campaign)
	}
	return err
}

type reportArgs struct {
	Campaign int64 `json:"campaign"`
}

func (reportArgs) Kind() string                 { return "report_campaign" }
func (reportArgs) InsertOpts() river.InsertOpts { return once() }

// reportAgain is how long after an error: it reads every row of the campaign.
const reportAgain = time.Minute

// reportWorker keeps what a campaign came to. It looks again for itself, so a
// second one changes nothing.
type reportWorker struct {
	desk
	steady[reportArgs]
}

func (w *reportWorker) Work(ctx context.Context, job *river.Job[reportArgs]) error {
	kept, err := w.store.KeepReport(ctx, job.Args.Campaign)
	if kept {
		w.log.InfoContext(ctx, "campaign's report is kept", "campaign", job.Args.Campaign)
	}
	return err
}

type resolveArgs struct{}

func (resolveArgs) Kind() string                 { return "resolve_unknowns" }
func (resolveArgs) InsertOpts() river.InsertOpts { return once() }

// resolveWorker lets each campaign's policy decide for recipients whose
// outcome stayed unknown through a window of healthy webhook time.
type resolveWorker struct {
	desk
	steady[resolveArgs]
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

func (tendArgs) Kind() string { return "tend" }

// tendWorker is what makes losing jobs harmless: the campaigns' rows are the
// truth, and it makes the jobs agree with them. It is not unique: the look of a
// node that was killed in it must not keep the next one out, and two at once do
// no harm.
type tendWorker struct {
	desk
	steady[tendArgs]
	quarantine time.Duration
}

func (w *tendWorker) Work(ctx context.Context, _ *river.Job[tendArgs]) error {
	errs := []error{w.store.RefreshWindows(ctx), w.confirm(ctx), w.resume(ctx), w.fallbacks(ctx), w.reports(ctx)} // one campaign's trouble is not the others'
	active, err := w.store.Campaigns(ctx, store.Scheduled, store.Running, store.Paused, store.Canceling)
	if err != nil {
		return errors.Join(append(errs, err)...)
	}
	for _, c := range active {
		switch {
		case c.State == store.Scheduled:
			_, err = w.start(ctx, c.ID)
		case c.State == store.Canceling && c.ConfirmedAt.IsZero(): // what its lanes hold may still go out
			continue
		case c.State == store.Running, c.State == store.Canceling, !c.ExpireAt.IsZero(): // a paused one ends only by its time
			err = w.finish(ctx, c.ID)
		default:
			continue
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("tend campaign %d: %w", c.ID, err))
		}
	}
	return errors.Join(errs...)
}

// confirm ends the pauses and cancels that wait for nobody any more, and whose
// last lane has died or been released without a word.
func (w *tendWorker) confirm(ctx context.Context) error {
	done, _, err := w.store.ConfirmControls(ctx, w.quarantine)
	for _, c := range done {
		w.log.InfoContext(ctx, "nothing of the campaign can go out any more", "campaign", c.Campaign, "state", string(c.State), "after", c.Took)
	}
	return err
}

// resume goes on with whose pause was until now.
func (w *tendWorker) resume(ctx context.Context) error {
	resumed, err := w.store.ResumeDue(ctx)
	for _, id := range resumed {
		w.log.InfoContext(ctx, "the pause is over: the campaign goes on", "campaign", id)
	}
	return err
}

// fallbacks says whose fallback numbers have begun to stand in, or stepped back.
// They do so by themselves: every claim asks.
func (w *tendWorker) fallbacks(ctx context.Context) error {
	changes, err := w.store.TellFallbacks(ctx)
	for _, c := range changes {
		if c.Began {
			w.log.WarnContext(ctx, "no primary number can send: the campaign's fallback numbers stand in", "campaign", c.Campaign)
		} else {
			w.log.InfoContext(ctx, "a primary number is able again: the campaign's fallback numbers step back", "campaign", c.Campaign)
		}
	}
	return err
}

// reports makes the report jobs of campaigns that are over and have none kept.
func (w *tendWorker) reports(ctx context.Context) error {
	due, err := w.store.Unreported(ctx)
	if err != nil {
		return err
	}
	for _, id := range due {
		if err := insert(ctx, reportArgs{Campaign: id}); err != nil {
			return err
		}
	}
	return nil
}

// finish makes a campaign's finish job, once it looks as if it could end.
func (w *tendWorker) finish(ctx context.Context, campaign int64) error {
	may, err := w.store.MayFinish(ctx, campaign)
	if err != nil || !may {
		return err
	}
	return insert(ctx, finishArgs{Campaign: campaign})
}

// insert makes a job, from within another.
func insert(ctx context.Context, args river.JobArgs) error {
	client, err := river.ClientFromContextSafely[pgx.Tx](ctx)
	if err == nil {
		_, err = client.Insert(ctx, args, nil)
	}
	if err != nil {
		return fmt.Errorf("insert job %s: %w", args.Kind(), err)
	}
	return nil
}

type sweepArgs struct{}

func (sweepArgs) Kind() string                 { return "sweep" }
func (sweepArgs) InsertOpts() river.InsertOpts { return once() }

// sweepWorker keeps webhook events, those of breakers, notices and persons' waits
// few: the old go first, so that a flood of statuses nobody knows cannot keep them.
type sweepWorker struct {
	desk
	steady[sweepArgs]
}

func (w *sweepWorker) Work(ctx context.Context, _ *river.Job[sweepArgs]) error {
	dropErr := errors.Join(w.store.DropEvents(ctx), w.store.ForgetBreakerEvents(ctx), w.store.DropNotices(ctx), w.store.DropWaits(ctx),
		w.store.ForgetFailures(ctx))
	placed, err := w.store.RetryUnmatched(ctx, 0)
	if placed > 0 {
		w.log.InfoContext(ctx, "statuses found their recipients late", "placed", placed)
	}
	return errors.Join(dropErr, err)
}

type foldArgs struct{}

func (foldArgs) Kind() string                 { return "fold_counts" }
func (foldArgs) InsertOpts() river.InsertOpts { return once() }

// foldWorker keeps the counts on display cheap to read.
type foldWorker struct {
	desk
	steady[foldArgs]
}

func (w *foldWorker) Work(ctx context.Context, _ *river.Job[foldArgs]) error {
	return w.store.FoldCounts(ctx)
}

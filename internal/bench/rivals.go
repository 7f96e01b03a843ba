package bench

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/weirhq/weir/internal/cloudapi"
)

// messageArgs is a job that sends one message.
type messageArgs struct {
	Recipient int64  `json:"recipient"`
	Phone     string `json:"phone"`
}

// Kind is the job's name in River's table.
func (messageArgs) Kind() string { return "bench_message" }

type messageWorker struct {
	river.WorkerDefaults[messageArgs]
	client *cloudapi.Client
}

// Work sends the message.
func (w *messageWorker) Work(ctx context.Context, job *river.Job[messageArgs]) error {
	return call(ctx, w.client, job.Args.Recipient, job.Args.Phone)
}

// riverJobs puts every message into River's queue beforehand: only working
// them off is timed.
func riverJobs(ctx context.Context, b *Bench) (func(context.Context) error, error) {
	if err := b.exec(ctx, `TRUNCATE river_job`); err != nil {
		return nil, err
	}
	inserter, err := river.NewClient(riverpgxv5.New(b.Pool()), &river.Config{})
	if err != nil {
		return nil, fmt.Errorf("new river client: %w", err)
	}
	for first := 0; first < b.opts.Rows; first += 5000 {
		var jobs []river.InsertManyParams
		for id := first; id < min(first+5000, b.opts.Rows); id++ {
			jobs = append(jobs, river.InsertManyParams{Args: messageArgs{int64(id), phone(int64(id))}})
		}
		if _, err := inserter.InsertManyFast(ctx, jobs); err != nil {
			return nil, fmt.Errorf("insert jobs: %w", err)
		}
	}
	if err := b.exec(ctx, `ANALYZE river_job`); err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		return b.called(ctx, 0, nil, func(ctx context.Context, client *cloudapi.Client) error { return b.work(ctx, client) })
	}, nil
}

// work runs a River client until every job is completed in the database.
func (b *Bench) work(ctx context.Context, client *cloudapi.Client) (err error) {
	workers := river.NewWorkers()
	river.AddWorker(workers, &messageWorker{client: client})
	c, err := river.NewClient(riverpgxv5.New(b.Pool()), &river.Config{
		Queues:  map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: riverWorkers}},
		Workers: workers, FetchCooldown: time.Millisecond, FetchPollInterval: 10 * time.Millisecond,
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return fmt.Errorf("new river client: %w", err)
	}
	if err := c.Start(ctx); err != nil {
		return fmt.Errorf("start river: %w", err)
	}
	defer func() { err = errors.Join(err, c.Stop(context.WithoutCancel(ctx))) }()
	for {
		left, err := scalar[bool](ctx, b.Pool(), `SELECT EXISTS (SELECT FROM river_job WHERE state <> 'completed')`)
		if err != nil || !left {
			return err
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// riverWorkers is what did best of 64 to 4 000 with no latency: each fetch
// brings as many jobs as workers are free.
const riverWorkers = 1000

// naive is the loop that most people write first: take one row, mark it, call,
// mark it again.
func naive(ctx context.Context, b *Bench) (func(context.Context) error, error) {
	for _, statement := range []string{
		`DROP TABLE IF EXISTS bench_messages`,
		`CREATE TABLE bench_messages (id bigint PRIMARY KEY, phone text NOT NULL, name text, status text NOT NULL DEFAULT 'pending', message_id text)`,
		fmt.Sprintf(`INSERT INTO bench_messages (id, phone, name) SELECT i, '+55' || 10000000000 + i, 'Maria' FROM generate_series(1, %d) i`, b.opts.Rows),
		`CREATE INDEX ON bench_messages (id) WHERE status = 'pending'`,
		`ANALYZE bench_messages`,
	} {
		if err := b.exec(ctx, statement); err != nil {
			return nil, err
		}
	}
	return func(ctx context.Context) error {
		return b.called(ctx, 0, nil, func(ctx context.Context, client *cloudapi.Client) error {
			var sent atomic.Int64
			err := workers(ctx, func(ctx context.Context) (bool, error) {
				more, err := b.sendOne(ctx, client)
				if more {
					sent.Add(1)
				}
				return more, err
			})
			if n := sent.Load(); err == nil && n != int64(b.opts.Rows) {
				return fmt.Errorf("the naive loop sent %d of %d", n, b.opts.Rows)
			}
			return err
		})
	}, nil
}

func (b *Bench) sendOne(ctx context.Context, client *cloudapi.Client) (more bool, err error) {
	var id int64
	var to string
	err = b.Pool().QueryRow(ctx, `UPDATE bench_messages SET status = 'sending' WHERE id = (
		SELECT id FROM bench_messages WHERE status = 'pending' ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING id, phone`).Scan(&id, &to)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("take one: %w", err)
	}
	if err := call(ctx, client, id, to); err != nil {
		return false, err
	}
	_, err = b.Pool().Exec(ctx, `UPDATE bench_messages SET status = 'accepted', message_id = $2 WHERE id = $1`, id, "wamid.bench")
	return true, err
}

package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/weirhq/weir/engine"
)

// pipeline sends what is given to Exec together with the Query that follows:
// one round trip and one implicit transaction, in which every statement has a
// snapshot of its own and locks last to the end. A lock thus never waits for
// this process. It serves sqlc's methods and is used once.
type pipeline struct {
	pool  *pool
	batch pgx.Batch
}

var _ interface {
	Exec(context.Context, string, ...any) (pgconn.CommandTag, error)
	Query(context.Context, string, ...any) (pgx.Rows, error)
} = (*pipeline)(nil)

// Exec queues a statement; what becomes of it, Query's rows tell.
func (p *pipeline) Exec(_ context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	p.queue(sql, args...)
	return pgconn.CommandTag{}, nil
}

// queue puts a statement behind the others, and its limit before the first.
func (p *pipeline) queue(sql string, args ...any) {
	if p.pool.bound > 0 && p.batch.Len() == 0 {
		p.batch.Queue(`SELECT set_config('statement_timeout', $1, true)`, milliseconds(p.pool.bound))
	}
	p.batch.Queue(sql, args...)
}

// Query sends what is queued and this statement.
func (p *pipeline) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	p.queue(sql, args...)
	queued := p.batch.Len() - 1
	results := p.pool.SendBatch(ctx, &p.batch)
	for range queued {
		if _, err := results.Exec(); err != nil {
			_ = results.Close() // says the same again
			return nil, err
		}
	}
	rows, err := results.Query()
	if err != nil {
		_ = results.Close()
		return nil, err
	}
	return &pipelined{Rows: rows, results: results}, nil
}

// QueryRow is not for pipelines: a row that nobody scans would leak the
// connection.
func (p *pipeline) QueryRow(context.Context, string, ...any) pgx.Row { return refusedRow{} }

type refusedRow struct{}

func (refusedRow) Scan(...any) error { return errors.New("query row: not in a pipeline") }

// pipelined is the last statement's rows. They end when the transaction has
// ended, so that a failed commit is an error of theirs.
type pipelined struct {
	pgx.Rows
	results pgx.BatchResults
	err     error
	closed  bool
}

func (r *pipelined) Next() bool {
	if r.Rows.Next() {
		return true
	}
	r.Close()
	return false
}

func (r *pipelined) Close() {
	if r.closed {
		return
	}
	r.closed = true
	r.Rows.Close()
	r.err = r.Rows.Err()
	if err := r.results.Close(); r.err == nil {
		r.err = err
	}
}

func (r *pipelined) Err() error {
	if r.err != nil {
		return r.err
	}
	return r.Rows.Err()
}

// deadlocks is how often a statement is tried again after Postgres has chosen
// it as a deadlock's victim. Sorted batches do not deadlock with each other;
// this is for what we have not thought of.
const deadlocks = 10

// again runs a statement, and runs it again when Postgres undid it for the
// sake of another.
func again(statement func() error) error {
	for tries := 0; ; tries++ {
		err := statement()
		switch state := sqlState(err); {
		case (state == "40P01" || state == "40001") && tries < deadlocks:
		default:
			return err
		}
	}
}

// refusedData marks the errors that a smaller batch may not have: Postgres was
// reached and refused a value (SQLSTATE class 22 or 23).
func refusedData(err error) error {
	state := sqlState(err)
	if len(state) == 5 && (state[:2] == "22" || state[:2] == "23") {
		return fmt.Errorf("%w: %w", engine.ErrRefused, err)
	}
	return err
}

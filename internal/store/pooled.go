package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// ErrPooler says that a session's settings were not kept: something stands
// between this process and Postgres, and shares sessions among its clients.
var ErrPooler = errors.New("a pooler does not keep a session's settings")

// openPooled makes a pool that asks for no session of its own, so that url may
// lead to a transaction pooler: each transaction may run in another session.
//
//   - No setting is sent at the start, where a pooler refuses it. A statement
//     brings its time limit along, in the same round trip and transaction.
//   - No statement is prepared by name. An unnamed one is parsed anew each time,
//     and Postgres plans it for its arguments: the first five plans of any
//     statement are (https://www.postgresql.org/docs/current/sql-prepare.html).
//   - What needs a session (an import's lock, its COPY over many minutes) goes
//     through the leases' address.
func openPooled(ctx context.Context, url string, conns int, timeout time.Duration) (*pool, error) {
	cfg, err := pooledConfig(url, conns)
	if err != nil {
		return nil, err
	}
	return connect(ctx, cfg, &pool{bound: timeout}, func(p *pool) error { return p.Ping(ctx) })
}

func pooledConfig(url string, conns int) (*pgxpool.Config, error) {
	cfg, err := poolConfig(url, conns)
	if err == nil {
		cfg.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	}
	return cfg, err
}

// sameDatabase refuses two addresses that lead to two databases: leases would
// be taken in one and renewed in the other.
func sameDatabase(ctx context.Context, a, b *pool) error {
	var names [2]string
	for i, p := range []*pool{a, b} {
		const q = `SELECT format('%s of server %s', current_database(), system_identifier) FROM pg_control_system()`
		if err := p.QueryRow(ctx, q).Scan(&names[i]); err != nil {
			return fmt.Errorf("ask which database it is: %w", err)
		}
	}
	if names[0] != names[1] {
		return fmt.Errorf("the database address and the lease address lead to two databases: %s, and %s", names[0], names[1])
	}
	return nil
}

// begin begins a transaction, with its limits in the same round trip.
func (p *pool) begin(opts pgx.TxOptions) string {
	sql := "BEGIN"
	if opts.IsoLevel != "" {
		sql += " ISOLATION LEVEL " + string(opts.IsoLevel)
	}
	if opts.AccessMode != "" {
		sql += " " + string(opts.AccessMode)
	}
	return sql + "; SET LOCAL statement_timeout = " + milliseconds(p.bound) +
		"; SET LOCAL idle_in_transaction_session_timeout = " + milliseconds(idleInTransaction)
}

// Begin begins a transaction.
func (p *pool) Begin(ctx context.Context) (pgx.Tx, error) { return p.BeginTx(ctx, pgx.TxOptions{}) }

// BeginTx begins a transaction.
func (p *pool) BeginTx(ctx context.Context, opts pgx.TxOptions) (pgx.Tx, error) {
	if p.bound > 0 {
		opts.BeginQuery = p.begin(opts)
	}
	return p.Pool.BeginTx(ctx, opts)
}

// Exec runs a statement.
func (p *pool) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	if p.bound == 0 {
		return p.Pool.Exec(ctx, sql, args...)
	}
	rows, err := p.Query(ctx, sql, args...)
	if err != nil {
		return pgconn.CommandTag{}, err
	}
	rows.Close()
	return rows.CommandTag(), rows.Err()
}

// Query runs a statement that returns rows.
func (p *pool) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	if p.bound == 0 {
		return p.Pool.Query(ctx, sql, args...)
	}
	return (&pipeline{pool: p}).Query(ctx, sql, args...)
}

// QueryRow runs a statement that returns one row.
func (p *pool) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	if p.bound == 0 {
		return p.Pool.QueryRow(ctx, sql, args...)
	}
	rows, err := p.Query(ctx, sql, args...)
	return &oneRow{rows: rows, err: err}
}

// oneRow is the first row of some.
type oneRow struct {
	rows pgx.Rows
	err  error
}

// Scan reads the row, or answers pgx.ErrNoRows.
func (r *oneRow) Scan(dest ...any) error {
	if r.err != nil {
		return r.err
	}
	defer r.rows.Close()
	if !r.rows.Next() {
		if err := r.rows.Err(); err != nil {
			return err
		}
		return pgx.ErrNoRows
	}
	if err := r.rows.Scan(dest...); err != nil {
		return err
	}
	r.rows.Close() // the transaction ends here, and may fail
	return r.rows.Err()
}

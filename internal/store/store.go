// Package store is Postgres in the engine's words: every statement Weir runs
// is a method here, and every rule that guards a write is in that write's
// WHERE. The SQL lives in sql/queries; internal/store/db is sqlc's output.
//
// It promises that every method is safe to repeat: a caller that lost an
// answer may ask again. It never decides by a node's clock (durations go in,
// Postgres makes instants of them) and never puts a phone number or a message
// id into an error. What a lane or a webhook waits for holds no row lock across
// a round trip; an import's batch and a campaign's finish are transactions of
// several, and hold locks of their campaign in between.
package store

import (
	"cmp"
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weirhq/weir/internal/store/db"
)

// Options are the pool's settings; the zero value works.
type Options struct {
	MaxConns         int           // of the main pool; default 16
	StatementTimeout time.Duration // longest a statement of the main pool may run; default 30 s
	// LeaseURL, when set, leads to the same database with no pooler in between,
	// for what needs a session of its own: leases, imports. Then the main pool
	// needs none, and may go through a transaction pooler.
	LeaseURL string
}

// Store holds three pools: one for work; one for looks at leases, bids and
// releases, which wait for no flood of results or statuses; and one connection
// for heartbeats, which wait for nothing: a bid for a number whose owner's claim
// is under way does, and a node that ends releases all its numbers at once.
type Store struct {
	pool   *pool
	leases *pool
	beats  *pool
	q      *db.Queries
}

// Open connects to the database at url (postgres://…, with several hosts too).
// It connects only to a server that takes writes, unless the address has a
// target_session_attrs of its own, and leaves one that takes none any more. It
// does not check the schema: migrations.Check does.
func Open(ctx context.Context, url string, opts Options) (*Store, error) {
	conns, timeout := cmp.Or(opts.MaxConns, 16), cmp.Or(opts.StatementTimeout, 30*time.Second)
	direct := cmp.Or(opts.LeaseURL, url)
	leases, err := openPool(ctx, direct, 2, leaseTimeout)
	if err != nil {
		return nil, err
	}
	s := &Store{leases: leases, q: db.New()}
	if s.beats, err = openBeats(ctx, direct); err != nil {
		s.Close()
		return nil, err
	}
	if opts.LeaseURL == "" {
		s.pool, err = openPool(ctx, url, conns, timeout)
	} else if s.pool, err = openPooled(ctx, url, conns, timeout); err == nil {
		err = sameDatabase(ctx, s.pool, s.leases)
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// Pool is the main pool, for River and the schema check.
func (s *Store) Pool() *pgxpool.Pool { return s.pool.Pool }

// Close waits for what runs and closes the pools.
func (s *Store) Close() {
	for _, p := range []*pool{s.leases, s.beats, s.pool} {
		if p != nil {
			p.Close()
		}
	}
}

package store

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	// connectTimeout bounds one server's answer to a connection (dial, TLS,
	// login) where the address names several and sets no connect_timeout: one
	// that is gone without a word must not hold up the next.
	connectTimeout = 5 * time.Second

	// pingTimeout bounds the look at a connection that was idle.
	pingTimeout = time.Second

	// leaveEvery is how often a pool drops its idle connections at most.
	leaveEvery = time.Second

	// leaseTimeout is the longest that a statement about leases may run.
	leaseTimeout = 2 * time.Second

	// idleInTransaction ends a transaction whose process stands still: it holds
	// locks that others wait for.
	idleInTransaction = 5 * time.Second
)

// pool is connections to servers that take writes. When one of them says that
// it takes none, or is going down, the others to it are dropped as well: after
// a fail-over they would go on answering reads with the past.
type pool struct {
	*pgxpool.Pool
	bound time.Duration // of a statement; set behind a pooler only (pooled.go)

	mu   sync.Mutex
	left time.Time // when idle connections were last dropped
}

// openPool makes a pool whose sessions plan every statement for its arguments
// (a generic plan makes the claim several times slower) and are bounded in time.
func openPool(ctx context.Context, url string, conns int, timeout time.Duration) (*pool, error) {
	cfg, err := sessionConfig(url, conns, timeout)
	if err != nil {
		return nil, err
	}
	return connect(ctx, cfg, &pool{}, func(p *pool) error {
		var plans string
		err := p.QueryRow(ctx, "SHOW plan_cache_mode", pgx.QueryExecModeSimpleProtocol).Scan(&plans)
		if err == nil && plans != customPlans {
			return ErrPooler
		}
		return err
	})
}

// openBeats makes the pool of the one connection that heartbeats go through. It
// leads where the leases' pool leads, which has been asked already, and connects
// with the first heartbeat: most commands make none.
func openBeats(ctx context.Context, url string) (*pool, error) {
	cfg, err := sessionConfig(url, 1, leaseTimeout)
	if err != nil {
		return nil, err
	}
	return connect(ctx, cfg, &pool{}, func(*pool) error { return nil })
}

// sessionConfig is for pools whose connections are sessions of their own.
func sessionConfig(url string, conns int, timeout time.Duration) (*pgxpool.Config, error) {
	cfg, err := poolConfig(url, conns)
	if err != nil {
		return nil, err
	}
	params := cfg.ConnConfig.RuntimeParams
	params["plan_cache_mode"] = customPlans
	params["statement_timeout"] = milliseconds(timeout)
	params["idle_in_transaction_session_timeout"] = milliseconds(idleInTransaction)
	cfg.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheStatement
	return cfg, nil
}

const customPlans = "force_custom_plan"

// connect opens a pool and asks it whether it will do.
func connect(ctx context.Context, cfg *pgxpool.Config, p *pool, check func(*pool) error) (*pool, error) {
	cfg.ConnConfig.OnPgError = p.heard
	p.mu.Lock() // whoever hears an error already waits for the pool
	var err error
	p.Pool, err = pgxpool.NewWithConfig(ctx, cfg)
	p.mu.Unlock()
	if err != nil {
		return nil, fmt.Errorf("open database pool: %w", err)
	}
	if err := check(p); err != nil {
		p.Close()
		return nil, fmt.Errorf("connect to database: %w", err)
	}
	return p, nil
}

// poolConfig is what every pool has in common.
func poolConfig(url string, conns int) (*pgxpool.Config, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("parse database url: %w", err)
	}
	cfg.MaxConns = int32(conns)
	cfg.PingTimeout = pingTimeout
	if severalServers(cfg.ConnConfig) {
		cfg.ConnConfig.ConnectTimeout = cmp.Or(cfg.ConnConfig.ConnectTimeout, connectTimeout)
	}
	if !strings.Contains(url, "target_session_attrs") {
		cfg.ConnConfig.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
	params := cfg.ConnConfig.RuntimeParams
	params["application_name"] = cmp.Or(params["application_name"], "weir")
	params["timezone"] = "UTC"
	return cfg, nil
}

// severalServers: a fallback to the same server only tries it without TLS.
func severalServers(cfg *pgx.ConnConfig) bool {
	return slices.ContainsFunc(cfg.Fallbacks, func(f *pgconn.FallbackConfig) bool {
		return f.Host != cfg.Host || f.Port != cfg.Port
	})
}

func milliseconds(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// heard is told every error of a server's, and returns whether the connection
// may go on.
func (p *pool) heard(conn *pgconn.PgConn, e *pgconn.PgError) bool {
	leaves := leaving(e.Code)
	// A server that refuses a new connection says nothing about those in use: in
	// a list of servers it may be another one.
	if leaves && conn.IsBusy() {
		p.leave()
	}
	return !leaves && !strings.EqualFold(e.Severity, "FATAL")
}

// leaving are the words of a server that is no primary any more, or no server:
// read_only_sql_transaction, admin_shutdown, crash_shutdown, cannot_connect_now.
func leaving(code string) bool {
	switch code {
	case "25006", "57P01", "57P02", "57P03":
		return true
	default:
		return false
	}
}

// leave drops idle connections now, and those in use when they come back.
func (p *pool) leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := time.Now(); now.Sub(p.left) >= leaveEvery {
		p.left = now
		p.Reset()
	}
}

// Package localpg hides how a private PostgreSQL server is run from the
// binaries on this machine: where they are found, which user the server runs
// as, how processes share it and what a crash leaves behind.
//
// It promises that after [Start] a server answers on a Unix socket that only
// this user can reach, that two processes naming one directory share one
// server, that the last of them to [Server.Close] stops it, and that whatever
// a kill -9 or a reboot left is taken over or cleaned up by the next Start.
// The server survives Ctrl-C in the terminal of the process that started it.
//
// It never listens beyond loopback, never touches a server that it did not
// make, never upgrades or deletes data, and never logs a statement or a value.
package localpg

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// role is the superuser that owns everything in the private server.
const role = "weir"

// closeTimeout bounds a clean stop: Postgres writes a checkpoint first, which
// on a slow disk takes as long as the disk needs for the dirty buffers.
const closeTimeout = 2 * time.Minute

// ErrNoPostgres says that this machine has no server binaries and that they
// could not be fetched. Its text names the packages to install.
var ErrNoPostgres = errors.New("no PostgreSQL server binaries: install them (Debian, Ubuntu: apt-get install postgresql; macOS: brew install postgresql@17), or set WEIR_DATABASE_URL to a server that runs already")

// ErrVersion says that the data directory was written by another major version
// of PostgreSQL than any whose binaries were found.
var ErrVersion = errors.New("data directory is of another PostgreSQL version")

// ErrUnreachable says that the unprivileged user who must run the server, since
// PostgreSQL refuses root, cannot enter the directory that was asked for.
var ErrUnreachable = errors.New("directory is closed to the user who runs the server")

// Options describes one private server. The zero value is the operator's
// server: durable, in [DefaultDir], with the binaries of this machine.
type Options struct {
	// Dir holds everything of one server; created when missing. All processes
	// that name the same Dir share the server. Default: [DefaultDir].
	Dir string
	// Logger hears what an operator would ask about: started, attached, stopped,
	// which user, which directory. Default: silence.
	Logger *slog.Logger
	// Test trades durability for speed (no fsync, no full pages, no autovacuum)
	// and allows 300 connections. A crash of the machine may corrupt the data.
	Test bool
	// Config holds lines of postgresql.conf that have the last word, for tests
	// of servers that are set up in another way.
	Config string
	// Env is added to the server's environment, likewise for tests.
	Env []string
	// IdleStop lets the server stop itself after it had no client for so long
	// (whole seconds), for users who cannot promise to call Close. Default: never.
	IdleStop time.Duration
	// BinDirs, when set, are the only directories searched for server binaries.
	// Default: PATH and the usual places of Debian, Homebrew and Postgres.app.
	BinDirs []string
	// FetchURL is the Maven repository asked for binaries when this machine has
	// none. Default: the one that embedded-postgres uses.
	FetchURL string
}

// Server is one process's share of a private server. Safe for concurrent use.
type Server struct {
	c     *cluster
	users *os.File
	close func() error
}

// Start returns when the server of o.Dir accepts connections: attached to when
// it runs, started when it does not, created when it never did. The context
// bounds the start only. Errors are [ErrNoPostgres], [ErrVersion],
// [ErrUnreachable], or say what PostgreSQL itself complained about.
func Start(ctx context.Context, o Options) (*Server, error) {
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	c, err := newCluster(o)
	if err != nil {
		return nil, err
	}
	unlock, err := lockFile(ctx, c.path("start.lock"))
	if err != nil {
		return nil, fmt.Errorf("wait for another process to start or stop the server in %s: %w", c.dir, err)
	}
	defer unlock()
	users, err := shareFile(c.path("users.lock"))
	if err != nil {
		return nil, err
	}
	if err := c.ensureRunning(ctx); err != nil {
		return nil, errors.Join(err, users.Close())
	}
	s := &Server{c: c, users: users}
	s.close = sync.OnceValue(s.leave)
	return s, nil
}

// Close gives up this process's share and stops the server (fast: open
// transactions are rolled back) when no other process has one. It takes up to
// two minutes on a slow disk. Further calls return the first one's error.
func (s *Server) Close() error { return s.close() }

func (s *Server) leave() (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	defer func() { err = errors.Join(err, s.users.Close()) }()
	unlock, err := lockFile(ctx, s.c.path("start.lock"))
	if err != nil {
		return fmt.Errorf("wait for another process to start or stop the server in %s: %w", s.c.dir, err)
	}
	defer unlock()
	last, err := isLast(s.users)
	if err != nil || !last {
		return err
	}
	return s.c.stop(ctx)
}

// Crash stops the server as a kill of all its processes would: every
// connection breaks, nothing is flushed, and the next Start of this directory
// recovers what was committed. For tests; whoever shares the server loses it too.
func (s *Server) Crash(ctx context.Context) error {
	unlock, err := lockFile(ctx, s.c.path("start.lock"))
	if err != nil {
		return fmt.Errorf("wait for another process to start or stop the server in %s: %w", s.c.dir, err)
	}
	defer unlock()
	return s.c.shutdown(ctx, "immediate")
}

// URL is a connection URL for the named database over the Unix socket, where
// the directory's permissions are the password. The database need not exist:
// see [Server.EnsureDatabase].
func (s *Server) URL(database string) string { return s.c.socketURL(database) }

// LoopbackURL is the same over 127.0.0.1, with a password in it, for programs
// that cannot use a Unix socket. Treat it as a secret.
func (s *Server) LoopbackURL(database string) string {
	u := url.URL{
		Scheme: "postgres", User: url.UserPassword(role, s.c.state.Password),
		Host: "127.0.0.1:" + strconv.Itoa(s.c.state.Port), Path: "/" + database,
		RawQuery: "sslmode=disable",
	}
	return u.String()
}

// EnsureDatabase creates the named database when it does not exist.
func (s *Server) EnsureDatabase(ctx context.Context, name string) error {
	conn, err := pgx.Connect(ctx, s.URL("postgres"))
	if err != nil {
		return fmt.Errorf("connect to the private server: %w", err)
	}
	defer conn.Close(ctx)
	var exists bool
	const q = `SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)`
	if err := conn.QueryRow(ctx, q, name).Scan(&exists); err != nil {
		return fmt.Errorf("look for database %s: %w", name, err)
	}
	if exists {
		return nil
	}
	_, err = conn.Exec(ctx, "CREATE DATABASE "+pgx.Identifier{name}.Sanitize())
	if state := sqlState(err); err != nil && state != "42P04" && state != "23505" { // another process was faster: told by name, or by the index
		return fmt.Errorf("create database %s: %w", name, err)
	}
	return nil
}

// ResetDatabase makes the named database anew, empty: whatever it held is gone
// and whoever was connected to it is cut off.
func (s *Server) ResetDatabase(ctx context.Context, name string) error {
	conn, err := pgx.Connect(ctx, s.URL("postgres"))
	if err != nil {
		return fmt.Errorf("connect to the private server: %w", err)
	}
	defer conn.Close(ctx)
	database := pgx.Identifier{name}.Sanitize()
	if _, err := conn.Exec(ctx, "DROP DATABASE IF EXISTS "+database+" WITH (FORCE)"); err != nil {
		return fmt.Errorf("drop database %s: %w", name, err)
	}
	return s.EnsureDatabase(ctx, name)
}

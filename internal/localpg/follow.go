package localpg

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
)

// Follow starts a standby of this server in a directory of its own (o.Dir). It
// streams from the given host:port, which leads here, perhaps through a proxy.
// For tests of a fail-over: the server must have been started with
// wal_level = replica and max_wal_senders > 0 in its Config.
func (s *Server) Follow(ctx context.Context, hostPort string, o Options) (*Server, error) {
	o.Logger = s.c.Logger
	c, err := newCluster(o)
	if err != nil {
		return nil, err
	}
	if err := c.pickBinaries(ctx); err != nil {
		return nil, err
	}
	if _, err := os.Stat(c.path("data")); err == nil {
		return nil, fmt.Errorf("copy a server into %s: something is there already", c.path("data"))
	}
	// The copy has the first server's roles, and so its password.
	if err := replaceFile(c.path("server.json"), fmt.Appendf(nil, `{"password":%q}`, s.c.state.Password), 0o600); err != nil {
		return nil, err
	}
	u := url.URL{Scheme: "postgres", User: url.UserPassword(role, s.c.state.Password), Host: hostPort, Path: "/postgres", RawQuery: "sslmode=disable"}
	cmd := c.owner.command(ctx, c.bin.path("pg_basebackup"), "-d", u.String(), "-D", c.path("data"), "-R", "-X", "stream", "-c", "fast", "--no-sync")
	// The parent directory is ours: the copy's must be there, empty and private.
	if err := c.owner.makePrivate(c.path("data")); err != nil {
		return nil, err
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("copy a server: %w: %s", err, bytes.TrimSpace(out))
	}
	return Start(ctx, o)
}

// Promote makes a standby a server of its own, and returns once it takes writes.
func (s *Server) Promote(ctx context.Context) (err error) {
	conn, err := pgx.Connect(ctx, s.URL("postgres"))
	if err != nil {
		return fmt.Errorf("connect to the standby: %w", err)
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	var done bool
	if err := conn.QueryRow(ctx, "SELECT pg_promote(true, 60)").Scan(&done); err != nil || !done {
		return fmt.Errorf("promote the standby (done: %v): %w", done, err)
	}
	for standby := true; standby; {
		if err := conn.QueryRow(ctx, "SELECT pg_is_in_recovery()").Scan(&standby); err != nil {
			return fmt.Errorf("ask the standby whether it is one: %w", err)
		}
		if err := pause(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

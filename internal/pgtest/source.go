package pgtest

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/weirhq/weir/internal/localpg"
)

// environment is the server to use instead of one of our own. Its user must be
// allowed to create databases.
const environment = "TEST_DATABASE_URL"

// lingering is how long the private server waits for the next test process.
const lingering = 30 * time.Second

// connect finds a server and opens the connection that stays.
func connect(ctx context.Context) (func(string) string, *pgx.Conn, error) {
	if base := os.Getenv(environment); base != "" {
		return fixed(ctx, base)
	}
	var dockerErr error
	if dockerAnswers(ctx) {
		url, admin, err := docker(ctx)
		if err == nil {
			return url, admin, nil
		}
		dockerErr = fmt.Errorf("run PostgreSQL in Docker: %w", err)
	}
	url, admin, err := local(ctx)
	if err != nil {
		return nil, nil, errors.Join(err, dockerErr)
	}
	return url, admin, nil
}

// fixed is a server that somebody else runs.
func fixed(ctx context.Context, base string) (func(string) string, *pgx.Conn, error) {
	u, err := url.Parse(base)
	if err != nil || (u.Scheme != "postgres" && u.Scheme != "postgresql") {
		return nil, nil, fmt.Errorf("read %s: want postgres://user:password@host:port/database", environment)
	}
	admin, err := pgx.Connect(ctx, base)
	if err != nil {
		return nil, nil, fmt.Errorf("connect to the server of %s: %w", environment, err)
	}
	return func(database string) string {
		other := *u
		other.Path = "/" + database
		return other.String()
	}, admin, nil
}

// local is a server of this machine's binaries. Its share is never closed: the
// process ends without telling us, and the server notices.
func local(ctx context.Context) (func(string) string, *pgx.Conn, error) {
	dir, err := localDir()
	if err != nil {
		return nil, nil, err
	}
	o := localpg.Options{Dir: dir, Test: true, IdleStop: lingering}
	var last error
	for range 3 { // the server may stop itself just when we arrive
		s, err := localpg.Start(ctx, o)
		if errors.Is(err, localpg.ErrVersion) { // Postgres was upgraded; nothing in there is worth keeping
			err = os.RemoveAll(dir)
			if err == nil {
				s, err = localpg.Start(ctx, o)
			}
		}
		if err != nil {
			return nil, nil, fmt.Errorf("start a private server (it holds nothing but tests; if it is broken, delete %s): %w", dir, err)
		}
		admin, err := pgx.Connect(ctx, s.URL("postgres"))
		if err == nil {
			return s.URL, admin, nil
		}
		last = errors.Join(err, s.Close())
	}
	return nil, nil, fmt.Errorf("connect to the private server: %w", last)
}

// localDir is this user's; root's home is closed to the server's user.
func localDir() (string, error) {
	if os.Geteuid() == 0 {
		return "/var/cache/weir/pgtest", nil
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find cache directory for the test server: %w", err)
	}
	return filepath.Join(cache, "weir", "pgtest"), nil
}

package pgtest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/weirhq/weir/migrations"
)

// lockClass is the first half of our advisory locks ("weir" in ASCII). The
// second half is a process's number, or 0 for whoever builds templates.
const lockClass = 0x77656972

// server is this process's view of the test server. One connection stays open
// until the process ends: its advisory lock marks the process's databases as
// in use, and the kernel ends it however the process ends.
type server struct {
	url     func(database string) string
	process int32 // second half of our advisory lock, part of our databases' names
	clone   string

	mu       sync.Mutex // guards what follows: one connection, one statement at a time
	admin    *pgx.Conn
	template string // built when first asked for
	made     int
}

// shared is the one server of this process. A test process has no other place
// that outlives one test and needs no word from each package's TestMain.
var shared = sync.OnceValues(func() (*server, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	url, admin, err := connect(ctx)
	if err != nil {
		return nil, err
	}
	return adopt(ctx, url, admin)
})

// adopt takes our lock and drops what dead processes left.
func adopt(ctx context.Context, url func(string) string, admin *pgx.Conn) (*server, error) {
	s := &server{url: url, admin: admin, clone: " STRATEGY file_copy"}
	var version int
	if err := admin.QueryRow(ctx, `SELECT current_setting('server_version_num')::int`).Scan(&version); err != nil {
		return nil, fmt.Errorf("ask test server for its version: %w", err)
	}
	if version < 150000 {
		s.clone = "" // there is only one strategy before
	}
	for taken := false; !taken; {
		s.process = rand.Int32N(1<<31-1) + 1
		if err := admin.QueryRow(ctx, `SELECT pg_try_advisory_lock($1, $2)`, lockClass, s.process).Scan(&taken); err != nil {
			return nil, fmt.Errorf("mark this process at the test server: %w", err)
		}
	}
	return s, s.alone(ctx, s.reclaim)
}

// alone runs fn while no other process builds or drops what is shared.
func (s *server) alone(ctx context.Context, fn func(context.Context) error) error {
	if _, err := s.admin.Exec(ctx, `SELECT pg_advisory_lock($1, 0)`, lockClass); err != nil {
		return fmt.Errorf("lock the test server: %w", err)
	}
	err := fn(ctx)
	if _, unlockErr := s.admin.Exec(ctx, `SELECT pg_advisory_unlock($1, 0)`, lockClass); unlockErr != nil {
		err = errors.Join(err, fmt.Errorf("unlock the test server: %w", unlockErr))
	}
	return err
}

// reclaim drops the databases of dead processes, and the templates of other
// schemas when no other process lives that could use them.
func (s *server) reclaim(ctx context.Context) error {
	fingerprint, err := migrations.Fingerprint()
	if err != nil {
		return fmt.Errorf("name the template: %w", err)
	}
	const q = `
WITH living AS (SELECT objid::bigint AS process FROM pg_locks WHERE locktype = 'advisory' AND classid = $1 AND objid <> 0 AND granted)
SELECT datname FROM pg_database
WHERE (datname ~ '^weirtest_\d+_\d+$' AND split_part(datname, '_', 2)::bigint NOT IN (SELECT process FROM living))
   OR (datname ~ '^weirtmpl_' AND datname <> 'weirtmpl_' || $2 AND (SELECT count(*) FROM living) <= 1)`
	rows, err := s.admin.Query(ctx, q, lockClass, fingerprint)
	if err != nil {
		return fmt.Errorf("look for leftovers of dead tests: %w", err)
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return fmt.Errorf("look for leftovers of dead tests: %w", err)
	}
	for _, name := range names {
		if err := s.dropNow(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

func (s *server) migrated(ctx context.Context) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.template == "" {
		if err := s.alone(ctx, s.build); err != nil {
			return "", err
		}
	}
	return s.fromTemplate(ctx, s.template)
}

func (s *server) empty(ctx context.Context) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fromTemplate(ctx, "template0")
}

func (s *server) fromTemplate(ctx context.Context, template string) (string, error) {
	s.made++
	name := fmt.Sprintf("weirtest_%d_%d", s.process, s.made)
	if _, err := s.admin.Exec(ctx, "CREATE DATABASE "+name+" TEMPLATE "+template+s.clone); err != nil {
		return "", fmt.Errorf("clone %s: %w", template, err)
	}
	return name, nil
}

// build makes the template unless another process has: under another name
// until it is whole, so that a killed process leaves none that is not.
func (s *server) build(ctx context.Context) error {
	fingerprint, err := migrations.Fingerprint()
	if err != nil {
		return fmt.Errorf("name the template: %w", err)
	}
	name := "weirtmpl_" + fingerprint
	var exists bool
	const q = `SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)`
	if err := s.admin.QueryRow(ctx, q, name).Scan(&exists); err != nil {
		return fmt.Errorf("look for the template: %w", err)
	}
	if !exists {
		if err := s.buildAs(ctx, name); err != nil {
			return err
		}
	}
	s.template = name
	return nil
}

func (s *server) buildAs(ctx context.Context, name string) error {
	half := name + "_half"
	if err := s.dropNow(ctx, half); err != nil {
		return err
	}
	if _, err := s.admin.Exec(ctx, "CREATE DATABASE "+half+" TEMPLATE template0"); err != nil {
		return fmt.Errorf("create the template: %w", err)
	}
	if err := migrations.Up(ctx, s.url(half)); err != nil {
		return fmt.Errorf("migrate the template: %w", err)
	}
	for _, statement := range []string{
		"ALTER DATABASE " + half + " ALLOW_CONNECTIONS false", // a guest would block every clone
		"ALTER DATABASE " + half + " RENAME TO " + name,
	} {
		if _, err := s.admin.Exec(ctx, statement); err != nil {
			return fmt.Errorf("finish the template: %w", err)
		}
	}
	return nil
}

func (s *server) drop(ctx context.Context, name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dropNow(ctx, name)
}

// dropNow drops a database with whatever is connected to it. On a busy machine
// a session may need longer to end than the server waits for it.
func (s *server) dropNow(ctx context.Context, name string) error {
	for {
		_, err := s.admin.Exec(ctx, "DROP DATABASE IF EXISTS "+pgx.Identifier{name}.Sanitize()+" WITH (FORCE)")
		if inUse, ok := errors.AsType[*pgconn.PgError](err); ok && inUse.Code == "55006" && ctx.Err() == nil {
			continue
		}
		if err != nil {
			return fmt.Errorf("drop database %s: %w", strings.TrimSpace(name), err)
		}
		return nil
	}
}

// Package migrations hides how a database gets the schema of this binary:
// golang-migrate for Weir's tables, River's own migrations for River's.
//
// It promises that [Up] brings both and is safe to run from many processes at
// once, that a migration refused by Postgres leaves the version as it was, and
// that [Check] returns nil only for exactly this binary's schema. It never
// changes anything in Check and [ReadStatus], and it holds no statement that
// ordinary work needs: those are in the store.
//
// Files are NNNN_name.up.sql and NNNN_name.down.sql. Each is sent as one
// simple query, which Postgres runs as one transaction; so no file may contain
// BEGIN, COMMIT or CONCURRENTLY.
package migrations

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/golang-migrate/migrate/v4"
	migratepgx "github.com/golang-migrate/migrate/v4/database/pgx/v5"
	"github.com/golang-migrate/migrate/v4/source/iofs"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

//go:embed *.sql
var embedded embed.FS

// lockKey is the advisory lock of whoever migrates ("weir" in ASCII).
// golang-migrate locks too, but only its own half, and gives up after 15 s.
const lockKey = 0x77656972

// Up brings the database at the URL (postgres://…, or any form that pgx takes)
// to this binary's schema. Nothing to do is no error. Of many processes one
// works and the others wait for it. A canceled context stops between two
// migrations. Errors: [ErrDirtySchema], [ErrNewerSchema], [ErrNoIdentity], or
// what Postgres said.
func Up(ctx context.Context, databaseURL string) error { return up(ctx, databaseURL, embedded) }

// Down takes everything back, River's tables and Weir's, with all their data.
func Down(ctx context.Context, databaseURL string) error { return down(ctx, databaseURL, embedded) }

func up(ctx context.Context, databaseURL string, files fs.FS) error {
	return locked(ctx, databaseURL, func(conn *pgx.Conn) error {
		s, err := readStatus(ctx, conn, files)
		if err != nil {
			return err
		}
		if err := s.verdict(); err != nil && !errors.Is(err, ErrStaleSchema) {
			return err
		}
		if err := migrateFiles(ctx, databaseURL, files, (*migrate.Migrate).Up); err != nil {
			return err
		}
		return migrateRiver(ctx, databaseURL, rivermigrate.DirectionUp, nil)
	})
}

func down(ctx context.Context, databaseURL string, files fs.FS) error {
	return locked(ctx, databaseURL, func(conn *pgx.Conn) error {
		s, err := readStatus(ctx, conn, files)
		if err != nil {
			return err
		}
		if err := s.verdict(); err != nil && !errors.Is(err, ErrStaleSchema) {
			return err
		}
		all := &rivermigrate.MigrateOpts{TargetVersion: -1}
		if err := migrateRiver(ctx, databaseURL, rivermigrate.DirectionDown, all); err != nil {
			return err
		}
		return migrateFiles(ctx, databaseURL, files, (*migrate.Migrate).Down)
	})
}

// locked runs fn while no other process migrates. It polls instead of waiting
// in Postgres: a waiting statement holds a snapshot, which stalls some DDL of
// the process waited for.
func locked(ctx context.Context, databaseURL string, fn func(*pgx.Conn) error) error {
	config, err := pgx.ParseConfig(databaseURL)
	if err != nil {
		return fmt.Errorf("read database URL: %w", err)
	}
	conn, err := pgx.ConnectConfig(ctx, ready(config, databaseURL))
	if err != nil {
		return fmt.Errorf("connect to migrate: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx)) // ends the lock, too
	for tick := time.NewTicker(50 * time.Millisecond); ; {
		var mine bool
		if err := conn.QueryRow(ctx, `SELECT pg_try_advisory_lock($1)`, lockKey).Scan(&mine); err != nil {
			return fmt.Errorf("lock the schema: %w", err)
		}
		if mine {
			tick.Stop()
			return fn(conn)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("wait for another process to migrate: %w", ctx.Err())
		}
	}
}

// ready makes a connection fit to migrate: to a server that takes writes (of
// several, the one that does), and with no limit on a statement's time. A
// transaction pooler refuses to set that, and well so: a migration's lock would
// not hold behind it.
func ready(config *pgx.ConnConfig, databaseURL string) *pgx.ConnConfig {
	if !strings.Contains(databaseURL, "target_session_attrs") {
		config.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
	config.RuntimeParams["statement_timeout"] = "0"
	return config
}

// migrateFiles runs golang-migrate. Its driver ignores contexts, so a canceled
// one is passed on as its wish to stop between two files.
func migrateFiles(ctx context.Context, databaseURL string, files fs.FS, step func(*migrate.Migrate) error) (err error) {
	m, err := open(databaseURL, files)
	if err != nil {
		return err
	}
	defer func() {
		sourceErr, databaseErr := m.Close()
		err = errors.Join(err, sourceErr, databaseErr)
	}()
	before, _, err := m.Version()
	if err != nil && !errors.Is(err, migrate.ErrNilVersion) {
		return fmt.Errorf("read the schema version: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { m.GracefulStop <- true })
	defer stop()
	err = step(m)
	if err == nil || errors.Is(err, migrate.ErrNoChange) {
		return ctx.Err()
	}
	return errors.Join(fmt.Errorf("migrate: %w", refusal(err)), undirty(m, before))
}

// undirty takes back the mark that golang-migrate leaves after a refused file.
// The file was one transaction, so nothing of it stands and the version before
// it is the truth. Only a process killed in the middle leaves the mark.
func undirty(m *migrate.Migrate, before uint) error {
	version, dirty, err := m.Version()
	marked := int(version)
	switch {
	case errors.Is(err, migrate.ErrNilVersion): // on the way from version 1 to nothing
		marked, dirty = 0, before > 0
	case err != nil:
		return fmt.Errorf("read the schema version: %w", err)
	}
	if !dirty {
		return nil
	}
	truth := marked - 1
	if marked < int(before) { // on the way down the mark is below the file that failed
		truth = marked + 1
	}
	if truth == 0 {
		truth = -1 // golang-migrate's word for an empty schema
	}
	if err := m.Force(truth); err != nil {
		return fmt.Errorf("restore the schema version: %w", err)
	}
	return nil
}

func open(databaseURL string, files fs.FS) (*migrate.Migrate, error) {
	config, err := pgx.ParseConfig(databaseURL)
	if err != nil {
		return nil, fmt.Errorf("read database URL: %w", err)
	}
	source, err := iofs.New(files, ".")
	if err != nil {
		return nil, fmt.Errorf("read migrations: %w", err)
	}
	db := stdlib.OpenDB(*ready(config, databaseURL))
	driver, err := migratepgx.WithInstance(db, &migratepgx.Config{})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("connect to migrate: %w", err), db.Close())
	}
	m, err := migrate.NewWithInstance("iofs", source, "pgx5", driver)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open migrations: %w", err), driver.Close())
	}
	return m, nil
}

func migrateRiver(ctx context.Context, databaseURL string, direction rivermigrate.Direction, opts *rivermigrate.MigrateOpts) error {
	config, err := pgxpool.ParseConfig(databaseURL)
	if err != nil {
		return fmt.Errorf("read database URL: %w", err)
	}
	ready(config.ConnConfig, databaseURL)
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return fmt.Errorf("connect to migrate River's tables: %w", err)
	}
	defer pool.Close()
	m, err := river(pool)
	if err != nil {
		return err
	}
	if _, err := m.Migrate(ctx, direction, opts); err != nil {
		return fmt.Errorf("migrate River's tables: %w", err)
	}
	return nil
}

func river(pool *pgxpool.Pool) (*rivermigrate.Migrator[pgx.Tx], error) {
	m, err := rivermigrate.New(riverpgxv5.New(pool), &rivermigrate.Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, fmt.Errorf("read River's migrations: %w", err)
	}
	return m, nil
}

// Fingerprint names the schema that Up makes: equal for equal migrations of
// ours and of River, in hexadecimal. Tests name their template database by it.
func Fingerprint() (string, error) {
	sum := sha256.New()
	names, err := fs.Glob(embedded, "*.up.sql")
	if err != nil {
		return "", fmt.Errorf("list migrations: %w", err)
	}
	for _, name := range names {
		text, err := embedded.ReadFile(name)
		if err != nil {
			return "", fmt.Errorf("read migration: %w", err)
		}
		fmt.Fprintf(sum, "%s %d\n%s", name, len(text), text)
	}
	m, err := river(nil)
	if err != nil {
		return "", err
	}
	for _, v := range m.AllVersions() {
		fmt.Fprintf(sum, "river %d %d\n%s", v.Version, len(v.SQLUp), v.SQLUp)
	}
	return hex.EncodeToString(sum.Sum(nil)[:8]), nil
}

// latestFile is the highest number of a file.
func latestFile(files fs.FS) (uint, error) {
	names, err := fs.Glob(files, "*.up.sql")
	if err != nil {
		return 0, fmt.Errorf("list migrations: %w", err)
	}
	var latest uint64
	for _, name := range names {
		number, _, _ := strings.Cut(name, "_")
		n, err := strconv.ParseUint(number, 10, 32)
		if err != nil {
			return 0, fmt.Errorf("read number of migration %s: %w", name, err)
		}
		latest = max(latest, n)
	}
	return uint(latest), nil
}

package migrations

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// ErrStaleSchema says that the database lacks migrations of this binary, all
// of them where it is empty.
var ErrStaleSchema = errors.New("database schema is older than this weir: run `weir migrate up`")

// ErrNewerSchema says that a newer weir has migrated the database.
var ErrNewerSchema = errors.New("database schema is newer than this weir: upgrade weir to the version that migrated it")

// ErrDirtySchema says that a process was killed in the middle of a migration.
// Each migration is one transaction, so the schema is whole; only which of two
// versions it has is unknown.
var ErrDirtySchema = errors.New("a migration was interrupted: see whether its tables exist, then in psql `UPDATE schema_migrations SET dirty = false` if they do, or `TRUNCATE schema_migrations; INSERT INTO schema_migrations VALUES (the version before, false)` if not (TRUNCATE alone before version 1), then run `weir migrate up`")

// Status is what a database has and what this binary wants.
type Status struct {
	Current uint // version of Weir's tables, 0 for none
	Latest  uint // version that this binary was written for
	Dirty   bool // a process was killed while it migrated to Current

	River       int // version of River's tables, 0 for none
	RiverLatest int // version that this binary's River was written for
}

// ReadStatus reads what the database at the URL has. It changes nothing.
func ReadStatus(ctx context.Context, databaseURL string) (Status, error) {
	conn, err := pgx.Connect(ctx, databaseURL)
	if err != nil {
		return Status{}, fmt.Errorf("connect to read the schema version: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	return readStatus(ctx, conn, embedded)
}

// Check returns nil when the schema is exactly this binary's, and else
// [ErrStaleSchema], [ErrNewerSchema] or [ErrDirtySchema] with both versions,
// or why the database could not be read.
func Check(ctx context.Context, pool *pgxpool.Pool) error {
	s, err := readStatus(ctx, pool, embedded)
	if err != nil {
		return err
	}
	return s.verdict()
}

func (s Status) verdict() error {
	var err error
	switch {
	case s.Dirty:
		err = ErrDirtySchema
	case s.Current > s.Latest || s.River > s.RiverLatest:
		err = ErrNewerSchema
	case s.Current < s.Latest || s.River < s.RiverLatest:
		err = ErrStaleSchema
	default:
		return nil
	}
	return fmt.Errorf("%w (database has version %d and River %d, this weir wants %d and %d)",
		err, s.Current, s.River, s.Latest, s.RiverLatest)
}

// rower is a connection or a pool.
type rower interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

func readStatus(ctx context.Context, db rower, files fs.FS) (s Status, err error) {
	if s.Latest, err = latestFile(files); err != nil {
		return Status{}, err
	}
	m, err := river(nil)
	if err != nil {
		return Status{}, err
	}
	for _, v := range m.AllVersions() {
		s.RiverLatest = max(s.RiverLatest, v.Version)
	}
	// max: an empty table (after Down) is a row of NULLs, not no row. -1 is what
	// golang-migrate writes while it takes back version 1.
	const ours = `SELECT greatest(coalesce(max(version), 0), 0), coalesce(bool_or(dirty), false) FROM schema_migrations`
	if err := existing(db.QueryRow(ctx, ours).Scan(&s.Current, &s.Dirty)); err != nil {
		return Status{}, fmt.Errorf("read schema version: %w", err)
	}
	const theirs = `SELECT coalesce(max(version), 0) FROM river_migration`
	if err := existing(db.QueryRow(ctx, theirs).Scan(&s.River)); err != nil {
		return Status{}, fmt.Errorf("read version of River's tables: %w", err)
	}
	return s, nil
}

// existing takes the absence of a version table for version 0.
func existing(err error) error {
	const undefinedTable = "42P01"
	if pgErr, ok := errors.AsType[*pgconn.PgError](err); ok && pgErr.Code == undefinedTable {
		return nil
	}
	return err
}

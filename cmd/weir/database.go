package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/weirhq/weir/internal/localpg"
	"github.com/weirhq/weir/internal/store"
	"github.com/weirhq/weir/migrations"
)

// embeddedDatabase is the name of the database in the private server.
const embeddedDatabase = "weir"

// database is what a command works on, and how to leave it.
type database struct {
	*store.Store
	local   *localpg.Server // nil when the operator named a server
	options localpg.Options // of the private server
}

// url finds the database: the operator's, or the private server's, which it
// starts. Close the returned server when it is not nil.
func (s *session) url(ctx context.Context) (string, *localpg.Server, error) {
	if s.DatabaseURL != "" {
		return s.DatabaseURL, nil, nil
	}
	if s.LeaseDatabaseURL != "" {
		return "", nil, usagef("WEIR_LEASE_DATABASE_URL leads past a pooler to the database that WEIR_DATABASE_URL leads to: set that too")
	}
	local, err := localpg.Start(ctx, s.localOptions())
	if err != nil {
		return "", nil, fmt.Errorf("start the private Postgres: %w", err)
	}
	if err := local.EnsureDatabase(ctx, embeddedDatabase); err != nil {
		return "", nil, errors.Join(err, local.Close())
	}
	return local.URL(embeddedDatabase), local, nil
}

func (s *session) localOptions() localpg.Options {
	return localpg.Options{Dir: s.DataDir, Logger: s.log}
}

// open connects to the database and checks its schema. The private database
// has no administrator, so its schema is brought up to date here; a named one
// is only checked.
func (s *session) open(ctx context.Context) (*database, error) {
	url, local, err := s.url(ctx)
	if err != nil {
		return nil, err
	}
	db := &database{local: local, options: s.localOptions()}
	if local != nil {
		if err := migrations.Up(ctx, url); err != nil {
			return nil, errors.Join(err, db.close())
		}
	}
	if db.Store, err = store.Open(ctx, url, store.Options{LeaseURL: s.LeaseDatabaseURL}); err != nil {
		return nil, errors.Join(err, db.close())
	}
	if err := migrations.Check(ctx, db.Pool()); err != nil {
		return nil, errors.Join(err, db.close())
	}
	return db, nil
}

// revive starts the private server again, or attaches to it if another process
// has: it keeps its address, so that connections find it again.
func (d *database) revive(ctx context.Context) error {
	again, err := localpg.Start(ctx, d.options)
	if err != nil {
		return err
	}
	before := d.local
	d.local = again
	return before.Close() // its share, not the server: again holds one too
}

func (d *database) close() error {
	if d.Store != nil {
		d.Store.Close()
	}
	if d.local == nil {
		return nil
	}
	return d.local.Close()
}

// with runs f on an open database and leaves it cleanly.
func (s *session) with(ctx context.Context, f func(*database) error) (err error) {
	db, err := s.open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.close()) }()
	return f(db)
}

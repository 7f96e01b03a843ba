package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/weirhq/weir/migrations"
)

type migrateCmd struct {
	Up     migrateUpCmd     `cmd:"" help:"Bring the schema up to date (River's tables too)."`
	Down   migrateDownCmd   `cmd:"" help:"Remove everything Weir has in the database."`
	Status migrateStatusCmd `cmd:"" help:"Show which schema the database has."`
}

type (
	migrateUpCmd   struct{}
	migrateDownCmd struct {
		Yes bool `help:"Yes, delete every campaign and its proof."`
	}
	migrateStatusCmd struct{}
)

func (migrateUpCmd) Run(ctx context.Context, s *session) error {
	return s.migrate(ctx, func(url string) error {
		if err := migrations.Up(ctx, url); err != nil {
			return err
		}
		return printSchema(ctx, s.std.out, url)
	})
}

func (c migrateDownCmd) Run(ctx context.Context, s *session) error {
	if !c.Yes {
		return usagef("migrate down deletes every campaign and its proof: say --yes if that is meant")
	}
	return s.migrate(ctx, func(url string) error {
		if err := migrations.Down(ctx, url); err != nil {
			return err
		}
		return printSchema(ctx, s.std.out, url)
	})
}

func (migrateStatusCmd) Run(ctx context.Context, s *session) error {
	return s.migrate(ctx, func(url string) error { return printSchema(ctx, s.std.out, url) })
}

func (s *session) migrate(ctx context.Context, f func(url string) error) (err error) {
	url, local, err := s.url(ctx)
	if err != nil {
		return err
	}
	if local != nil {
		defer func() { err = errors.Join(err, local.Close()) }()
	}
	return f(cmp.Or(s.LeaseDatabaseURL, url)) // a migration holds a lock, which needs a session
}

func printSchema(ctx context.Context, w io.Writer, url string) error {
	s, err := migrations.ReadStatus(ctx, url)
	if err != nil {
		return err
	}
	dirty := ""
	if s.Dirty {
		dirty = ", half migrated"
	}
	_, err = fmt.Fprintf(w, "schema %d of %d%s, River's %d of %d\n", s.Current, s.Latest, dirty, s.River, s.RiverLatest)
	return err
}

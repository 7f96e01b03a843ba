package bench

import (
	"context"
	"errors"
	"fmt"
	"net/url"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weirhq/weir/internal/store"
	"github.com/weirhq/weir/migrations"
)

// scratch is a database that lives for one run.
type scratch struct {
	*store.Store
	admin string // URL of the database that was given
	name  string
}

func openScratch(ctx context.Context, given string) (_ *scratch, err error) {
	at, err := url.Parse(given)
	if err != nil || at.Scheme == "" {
		return nil, errors.New("the bench makes a database of its own beside yours, and needs its address as a URL: postgres://user@host/database")
	}
	s := &scratch{admin: given, name: "weir_bench_" + uuid.NewString()[:8]}
	if err := s.ask(ctx, `CREATE DATABASE `+s.name); err != nil {
		return nil, fmt.Errorf("create a database to measure in (the user needs the right CREATEDB): %w", err)
	}
	defer func() {
		if err != nil {
			err = s.close(ctx, err)
		}
	}()
	at.Path = "/" + s.name
	if err := migrations.Up(ctx, at.String()); err != nil {
		return nil, err
	}
	if s.Store, err = store.Open(ctx, at.String(), store.Options{}); err != nil {
		return nil, err
	}
	return s, nil
}

// close drops the database, even when the run was interrupted.
func (s *scratch) close(ctx context.Context, err error) error {
	if s.Store != nil {
		s.Store.Close()
	}
	return errors.Join(err, s.ask(context.WithoutCancel(ctx), `DROP DATABASE `+s.name+` WITH (FORCE)`))
}

func (s *scratch) ask(ctx context.Context, statement string) error {
	conn, err := pgx.Connect(ctx, s.admin)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	_, err = conn.Exec(ctx, statement)
	return errors.Join(err, conn.Close(ctx))
}

func (s *scratch) exec(ctx context.Context, statement string, args ...any) error {
	if _, err := s.Pool().Exec(ctx, statement, args...); err != nil {
		return fmt.Errorf("prepare: %w", err)
	}
	return nil
}

func scalar[T any](ctx context.Context, pool *pgxpool.Pool, query string, args ...any) (v T, err error) {
	err = pool.QueryRow(ctx, query, args...).Scan(&v)
	return v, err
}

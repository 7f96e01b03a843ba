// Package pgtest hides where a test's database comes from: the server named by
// TEST_DATABASE_URL, else Docker where its engine answers, else a private
// server from this machine's binaries.
//
// It promises each caller a migrated database of its own, in a few dozen
// milliseconds, dropped when the test ends; what killed test runs left is
// dropped by later ones. It never touches databases whose names do not begin
// with weirtest_ or weirtmpl_, and never skips a test: with no server to be
// had, the test fails and says what to install.
//
// Databases are clones of one template, named by a hash of the migrations. The
// private server is shared by the test processes of this user and stops itself
// half a minute after the last of them has gone. It is not durable.
package pgtest

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// poolSize is enough for the eight racers of a race test and two observers;
// the server's 300 connections feed many such tests at once.
const poolSize = 10

// New is a pool on a migrated database of the test's own. Both go away when
// the test ends; a connection not given back by then hangs the cleanup.
func New(t testing.TB) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(URL(t))
	if err != nil {
		t.Fatalf("pgtest: read own URL: %v", err)
	}
	config.MaxConns = poolSize
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		t.Fatalf("pgtest: open pool: %v", err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// URL is the address of a migrated database of the test's own, for tests that
// open their own connections or start a program. It goes away, with whatever
// is still connected, when the test ends.
func URL(t testing.TB) string {
	t.Helper()
	return create(t, (*server).migrated)
}

// EmptyURL is like [URL] for a database that nothing has migrated.
func EmptyURL(t testing.TB) string {
	t.Helper()
	return create(t, (*server).empty)
}

// patience bounds what one call may wait: a first start initializes a cluster
// or pulls an image.
const patience = 3 * time.Minute

func create(t testing.TB, clone func(*server, context.Context) (string, error)) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	s, err := shared()
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	name, err := clone(s, ctx)
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := s.drop(ctx, name); err != nil {
			t.Errorf("pgtest: %v", err)
		}
	})
	return s.url(name)
}

package store

import (
	"cmp"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/weirhq/weir/engine"
	"github.com/weirhq/weir/internal/pgtest"
)

// openOperator is a store on a database of its own.
func openOperator(t testing.TB) *Store {
	t.Helper()
	return openUnhurried(t, pgtest.URL(t), Options{})
}

// openUnhurried is a store whose statements may take as long as a busy machine
// needs, those about leases too.
func openUnhurried(t testing.TB, url string, opts Options) *Store {
	t.Helper()
	const patience = 10 * time.Minute
	opts.StatementTimeout = cmp.Or(opts.StatementTimeout, patience)
	s, err := Open(t.Context(), url, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	s.leases.Close()
	if s.leases, err = openPool(t.Context(), cmp.Or(opts.LeaseURL, url), 2, patience); err != nil {
		t.Fatal(err)
	}
	return s
}

// begin opens a transaction that may stand still for as long as a test likes.
func begin(t require, s *Store) pgx.Tx {
	t.Helper()
	tx, err := s.pool.Begin(context.Background())
	if err == nil {
		_, err = tx.Exec(context.Background(), `SET LOCAL idle_in_transaction_session_timeout = 0`)
	}
	if err != nil {
		t.Fatal(err)
	}
	return tx
}

func spec(name string, numbers ...string) CampaignSpec {
	c := CampaignSpec{Name: name, Template: engine.Template{Name: "hello", Language: "en_US"}, Columns: []string{"a", "b", "c", "d", "e"}}
	for _, n := range numbers {
		c.Numbers = append(c.Numbers, CampaignNumber{ID: n})
	}
	return c
}

// newCampaign is an importing campaign of number "n1", which it adds if need be.
func newCampaign(t require, s *Store, name string) int64 {
	t.Helper()
	addNumber(t, s, "n1")
	id, err := s.CreateCampaign(context.Background(), spec(name, "n1"))
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func addNumber(t require, s *Store, id string) {
	t.Helper()
	err := s.AddNumber(context.Background(), NumberInfo{Number: engine.Number{ID: id, WABA: "w1", Limit: 80, Headroom: 0.2}})
	if err != nil && !isExists(err) {
		t.Fatal(err)
	}
}

func isExists(err error) bool { return errors.Is(err, ErrExists) }

func exec(t require, s *Store, sql string, args ...any) {
	t.Helper()
	if _, err := s.pool.Exec(context.Background(), sql, args...); err != nil {
		t.Fatal(err)
	}
}

func count(t require, s *Store, sql string, args ...any) int64 {
	t.Helper()
	var n int64
	if err := s.pool.QueryRow(context.Background(), sql, args...).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

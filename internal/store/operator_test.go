package store

import (
	"context"
	"errors"
	"testing"

	"github.com/weirhq/weir/engine"
	"github.com/weirhq/weir/internal/pgtest"
)

// openOperator is a store on a database of its own.
func openOperator(t testing.TB) *Store {
	t.Helper()
	s, err := Open(t.Context(), pgtest.URL(t), Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
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

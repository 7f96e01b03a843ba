package store

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/weirhq/weir/internal/store/db"
)

// spy learns a generated statement's text and arguments, and runs nothing.
type spy struct {
	sql  string
	args []any
}

var errSpied = errors.New("spied")

func (s *spy) Exec(_ context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	s.sql, s.args = sql, args
	return pgconn.CommandTag{}, errSpied
}

func (s *spy) Query(_ context.Context, sql string, args ...any) (pgx.Rows, error) {
	s.sql, s.args = sql, args
	return nil, errSpied
}

func (s *spy) QueryRow(_ context.Context, sql string, args ...any) pgx.Row {
	s.sql, s.args = sql, args
	return refusedRow{}
}

func claimSQL(t testing.TB) string {
	var s spy
	if _, err := db.New().ClaimRecipients(t.Context(), &s, &db.ClaimRecipientsParams{}); !errors.Is(err, errSpied) {
		t.Fatal(err)
	}
	return s.sql
}

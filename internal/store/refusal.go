package store

import (
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"
)

// What an operator's request can run into; test with errors.Is. The error
// around them says what to do next.
var (
	ErrExists   = errors.New("it exists already")
	ErrNotFound = errors.New("not found")
	ErrRefused  = errors.New("refused")
	ErrBusy     = errors.New("someone else is at it")
)

// refuse is an error that wraps kind and whose text is only the advice.
func refuse(kind error, format string, args ...any) error {
	return &refusal{kind: kind, text: fmt.Sprintf(format, args...)}
}

type refusal struct {
	kind error
	text string
}

func (r *refusal) Error() string { return r.text }
func (r *refusal) Unwrap() error { return r.kind }

// sqlState is Postgres's code for err, "" when it is not Postgres's error.
func sqlState(err error) string {
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		return pg.Code
	}
	return ""
}

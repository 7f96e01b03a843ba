package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/weirhq/weir/internal/store"
)

// advised says what to do about an error that comes from the way to the
// database, which the parts that meet it know nothing of.
func (s *session) advised(err error) error {
	switch {
	case errors.Is(err, pgconn.ErrReadOnlyConnection):
		return fmt.Errorf("%w; that server takes no writes: it is a standby, or was put read-only. Name the primary in WEIR_DATABASE_URL, "+
			"or every server of the cluster (postgres://one,two/weir), and the one that takes writes is found; "+
			"to read a report from a standby add target_session_attrs=any to the address", err)
	case !pooler(err):
		return err
	case s.LeaseDatabaseURL == "":
		return fmt.Errorf("%w; WEIR_DATABASE_URL seems to lead to a transaction pooler (PgBouncer): set WEIR_LEASE_DATABASE_URL, too, "+
			"to the address of the Postgres behind it, for this command and for every node", err)
	default:
		return fmt.Errorf("%w; WEIR_LEASE_DATABASE_URL leads to a pooler: it must lead to the Postgres behind it", err)
	}
}

// pooler recognizes the words of something that shares sessions among its
// clients: it refuses settings, or does not know a statement that another
// session of its has prepared.
func pooler(err error) bool {
	if errors.Is(err, store.ErrPooler) {
		return true
	}
	e, ok := errors.AsType[*pgconn.PgError](err)
	if !ok {
		return false
	}
	switch e.Code {
	case "08P01":
		return strings.Contains(e.Message, "startup parameter")
	case "42P05", "26000": // duplicate_prepared_statement, invalid_sql_statement_name
		return true
	default:
		return false
	}
}

package migrations

import (
	"errors"
	"fmt"
	"strings"

	"github.com/golang-migrate/migrate/v4/database"
	"github.com/jackc/pgx/v5/pgconn"
)

// ErrNoIdentity says that the server does not tell which cluster and timeline it
// is: some managed variants of Postgres lack those functions, or keep them from
// ordinary users.
var ErrNoIdentity = errors.New("this server does not say which cluster and timeline it is, so that a fail-over that lost commits would go unnoticed: " +
	"pg_control_system(), pg_current_wal_lsn() and pg_walfile_name() must exist and be open to the user who migrates; " +
	"have its administrator grant EXECUTE on them, or use a server that has them")

// refusal is what Postgres said of a file, without golang-migrate's copy of the
// file.
func refusal(err error) error {
	if m, ok := errors.AsType[database.Error](err); ok {
		err = m.OrigErr
		if m.Line > 0 {
			err = fmt.Errorf("line %d: %w", m.Line, err)
		}
	}
	if unidentified(err) {
		return fmt.Errorf("%w (%w)", ErrNoIdentity, err)
	}
	return err
}

// unidentified recognizes a refusal to say which server it is.
func unidentified(err error) bool {
	e, ok := errors.AsType[*pgconn.PgError](err)
	if !ok {
		return false
	}
	switch e.Code {
	case "42883", "42501", "0A000": // undefined_function, insufficient_privilege, feature_not_supported
		return strings.Contains(e.Message, "pg_control_system") || strings.Contains(e.Message, "pg_current_wal_lsn") ||
			strings.Contains(e.Message, "pg_walfile_name")
	default:
		return false
	}
}

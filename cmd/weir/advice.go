package main

import (
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"
)

// advised says what to do about an error that comes from the way to the
// database, which the parts that meet it know nothing of.
func advised(err error) error {
	if errors.Is(err, pgconn.ErrReadOnlyConnection) {
		return fmt.Errorf("%w; that server takes no writes: it is a standby, or was put read-only. Name the primary in WEIR_DATABASE_URL, "+
			"or every server of the cluster (postgres://one,two/weir), and the one that takes writes is found; "+
			"to read a report from a standby add target_session_attrs=any to the address", err)
	}
	return err
}

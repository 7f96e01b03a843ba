package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgtype"
)

// AuditEntry is something that an operator did against the usual rules.
type AuditEntry struct {
	At      time.Time
	Who     string // user@host, or what they came through
	What    string // as replay_forced; the table's own comment lists them
	Subject string // campaign:ID, number:ID, host, database, everything, suppressions
	Body    []byte // JSON: the details
}

// Audit lists what was done since then, in order; the zero time is ever.
func (s *Store) Audit(ctx context.Context, since time.Time) ([]AuditEntry, error) {
	rows, err := s.q.Audit(ctx, s.pool, pgtype.Timestamptz{Time: since, Valid: true})
	if err != nil {
		return nil, fmt.Errorf("read audit: %w", err)
	}
	entries := make([]AuditEntry, len(rows))
	for i, r := range rows {
		entries[i] = AuditEntry{At: r.At.Time, Who: r.Who, What: r.What, Subject: r.Subject, Body: r.Body}
	}
	return entries, nil
}

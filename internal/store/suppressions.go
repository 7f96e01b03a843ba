package store

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"iter"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/weirhq/weir/internal/store/db"
)

// SuppressionOrder is an operator's word about whom nothing may be sent to.
type SuppressionOrder struct {
	Scope  string    // all, a category, waba:ID or number:ID; for a removal "" is every scope
	Reason string    // for people
	Until  time.Time // zero: for good
	Who    string    // for the record
	Force  bool      // a removal: of the person's own word too
}

// Suppress puts a phone, in E.164, on the list, and reports false when it stood
// there as long already. Brazil's and Mexico's numbers stand there in both ways
// in which they are written. It answers ErrRefused for a scope of a number or an
// account that is not here.
func (s *Store) Suppress(ctx context.Context, phone string, o SuppressionOrder) (bool, error) {
	if err := s.checkScope(ctx, o.Scope); err != nil {
		return false, err
	}
	n, err := s.q.AddSuppression(ctx, s.pool, &db.AddSuppressionParams{
		Phones: phones(phone), Scope: o.Scope, Reason: clean(o.Reason), Until: instant(o.Until), Who: o.Who,
	})
	return n > 0, wrap("add suppression", err)
}

// Unsuppress takes a phone off the list, not being on WhatsApp too, and returns
// what was lifted. What was said before does not come back. Where a word of the
// person's own is among it and the order has no Force, it lifts nothing, returns
// those words and ErrRefused.
func (s *Store) Unsuppress(ctx context.Context, phone string, o SuppressionOrder) ([]Suppression, error) {
	rows, err := s.q.RemoveSuppressions(ctx, s.pool, &db.RemoveSuppressionsParams{Phones: phones(phone), Scope: o.Scope, Who: o.Who, Force: o.Force})
	if err != nil {
		return nil, fmt.Errorf("remove suppressions: %w", err)
	}
	var lifted, own []Suppression
	for _, r := range rows {
		was := Suppression{Scope: r.Scope, Kind: SuppressionKind(r.Kind), Reason: r.Reason, At: r.At.Time}
		if r.Lifted {
			lifted = append(lifted, was)
		} else if r.Own {
			own = append(own, was)
		}
	}
	if len(own) > 0 {
		return own, refuse(ErrRefused, "it is the person's own word: nothing was changed")
	}
	return lifted, nil
}

func (s *Store) checkScope(ctx context.Context, scope string) error {
	known, err := s.q.ScopeKnown(ctx, s.pool, scope)
	if err != nil {
		return fmt.Errorf("look for the scope: %w", err)
	}
	if !known {
		return refuse(ErrRefused, "there is no scope %q: it is all, marketing, utility, authentication, number:ID or waba:ID, of a number that number list shows", scope)
	}
	return nil
}

// ListedSuppression is a row of the list. It holds a phone number: it is for
// files, not for logs.
type ListedSuppression struct {
	Phone string
	Suppression
}

// Suppressions yields those that hold, but for Meta's limits, in the order of
// the phones, of one scope or all ("") of them, of these kinds or, when none is
// given, of all. An error ends it.
func (s *Store) Suppressions(ctx context.Context, scope string, kinds ...SuppressionKind) iter.Seq2[ListedSuppression, error] {
	return func(yield func(ListedSuppression, error) bool) {
		page := &db.SuppressionsPageParams{Within: scope, Kinds: make([]string, len(kinds))}
		for i, kind := range kinds {
			page.Kinds[i] = string(kind)
		}
		for {
			rows, err := s.q.SuppressionsPage(ctx, s.pool, page)
			if err != nil {
				yield(ListedSuppression{}, fmt.Errorf("list suppressions: %w", err))
				return
			}
			for _, r := range rows {
				row := ListedSuppression{r.Phone, Suppression{Scope: r.Scope, Kind: SuppressionKind(r.Kind), Reason: r.Reason, At: r.At.Time, Until: r.Until.Time, Holds: true}}
				if !yield(row, nil) {
					return
				}
			}
			if len(rows) == 0 {
				return
			}
			last := rows[len(rows)-1]
			page.Phone, page.Scope, page.Kind = last.Phone, last.Scope, last.Kind
		}
	}
}

// CountAbsent is how many entries of the list are of persons who were not on
// WhatsApp when last tried, of one scope or all ("").
func (s *Store) CountAbsent(ctx context.Context, scope string) (int64, error) {
	n, err := s.q.CountAbsent(ctx, s.pool, scope)
	return n, wrap("count absent", err)
}

// ImportedSuppressions counts the rows of a file. Read = Added + Already + Rejected.
type ImportedSuppressions struct {
	Read, Added, Already, Rejected, Defaulted int64
}

// ImportSuppressions puts every phone of a file on the list, or none: it is one
// transaction, and may be given again. Memory is bounded whatever the file's
// size. A claim is not held up by it, and sees all of it or nothing.
func (s *Store) ImportSuppressions(ctx context.Context, file string, rows iter.Seq2[ImportRow, error], o SuppressionOrder) (ImportedSuppressions, error) {
	if err := s.checkScope(ctx, o.Scope); err != nil {
		return ImportedSuppressions{}, err
	}
	conn, err := s.longConn(ctx)
	if err != nil {
		return ImportedSuppressions{}, err
	}
	defer closeConn(conn)
	var n ImportedSuppressions
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `CREATE TEMP TABLE listed (phone text COLLATE "C" NOT NULL, person boolean NOT NULL) ON COMMIT DROP`); err != nil {
			return err
		}
		if err := copyPhones(ctx, conn, rows, &n); err != nil {
			return err
		}
		if err := tx.QueryRow(ctx, putListed, o.Scope, clean(o.Reason), instant(o.Until)).Scan(&n.Added); err != nil {
			return err
		}
		n.Already = n.Read - n.Rejected - n.Added
		_, err := tx.Exec(ctx, `INSERT INTO audit (who, what, subject, body) VALUES ($1, 'suppressions_imported', 'suppressions',
			jsonb_build_object('file', $2::text, 'scope', $3::text, 'reason', $4::text, 'read', $5::bigint, 'added', $6::bigint))`,
			o.Who, clean(file), o.Scope, clean(o.Reason), n.Read, n.Added)
		return err
	})
	return n, wrap("import suppressions", err)
}

// putListed is not sqlc's: its table exists only while it runs. Sorted, so that
// two imports cannot deadlock; a person counts once, however often and in
// whatever form they stand in the file.
const putListed = `WITH once AS (
    SELECT phone, bool_or(person) AS person FROM listed GROUP BY phone ORDER BY phone
), put AS (
    INSERT INTO suppressions AS s (phone, scope, kind, reason, until)
    SELECT phone, $1::text, 'suppress', nullif($2::text, ''), coalesce($3::timestamptz, 'infinity') FROM once
    ON CONFLICT (phone, scope, kind) DO UPDATE SET reason = excluded.reason, until = excluded.until, at = now(), lifted_at = NULL, lifted_by = NULL
    WHERE s.until < excluded.until
    RETURNING phone
)
SELECT count(*) FROM put JOIN once USING (phone) WHERE once.person`

// copyPhones sends the phones of a file as they are read.
func copyPhones(ctx context.Context, conn *pgx.Conn, rows iter.Seq2[ImportRow, error], n *ImportedSuppressions) error {
	from, to := io.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = to.CloseWithError(encodePhones(to, rows, n)) // nil: the end of the file
	}()
	_, err := conn.PgConn().CopyFrom(ctx, from, "COPY listed (phone, person) FROM STDIN (FORMAT binary)")
	_ = from.CloseWithError(io.ErrClosedPipe) // a COPY that failed reads no more
	<-done
	if err != nil {
		return fmt.Errorf("copy phones: %w", err)
	}
	return nil
}

func encodePhones(to io.Writer, rows iter.Seq2[ImportRow, error], n *ImportedSuppressions) error {
	var b copyRows
	b.begin()
	for row, err := range rows {
		if err != nil {
			return err
		}
		n.Read++
		if row.Rejected {
			n.Rejected++
			continue
		}
		if row.Defaulted {
			n.Defaulted++
		}
		for i, phone := range phones(row.Phone) {
			b.row(2)
			b.text(phone)
			b.bool(i == 0)
		}
		if len(b.buf) >= 64<<10 {
			if _, err := io.Copy(to, bytes.NewReader(b.buf)); err != nil {
				return err
			}
			b.buf = b.buf[:0]
		}
	}
	b.end()
	_, err := to.Write(b.buf)
	return err
}

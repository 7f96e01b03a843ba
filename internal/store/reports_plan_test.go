package store

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/weirhq/weir/internal/store/db"
)

// A look must cost what it shows and not what the campaign holds: with other
// plans an export reads the table from its beginning for every page, and a
// watch or the finish job reads all of it every time.
func TestLooksReadLittle(t *testing.T) {
	t.Parallel()
	s := openOperator(t)
	id := draft(t, s, "c", 40_000)
	exec(t, s, `UPDATE recipients SET status = 'sent', due_at = NULL, number_id = 'n1', accepted_at = now()
		WHERE id <= (SELECT lo + 29999 FROM campaign_ranges)`)
	lo := count(t, s, "SELECT lo + 34000 FROM campaign_ranges")
	for _, look := range []struct {
		name string
		most int64 // rows of recipients and recipient_params
		run  func(tx pgx.Tx) error
	}{
		{"a page of an export", 2*5_000 + 10, func(tx pgx.Tx) error {
			_, err := s.q.ExportPage(t.Context(), tx, &db.ExportPageParams{Campaign: id, Lo: lo, Hi: lo + 4_999})
			return err
		}},
		{"duplicates", 10, func(tx pgx.Tx) error {
			_, err := s.q.CountDuplicates(t.Context(), tx, id)
			return err
		}},
		{"whether it is busy", 10, func(tx pgx.Tx) error {
			_, err := s.q.CampaignBusy(t.Context(), tx, id)
			return err
		}},
	} {
		err := pgx.BeginFunc(t.Context(), s.pool, func(tx pgx.Tx) error {
			before := rowsRead(t, tx)
			if err := look.run(tx); err != nil {
				return err
			}
			if read := rowsRead(t, tx) - before; read > look.most {
				t.Errorf("%s reads %d rows, want at most %d", look.name, read, look.most)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// rowsRead is how many rows of a campaign this session has read, and not yet
// reported to the server's statistics.
func rowsRead(t *testing.T, tx pgx.Tx) (n int64) {
	t.Helper()
	err := tx.QueryRow(t.Context(), `SELECT coalesce(sum(seq_tup_read + idx_tup_fetch), 0)::bigint FROM pg_stat_xact_user_tables
		WHERE relname IN ('recipients', 'recipient_params')`).Scan(&n)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

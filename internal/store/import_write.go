package store

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/weirhq/weir/internal/store/db"
)

// write makes a batch and its counts true, or neither.
func (im *importer) write(ctx context.Context, b *batch) error {
	var duplicates int64
	err := pgx.BeginFunc(ctx, im.conn, func(tx pgx.Tx) error {
		if err := im.addZones(ctx, tx, b); err != nil {
			return err
		}
		if err := im.copy(ctx, b); err != nil {
			return err
		}
		var err error
		if duplicates, err = im.addMaybes(ctx, tx, b); err != nil {
			return err
		}
		return im.advance(ctx, tx, b, duplicates)
	})
	if err != nil {
		return err
	}
	t := &im.total
	t.Line = b.line
	t.Read += b.read
	t.Accepted += b.read - b.rejected - duplicates
	t.Rejected += b.rejected
	t.Duplicate += duplicates
	t.Defaulted += b.defaulted
	if im.opts.Committed != nil {
		im.opts.Committed(*t)
	}
	return nil
}

// copy sends the rows whose phones are certainly new.
func (im *importer) copy(ctx context.Context, b *batch) error {
	if b.accepted == 0 {
		return nil
	}
	for _, t := range []struct {
		statement string
		rows      []byte
	}{
		{"COPY recipients (id, campaign_id, due_at, zone) FROM STDIN (FORMAT binary)", b.state.buf},
		{"COPY recipient_params (id, campaign_id, line, phone, params) FROM STDIN (FORMAT binary)", b.params.buf},
	} {
		_, err := im.conn.PgConn().CopyFrom(ctx, bytes.NewReader(t.rows), t.statement)
		switch sqlState(err) {
		case "23505": // the filter knows every phone of the file so far: the index knows one that is not in it
			return refuse(ErrRefused, "between its start and line %d the file no longer is what was imported before: "+
				"go on with the same file, or drop the campaign and create it anew", im.from.Line)
		case "22021":
			return fmt.Errorf("copy rows up to line %d: a value holds a byte that text cannot hold: %w", b.line, err)
		}
		if err != nil {
			return fmt.Errorf("copy rows up to line %d: %w", b.line, err)
		}
	}
	return nil
}

// addMaybes inserts what the filter was not sure of, and returns how many of
// those were duplicates.
func (im *importer) addMaybes(ctx context.Context, tx pgx.Tx, b *batch) (duplicates int64, err error) {
	if len(b.maybe.Ids) == 0 {
		return 0, nil
	}
	b.maybe.Campaign, b.maybe.DueAt = im.campaign, pgtype.Timestamptz{Time: fromMicroseconds(im.due), Valid: true}
	added, err := im.store.q.AddMaybeSeen(ctx, tx, &b.maybe)
	if err != nil {
		return 0, fmt.Errorf("add rows up to line %d: %w", b.line, err)
	}
	return int64(len(b.maybe.Ids)) - added, nil
}

// advance commits the batch's counts and ranges with its rows.
func (im *importer) advance(ctx context.Context, tx pgx.Tx, b *batch, duplicates int64) error {
	if err := im.store.q.AddRanges(ctx, tx, &db.AddRangesParams{Campaign: im.campaign, Los: b.los, His: b.his}); err != nil {
		return fmt.Errorf("add id ranges: %w", err)
	}
	moved, err := im.store.q.AdvanceImport(ctx, tx, &db.AdvanceImportParams{
		Campaign: im.campaign, Was: im.total.Line, Line: b.line, Digest: int64(b.digest), RowsRead: b.read,
		Accepted: b.read - b.rejected - duplicates, Rejected: b.rejected, Duplicate: duplicates, Defaulted: b.defaulted,
	})
	if err != nil {
		return fmt.Errorf("advance import: %w", err)
	}
	if moved == 0 {
		return errOvertaken(im.campaign)
	}
	return nil
}

// epoch is where Postgres's binary timestamps begin.
var epoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

func microseconds(t time.Time) int64      { return t.Sub(epoch).Microseconds() }
func fromMicroseconds(us int64) time.Time { return epoch.Add(time.Duration(us) * time.Microsecond) }

package store

import (
	"context"
	"fmt"
)

// read fills batches from the source and hands them to the writer.
func (im *importer) read(ctx context.Context) error {
	b, err := receive(ctx, im.free)
	if err != nil {
		return err
	}
	b.reset()
	last := int64(0)
	for row, err := range im.src.Rows {
		if err != nil {
			return err
		}
		if row.Line <= last {
			return fmt.Errorf("line %d comes after line %d: lines must grow", row.Line, last)
		}
		last = row.Line
		im.digest = digest(im.digest, row)
		if row.Line <= im.from.Line {
			im.replay(row)
			continue
		}
		if b.read == 0 {
			if err := im.sameRows(); err != nil {
				return err
			}
		}
		if err := im.add(ctx, b, row); err != nil {
			return err
		}
		if b.read >= im.batchRows() || b.size() >= batchBytes {
			if b, err = im.exchange(ctx, b); err != nil {
				return err
			}
		}
	}
	if err := im.sameRows(); err != nil {
		return err
	}
	if b.read > 0 {
		_, err = im.exchange(ctx, b)
	}
	return err
}

func (im *importer) batchRows() int64 {
	if im.opts.BatchRows > 0 {
		return int64(im.opts.BatchRows)
	}
	return 20_000
}

// exchange gives a full batch to the writer and takes an empty one.
func (im *importer) exchange(ctx context.Context, b *batch) (*batch, error) {
	b.end()
	select {
	case im.full <- b:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	next, err := receive(ctx, im.free)
	if err == nil {
		next.reset()
	}
	return next, err
}

func receive(ctx context.Context, free <-chan *batch) (*batch, error) {
	select {
	case b := <-free:
		return b, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// replay takes a row that an earlier import has committed: it fills the filter.
func (im *importer) replay(row ImportRow) {
	im.again = im.digest
	im.replayed.Read++
	if row.Defaulted {
		im.replayed.Defaulted++
	}
	if row.Rejected {
		im.replayed.Rejected++
	} else {
		im.phones.add(row.Phone)
	}
}

// sameRows proves, before the first new row, that what was read again is what
// had been committed, row by row: a file that was mended further down, or read
// with other options, must not be mixed with the first one.
func (im *importer) sameRows() error {
	f, r := im.from, im.replayed
	if f.Read == r.Read && f.Rejected == r.Rejected && f.Defaulted == r.Defaulted && im.again == im.known {
		return nil
	}
	return refuse(ErrRefused, "up to line %d the file now reads otherwise than it was imported (%d rows, %d of them rejected, then %d and %d): "+
		"go on with the same file and the same options, or drop the campaign and create it anew", f.Line, r.Read, r.Rejected, f.Read, f.Rejected)
}

// digest goes on with a running FNV-1a hash by one row.
func digest(sum uint64, row ImportRow) uint64 {
	const prime = 1099511628211
	mix := func(s string) {
		for i := range len(s) {
			sum = (sum ^ uint64(s[i])) * prime
		}
		sum = (sum ^ 0xff) * prime // a byte that no UTF-8 text has: where a value ends counts
	}
	sum = (sum ^ uint64(row.Line)) * prime
	mix(row.Phone)
	mix(row.Zones)
	for _, v := range row.Values {
		mix(v)
	}
	return sum
}

func (im *importer) add(ctx context.Context, b *batch, row ImportRow) error {
	b.line, b.digest = row.Line, im.digest
	b.read++
	if row.Defaulted {
		b.defaulted++
	}
	if row.Rejected {
		b.rejected++
		return nil
	}
	zone, err := im.zones.of(row, b)
	if err != nil {
		return err
	}
	id, err := im.nextID(ctx)
	if err != nil {
		return err
	}
	b.use(id)
	if im.phones.add(row.Phone) {
		b.maybeSeen(id, row, zone)
		return nil
	}
	b.accepted++
	b.state.row(4)
	b.state.int64(id)
	b.state.int64(im.campaign)
	b.state.int64(im.due)
	b.state.int16(zone)
	b.params.row(5)
	b.params.int64(id)
	b.params.int64(im.campaign)
	b.params.int64(row.Line)
	b.params.text(row.Phone)
	b.params.texts(row.Values)
	return nil
}

// idBlock is the block of recipient ids in use: next to last are free.
type idBlock struct{ next, last int64 }

// nextID takes the next id, from a new block of 10 000 when one is used up.
func (im *importer) nextID(ctx context.Context) (int64, error) {
	if im.ids.next == 0 || im.ids.next > im.ids.last {
		first, err := im.store.q.NextRecipientBlock(ctx, im.store.pool)
		if err != nil {
			return 0, fmt.Errorf("take a block of ids: %w", err)
		}
		im.ids = idBlock{next: first, last: first + 9_999}
	}
	id := im.ids.next
	im.ids.next++
	return id, nil
}

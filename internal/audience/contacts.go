package audience

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"sync"
	"unicode/utf8"
)

// Contacts yields every data row in file order: a [Contact], or a *[RowError] for a row that is refused, after
// which reading goes on, or once and last any other error: the source's, ctx's, [ErrOpenQuote], or
// [ErrConsumed] on the second call. Rows without any text are not rows.
//
// Numbers are parsed by [Options.Workers] goroutines, at most a few thousand rows ahead of the consumer. They
// have ended when the sequence has, also when the consumer leaves early; a Read in progress is waited for.
func (f *File) Contacts(ctx context.Context) iter.Seq2[Contact, error] {
	return func(yield func(Contact, error) bool) {
		if f.used.Swap(true) {
			yield(Contact{}, ErrConsumed)
			return
		}
		inner, cancel := context.WithCancel(ctx)
		var running sync.WaitGroup
		defer running.Wait()
		defer cancel()
		ordered := f.start(inner, &running)
		for {
			var b *batch
			select {
			case <-ctx.Done():
			case b = <-ordered:
				<-b.parsed
			}
			if err := ctx.Err(); err != nil {
				yield(Contact{}, fmt.Errorf("read contacts: %w", err))
				return
			}
			if !b.yield(yield) {
				return
			}
		}
	}
}

const (
	batchRows  = 512
	batchBytes = 256 << 10 // of text: so long rows make short batches
)

// batch is a run of rows, parsed by one worker, that keeps its place in the file's order.
type batch struct {
	rows    []row
	results []result
	err     error         // what ended the reading behind these rows; io.EOF at the file's end
	parsed  chan struct{} // closed when results are there
}

type result struct {
	contact Contact
	err     *RowError
}

// yield hands the batch over, and reports whether there is more to come.
func (b *batch) yield(yield func(Contact, error) bool) bool {
	for i := range b.results {
		var err error
		if b.results[i].err != nil {
			err = b.results[i].err
		}
		if !yield(b.results[i].contact, err) {
			return false
		}
	}
	if b.err != nil && !errors.Is(b.err, io.EOF) {
		yield(Contact{}, b.err)
	}
	return b.err == nil
}

// start runs the reader and the workers. Every batch goes into both channels; the first keeps the order.
func (f *File) start(ctx context.Context, running *sync.WaitGroup) <-chan *batch {
	ordered := make(chan *batch, f.workers)
	todo := make(chan *batch, f.workers)
	running.Go(func() {
		defer close(todo)
		for {
			b := f.nextBatch()
			select {
			case ordered <- b:
			case <-ctx.Done():
				return
			}
			select {
			case todo <- b:
			case <-ctx.Done():
				close(b.parsed) // no worker will: whoever has taken it must not wait
				return
			}
			if b.err != nil {
				return
			}
		}
	})
	for range f.workers {
		running.Go(func() {
			for b := range todo {
				f.parse(b)
			}
		})
	}
	return ordered
}

func (f *File) nextBatch() *batch {
	b := &batch{rows: make([]row, 0, batchRows), parsed: make(chan struct{})}
	if f.first.line > 0 {
		b.rows = append(b.rows, f.first)
		f.first = row{}
	}
	for bytes := 0; len(b.rows) < batchRows && bytes < batchBytes; bytes += len(f.rows.rec.text) {
		r, err := f.nextRow()
		if err != nil {
			b.err = err
			break
		}
		b.rows = append(b.rows, r)
	}
	return b
}

// nextRow returns the next row that is not blank.
func (f *File) nextRow() (row, error) {
	for {
		rec, err := f.rows.next()
		if err != nil {
			return row{}, err
		}
		if cells := rec.cells(); rec.fault != "" || !blank(cells) {
			return row{line: rec.line, cells: cells, fault: rec.fault}, nil
		}
	}
}

func (f *File) parse(b *batch) {
	defer close(b.parsed)
	b.results = make([]result, len(b.rows))
	for i := range b.rows {
		b.results[i] = f.contact(b.rows[i])
	}
	b.rows = nil
}

// contact judges one row: its shape, then its phone, then its values.
func (f *File) contact(r row) result {
	cells, refusal := f.shape(r)
	if refusal != nil {
		return result{err: refusal}
	}
	refuse := func(column int, why Reason, hint string) result {
		return result{err: &RowError{
			Line: r.line, Column: f.layout.columns[column], Reason: why, Hint: hint, Record: cells,
		}}
	}
	c := Contact{Line: r.line}
	n, why, hint := f.reader.read(cells[f.layout.phone])
	if why != "" {
		return refuse(f.layout.phone, why, hint)
	}
	if why, hint := f.refused.judge(n); why != "" {
		return refuse(f.layout.phone, why, hint)
	}
	c.Phone, c.Defaulted = n.e164, n.defaulted
	place := f.layout.place()
	if c.Zones, why, hint = f.zones.find(n, cells[place]); why != "" {
		return refuse(place, why, hint)
	}
	if len(f.layout.params) > 0 {
		c.Values = make([]string, len(f.layout.params))
	}
	for i, column := range f.layout.params {
		c.Values[i] = trim(cells[column])
		if why, hint := checkValue(c.Values[i]); why != "" {
			return refuse(column, why, hint)
		}
	}
	return result{contact: c}
}

// shape refuses a row whose cells cannot be trusted, and returns the others' cells, one for each column.
func (f *File) shape(r row) ([]string, *RowError) {
	l, cells := &f.layout, r.cells
	refuse := func(why Reason, detail string) ([]string, *RowError) {
		if l.rejected { // a surplus lies before the columns that Rejects added
			own := len(l.columns) + max(0, len(cells)-l.width)
			cells = restoreAll(cells[:min(len(cells), own)])
		}
		return nil, &RowError{Line: r.line, Reason: why, Detail: detail, Hint: shapeHints[why], Record: cells}
	}
	switch {
	case r.fault != "":
		return refuse(r.fault, "")
	case len(cells) < l.width:
		return refuse(ReasonTooFewColumns, fmt.Sprintf("%d of %d", len(cells), l.width))
	case len(cells) > l.widest || !blank(cells[l.width:]):
		return refuse(ReasonTooManyColumns, fmt.Sprintf("%d instead of %d", len(cells), l.width))
	}
	for _, cell := range cells {
		if strings.IndexByte(cell, 0) >= 0 {
			return refuse(ReasonNUL, "")
		}
		if !utf8.ValidString(cell) {
			return refuse(ReasonEncoding, badByte(cells))
		}
	}
	if !l.rejected {
		return cells[:l.width], nil
	}
	if why := shapeReason(cells[l.reason]); why != "" {
		return refuse(why, "marked so in the column reason")
	}
	return restoreAll(cells[:len(l.columns)]), nil
}

// badByte names the first byte that is not UTF-8.
func badByte(cells []string) string {
	for i, cell := range cells {
		for j, r := range cell {
			if r == utf8.RuneError && !strings.HasPrefix(cell[j:], "\ufffd") {
				return fmt.Sprintf("byte 0x%02X, number %d of field %d", cell[j], j+1, i+1)
			}
		}
	}
	return ""
}

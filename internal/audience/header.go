package audience

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// layout is what the header row says about every row below it.
type layout struct {
	columns  []string // the names, without the columns that Rejects added
	width    int      // cells that a row must have: columns, and the trailer's
	widest   int      // cells that a row may have when the surplus is empty
	phone    int      // index of the phone column
	zone     int      // index of the column with the time zones, else -1
	params   []int    // indexes of the wanted columns
	reason   int      // index of the column "reason" in a file of rejects, else -1
	rejected bool     // the file was written by Rejects
}

// readHeader reads the first row that is not blank.
func (f *File) readHeader(opts Options) error {
	var cells []string
	for blank(cells) {
		rec, err := f.rows.next()
		if errors.Is(err, io.EOF) {
			return ErrEmpty
		}
		if err != nil {
			return fmt.Errorf("read the header row: %w", err)
		}
		if rec.fault != "" {
			return fmt.Errorf("read the header row on line %d: %s", rec.line, rec.fault)
		}
		if err := checkText(rec.text); err != nil {
			return fmt.Errorf("read the header row on line %d: %w", rec.line, err)
		}
		cells = rec.cells()
	}
	var err error
	f.layout, err = newLayout(cells, opts)
	return err
}

// checkText finds what no row may hold, and names the byte, counted from 1 in the text of the row's fields.
func checkText(text []byte) error {
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRune(text[i:])
		if r == utf8.RuneError && size == 1 {
			return fmt.Errorf("byte %d of its text is not UTF-8: save the file as UTF-8, or name its encoding", i+1)
		}
		if r == 0 {
			return fmt.Errorf("byte %d of its text is NUL: is this a text file?", i+1)
		}
		i += size
	}
	return nil
}

func newLayout(cells []string, opts Options) (layout, error) {
	l := layout{widest: len(cells), zone: -1, reason: -1}
	for i, cell := range cells {
		cells[i] = trim(cell)
	}
	// Spreadsheets export columns that were once used: no name, no cells.
	for len(cells) > 0 && cells[len(cells)-1] == "" {
		cells = cells[:len(cells)-1]
	}
	l.width = len(cells)
	if err := checkNames(cells); err != nil {
		return layout{}, err
	}
	if n := trailerStart(cells, opts); n >= 0 {
		l.rejected, l.reason = true, n+1
		cells = cells[:n]
	}
	l.columns = slices.Clone(cells)
	if l.rejected {
		for i, name := range l.columns {
			l.columns[i] = RestoreCell(name)
		}
	}
	return l, l.find(opts)
}

// checkNames refuses what would make a column's name ambiguous. A row without a header must not be quoted in an
// error: its cells are people's data.
func checkNames(names []string) error {
	for _, name := range names {
		if looksLikePhone(name) {
			return ErrNoHeader
		}
	}
	for i, name := range names {
		if name == "" {
			return fmt.Errorf("column %d has no name: the first row must name every column that has cells", i+1)
		}
		if first := columnIndex(names, name); first < i {
			return fmt.Errorf("columns %d and %d are both named %q: give each column a name of its own", first+1, i+1, name)
		}
	}
	return nil
}

func (l *layout) find(opts Options) error {
	index := func(name, use string) (int, error) {
		i := columnIndex(l.columns, name)
		if i < 0 {
			return 0, fmt.Errorf("no column %q for %s: the file has %s", name, use, quoteList(l.columns))
		}
		return i, nil
	}
	var err error
	if l.phone, err = index(opts.PhoneColumn, "the phone numbers"); err != nil {
		return err
	}
	if opts.Zones.Column != "" {
		if l.zone, err = index(opts.Zones.Column, "the time zones"); err != nil {
			return err
		}
	}
	for _, name := range opts.Params {
		i, err := index(name, "a template parameter")
		if err != nil {
			return err
		}
		l.params = append(l.params, i)
	}
	return nil
}

// place is the column that tells where a contact is: the one with the time zones, else the phone's.
func (l *layout) place() int {
	if l.zone >= 0 {
		return l.zone
	}
	return l.phone
}

// columnIndex finds a name among names. Case, outer spaces and the Unicode form do not matter.
func columnIndex(names []string, name string) int {
	want := fold(name)
	return slices.IndexFunc(names, func(n string) bool { return fold(n) == want })
}

func fold(name string) string { return norm.NFC.String(strings.ToLower(trim(name))) }

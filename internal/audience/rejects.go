package audience

import (
	"encoding/csv"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Rejects writes refused rows to a file that can be mended and read again: the file's own columns, then "line",
// "reason" and "hint" ("rejected line" and so on when the file has such columns itself), in UTF-8 with a byte
// order mark (without it Excel garbles names), with the file's delimiter, every cell through [SafeCell].
//
// [Open] knows such a file by its last three columns: it takes back exactly what SafeCell added, ignores the
// three, and refuses again a row whose shape was at fault until its cell under "reason" is cleared, because such
// a row's cells are where Rejects could put them, not where they belong.
//
// The file appears under its name when [Rejects.Commit] is called, whole or not at all. It holds people's data
// and is readable by its owner alone.
type Rejects struct {
	path    string
	columns []string
	comma   rune
	file    *os.File // nil until the first row
	csv     *csv.Writer
	rows    int
	reasons map[Reason]int
}

// NewRejects prepares a file of rejects at path for the rows of f. Nothing is created before the first row.
func NewRejects(path string, f *File) *Rejects {
	return &Rejects{path: path, columns: f.Columns(), comma: f.Delimiter(), reasons: make(map[Reason]int)}
}

// Rows returns how many rows have been added.
func (r *Rejects) Rows() int { return r.rows }

// Of returns how many rows have been added for a reason.
func (r *Rejects) Of(why Reason) int { return r.reasons[why] }

// Path returns the name that the file has once it is committed.
func (r *Rejects) Path() string { return r.path }

// Add writes one refused row.
func (r *Rejects) Add(e *RowError) error {
	if r.file == nil {
		if err := r.create(); err != nil {
			return err
		}
	}
	if err := r.write(r.cells(e), strconv.Itoa(e.Line), e.cell(), e.Hint); err != nil {
		return err
	}
	r.rows++
	r.reasons[e.Reason]++
	return nil
}

// Commit gives the file its name, in the place of an older one. Without any row it does nothing.
func (r *Rejects) Commit() error {
	if r.file == nil {
		return nil
	}
	r.csv.Flush()
	err := errors.Join(r.csv.Error(), r.file.Sync(), r.file.Close())
	if err == nil {
		err = os.Rename(r.file.Name(), r.path)
	}
	if err != nil {
		err = errors.Join(fmt.Errorf("write rejects: %w", err), os.Remove(r.file.Name()))
	}
	r.file = nil
	return err
}

// Close removes a file that was not committed. After Commit it does nothing, so that it can be deferred.
func (r *Rejects) Close() error {
	if r.file == nil {
		return nil
	}
	err := errors.Join(r.file.Close(), os.Remove(r.file.Name()))
	r.file = nil
	if err != nil {
		return fmt.Errorf("remove unfinished rejects: %w", err)
	}
	return nil
}

func (r *Rejects) create() error {
	file, err := os.CreateTemp(filepath.Dir(r.path), filepath.Base(r.path)+".*.partial")
	if err != nil {
		return fmt.Errorf("create rejects: %w", err)
	}
	r.file, r.csv = file, csv.NewWriter(file)
	r.csv.Comma = r.comma
	if _, err := file.WriteString("\ufeff"); err != nil {
		return fmt.Errorf("write rejects: %w", err)
	}
	return r.write(r.columns, Trailer(r.columns)...)
}

// Trailer returns the names of the three columns by whose being the last [Open] knows a file in which every cell
// went through [SafeCell]: a line's number, a reason that concerns no row's shape, and a text, none of which it reads.
func Trailer(columns []string) []string {
	names := trailers[0]
	for _, name := range names {
		if columnIndex(columns, name) >= 0 {
			names = trailers[1]
		}
	}
	return names[:]
}

func (r *Rejects) write(cells []string, trailer ...string) error {
	safe := make([]string, 0, len(cells)+len(trailer))
	for _, cell := range cells {
		safe = append(safe, SafeCell(cell))
	}
	if err := r.csv.Write(append(safe, trailer...)); err != nil {
		return fmt.Errorf("write rejects: %w", err)
	}
	return nil
}

// cells fits the row into the columns: what is missing becomes empty, what is too much joins the last cell.
// NUL and bytes that are not UTF-8 become U+FFFD: no editor would keep them.
func (r *Rejects) cells(e *RowError) []string {
	cells := slices.Clone(e.Record)
	if last := len(r.columns) - 1; len(cells) > last+1 {
		surplus := strings.TrimRight(strings.Join(cells[last:], string(r.comma)), string(r.comma))
		cells = append(cells[:last], surplus)
	}
	for len(cells) < len(r.columns) {
		cells = append(cells, "")
	}
	for i, cell := range cells {
		cells[i] = strings.ReplaceAll(strings.ToValidUTF8(cell, "\ufffd"), "\x00", "\ufffd")
	}
	return cells
}

// cell writes reason, column and detail so that shapeReason finds the reason again.
func (e *RowError) cell() string {
	if e.Column == "" {
		return e.what()
	}
	return e.what() + ": " + e.Column
}

// trailers are the names of the columns that Rejects adds; the second for files that use the first themselves.
var trailers = [...][3]string{
	{"line", "reason", "hint"},
	{"rejected line", "rejected reason", "rejected hint"},
}

// trailerStart finds the columns that Rejects added, or returns -1. A column that is asked for is the operator's.
func trailerStart(names []string, opts Options) int {
	n := len(names) - 3
	if n < 1 {
		return -1
	}
	wanted := append(slices.Clone(opts.Params), opts.PhoneColumn, opts.Zones.Column)
	for _, trailer := range trailers {
		theirs := slices.ContainsFunc(trailer[:], func(name string) bool { return columnIndex(wanted, name) >= 0 })
		if !theirs && slices.EqualFunc(names[n:], trailer[:], func(a, b string) bool { return fold(a) == b }) {
			return n
		}
	}
	return -1
}

const repairHere = "; in the file of rejects, put the cells right and clear the cell under reason"

// shapeHints tell how to mend a row whose shape is at fault.
var shapeHints = map[Reason]string{
	ReasonTooFewColumns:  "a delimiter is missing: every row needs as many cells as the header" + repairHere,
	ReasonTooManyColumns: "put quotes around a text that holds the delimiter" + repairHere,
	ReasonRowTooLong:     "shorten it or raise the limit; what is beyond the limit was not kept" + repairHere,
	ReasonFieldTooLong:   "shorten it or raise the limit; the field and those behind it were not kept" + repairHere,
	ReasonStrayQuote:     "double a quote that is part of a quoted text; the field and those behind it were not kept" + repairHere,
	ReasonNUL:            "remove the NUL bytes, shown as \ufffd" + repairHere,
	ReasonEncoding:       "save the file as UTF-8, or name its encoding; the bytes are shown as \ufffd" + repairHere,
}

// shapeReason finds the reason that concerns a row's shape in a cell that Rejects wrote.
func shapeReason(cell string) Reason {
	for why := range shapeHints {
		if strings.HasPrefix(trim(cell), string(why)) {
			return why
		}
	}
	return ""
}

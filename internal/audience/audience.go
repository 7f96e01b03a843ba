// Package audience hides what people's CSV files look like: it turns one file into a sequence of contacts.
//
// It promises that every data row of the file comes out exactly once, in file order, as a [Contact] or as a
// [*RowError] that says what is wrong with which column and how to mend it; that a phone number comes out in
// E.164 or not at all; that text is never silently garbled; and that memory does not grow with the file, nor
// with a row, a field or a quote that never ends.
//
// It never holds the file, never merges duplicates (the database does), never guesses a country, never logs,
// and never puts the content of a cell into an error's text.
package audience

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync/atomic"
)

// The errors that a caller may want to tell apart with [errors.Is]. All of them end the reading.
var (
	// ErrEmpty says that the file holds not even a header row.
	ErrEmpty = errors.New("the file is empty")
	// ErrNoRows says that the file holds a header row and nothing below it.
	ErrNoRows = errors.New("the file has a header row and no rows below it")
	// ErrNoHeader says that the first row looks like data.
	ErrNoHeader = errors.New("the first row looks like a contact, not like column names: put a header row above it")
	// ErrOpenQuote says that a quoted field does not end where a field can end. The error names the line it opened on.
	ErrOpenQuote = errors.New("the closing quote of a quoted field is missing or misplaced")
	// ErrConsumed says that Contacts was called a second time: a File can be read once.
	ErrConsumed = errors.New("the file has been read already: open it again")
)

// Options say what to read from the file and how far to trust it. The zero value reads the column "phone",
// wants every number with its country code, and no other column.
type Options struct {
	// PhoneColumn names the column with the phone numbers; upper and lower case are the same. Default "phone".
	PhoneColumn string
	// DefaultCountry is the ISO 3166 alpha-2 code of the country whose numbers may lack a country code.
	// Empty: every number must begin with + or 00.
	DefaultCountry string
	// Params names the columns whose values every contact must carry, in the order of [Contact.Values].
	Params []string
	// Unserved are the ISO 3166 alpha-2 codes, in capitals, of countries whose numbers are refused: what would be
	// sent there does not arrive. Of countries that share a calling code the numbering plan tells which it is.
	Unserved []string
	// Own are numbers in E.164 that are refused: the senders' own.
	Own []string
	// Zones says where contacts' time zones come from.
	Zones ZoneSource
	// Encoding is the file's encoding by its WHATWG name, as "windows-1250" or "shift_jis".
	// Empty: UTF-8, UTF-16 and Windows-1252 are told apart by the file's first 64 KiB.
	Encoding string
	// MaxRowBytes limits the text of one row, in bytes of UTF-8. Default 1 MiB.
	MaxRowBytes int
	// MaxFieldBytes limits the text of one field, in bytes of UTF-8. Default 64 KiB.
	MaxFieldBytes int
	// MaxColumns limits the fields of one row. Default 1024.
	MaxColumns int
	// Workers is the number of goroutines that parse phone numbers. Default GOMAXPROCS.
	Workers int
}

func (o Options) withDefaults() Options {
	o.PhoneColumn = cmp.Or(trim(o.PhoneColumn), "phone")
	o.MaxRowBytes = cmp.Or(o.MaxRowBytes, 1<<20)
	o.MaxFieldBytes = cmp.Or(o.MaxFieldBytes, 64<<10)
	o.MaxColumns = cmp.Or(o.MaxColumns, 1024)
	o.Workers = cmp.Or(o.Workers, runtime.GOMAXPROCS(0))
	return o
}

func (o Options) check() error {
	if min(o.MaxRowBytes, o.MaxFieldBytes, o.MaxColumns, o.Workers) < 0 {
		return errors.New("limits and the number of workers must not be negative")
	}
	return nil
}

// File is a CSV file whose head has been read and understood, ready to be read once.
type File struct {
	src      *counter
	encoding string
	rows     *splitter
	layout   layout
	reader   *numbers
	workers  int
	refused  strangers
	zones    *atlas
	first    row // the first data row, read ahead so that Open can refuse a file without any
	used     atomic.Bool
}

// headBytes is how much of a file decides its encoding and its delimiter.
const headBytes = 64 << 10

// Open reads the head of src and returns a File. It fails on a file that has no header ([ErrEmpty],
// [ErrNoHeader]) or no rows ([ErrNoRows]), lacks a column that opts name, has columns without a name or two
// of one name, or is no text at all; and on a country that does not exist. It does not close src.
func Open(src io.Reader, opts Options) (*File, error) {
	opts = opts.withDefaults()
	if err := opts.check(); err != nil {
		return nil, err
	}
	reader, err := newNumbers(opts.DefaultCountry)
	if err != nil {
		return nil, err
	}
	f := &File{src: &counter{r: src}, reader: reader, workers: opts.Workers, refused: strangers{opts.Unserved, opts.Own}}
	f.zones = &atlas{source: opts.Zones, numbers: reader}
	text, err := f.decode(opts.Encoding)
	if err != nil {
		return nil, err
	}
	if f.rows, err = f.dialect(text, opts); err != nil {
		return nil, err
	}
	if err := f.readHeader(opts); err != nil {
		return nil, err
	}
	if f.first, err = f.nextRow(); errors.Is(err, io.EOF) {
		return nil, ErrNoRows
	}
	return f, err
}

// Columns returns the names of the file's columns in the file's order, trimmed. The columns that [Rejects]
// added to a file of rejects are not among them.
func (f *File) Columns() []string { return f.layout.columns }

// Encoding returns the WHATWG name of the encoding the file is read in, as "utf-8" or "windows-1252".
func (f *File) Encoding() string { return f.encoding }

// Delimiter returns the character between the fields: one of , ; | or tab, or what a first line "sep=" named.
func (f *File) Delimiter() rune { return rune(f.rows.comma) }

// BytesRead returns how many bytes have been taken from the source so far. It is safe to call at any time,
// from any goroutine.
func (f *File) BytesRead() int64 { return f.src.n.Load() }

// decode puts the file's decoder in front of the source.
func (f *File) decode(name string) (*bufio.Reader, error) {
	raw := bufio.NewReaderSize(f.src, headBytes)
	head, err := raw.Peek(headBytes)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read the head of the file: %w", err)
	}
	cs, err := pickCharset(head, name)
	if err != nil {
		return nil, err
	}
	f.encoding = cs.name
	if _, err := raw.Discard(cs.bom); err != nil {
		return nil, fmt.Errorf("skip the byte order mark: %w", err)
	}
	if cs.enc == nil {
		return raw, nil
	}
	return bufio.NewReaderSize(cs.enc.NewDecoder().Reader(raw), headBytes), nil
}

// dialect finds the delimiter and returns the splitter that uses it, placed before the header.
func (f *File) dialect(text *bufio.Reader, opts Options) (*splitter, error) {
	head, err := text.Peek(headBytes)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read the head of the file: %w", err)
	}
	s := newSplitter(text, ',', opts)
	if comma, n, ok := sepLine(head); ok {
		s.comma, s.line = comma, s.line+1
		if _, err := text.Discard(n); err != nil {
			return nil, fmt.Errorf("skip the line with the delimiter: %w", err)
		}
		return s, nil
	}
	s.comma = pickDelimiter(head, opts)
	return s, nil
}

// counter counts the bytes that have been read through it.
type counter struct {
	r io.Reader
	n atomic.Int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n.Add(int64(n))
	return n, err
}

// quoteList writes names for an error message: "a", "b".
func quoteList(names []string) string {
	quoted := make([]string, len(names))
	for i, name := range names {
		quoted[i] = fmt.Sprintf("%q", name)
	}
	return strings.Join(quoted, ", ")
}

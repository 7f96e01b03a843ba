package audience

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// splitter cuts UTF-8 text into records. encoding/csv is not used because it has no limits (it buffers a line
// or an open quote for as long as it lasts), does not know CR as a line end, and ends the reading at the first
// stray quote, where a campaign's file should lose one row.
type splitter struct {
	r          *bufio.Reader
	comma      byte
	maxRow     int
	maxField   int
	maxColumns int

	line  int  // the line that the next byte is on, from 1
	cr    bool // the last byte was a CR: a LF right behind it belongs to the same line end
	state splitState
	open  int  // the line on which the current quote was opened
	size  int  // bytes of the current field, stored or not
	begun bool // the current record holds at least one byte
	rec   record
}

// record is one row as the splitter saw it: its fields' text end to end, without quotes. It is valid until the
// next call.
type record struct {
	line  int
	text  []byte
	ends  []int
	fault Reason // what is wrong with the row as a whole; fields from the fault on are not stored
}

type splitState uint8

const (
	fieldStart  splitState = iota // nothing but spaces so far
	inPlain                       // a field without quotes
	inQuotes                      // between the quotes
	afterQuote                    // behind a quote that either closes the field or is half of a doubled one
	afterField                    // behind a closed quote and spaces
	restOfLine                    // behind a stray quote: the line is lost
	recordEnded                   // at the line's end
)

func newSplitter(r *bufio.Reader, comma byte, opts Options) *splitter {
	return &splitter{
		r: r, comma: comma, line: 1,
		maxRow: opts.MaxRowBytes, maxField: opts.MaxFieldBytes, maxColumns: opts.MaxColumns,
	}
}

// next returns the next record, blank ones too, or io.EOF, or an error that ends the reading.
func (s *splitter) next() (*record, error) {
	s.rec.text, s.rec.ends = s.rec.text[:0], s.rec.ends[:0]
	s.rec.line, s.rec.fault = s.line, ""
	s.state, s.size, s.begun = fieldStart, 0, false
	for s.state != recordEnded {
		_, err := s.r.Peek(1)
		if errors.Is(err, io.EOF) {
			return s.atEOF()
		}
		if err != nil {
			return nil, fmt.Errorf("read line %d: %w", s.line, err)
		}
		window, _ := s.r.Peek(s.r.Buffered())
		n, err := s.scan(window)
		if err != nil {
			return nil, err
		}
		_, _ = s.r.Discard(n) // n bytes are in the buffer: this cannot fail
	}
	return &s.rec, nil
}

func (s *splitter) atEOF() (*record, error) {
	if s.state == inQuotes {
		return nil, s.openQuote("the file ends first")
	}
	if !s.begun {
		return nil, io.EOF
	}
	s.endField()
	s.state = recordEnded
	return &s.rec, nil
}

func (s *splitter) openQuote(how string) error {
	return fmt.Errorf("line %d: %w (%s): close the quote that opens on line %d, or double it if it is part of the text",
		s.open, ErrOpenQuote, how, s.open)
}

// scan takes bytes from w until the record or w ends, and returns how many it took.
func (s *splitter) scan(w []byte) (int, error) {
	i := 0
	for i < len(w) && s.state != recordEnded {
		var err error
		switch s.state {
		case inPlain:
			n := s.plainRun(w[i:])
			s.store(w[i : i+n]...)
			i += n
			if i < len(w) {
				s.separator(w[i])
				i++
			}
		case inQuotes:
			i, err = s.quotedRun(w, i)
		case restOfLine:
			if isLineEnd(w[i]) {
				s.separator(w[i])
			}
			i++
		case fieldStart:
			if s.start(w[i]) {
				i++
			}
		case afterQuote, afterField:
			err = s.closing(w[i])
			i++
		}
		if err != nil {
			return i, err
		}
	}
	return i, nil
}

// plainRun returns how many bytes of w belong to a field without quotes. A quote inside it is text: 5" pipe.
func (s *splitter) plainRun(w []byte) int {
	for i, c := range w {
		if c == s.comma || isLineEnd(c) {
			return i
		}
	}
	return len(w)
}

// start looks at a byte before which the field holds nothing but spaces, and reports whether it took it.
func (s *splitter) start(c byte) bool {
	lineFeedOfCRLF := c == '\n' && s.cr && !s.begun
	s.cr = false
	if lineFeedOfCRLF {
		return true
	}
	s.begun = true
	switch {
	case c == s.comma || isLineEnd(c):
		s.separator(c)
	case c == '"': // spaces before the quote are not text
		s.rec.text = s.rec.text[:s.fieldStart()]
		s.size, s.state, s.open = 0, inQuotes, s.line
	case c == ' ':
		s.store(c)
	default:
		s.state = inPlain
		return false
	}
	return true
}

// quotedRun takes text between quotes, and the quote that ends it.
func (s *splitter) quotedRun(w []byte, i int) (int, error) {
	n := bytes.IndexByte(w[i:], '"')
	run := w[i:]
	if n >= 0 {
		run = w[i : i+n]
	}
	s.countLines(run)
	// A row that is too long is lost alone. But what an open quote swallows are other people's rows: they must
	// not go down as one rejected row.
	if s.store(run...) {
		return i, s.openQuote(fmt.Sprintf("a field may hold %d bytes, a row %d", s.maxField, s.maxRow))
	}
	if n < 0 {
		return len(w), nil
	}
	s.state, s.cr = afterQuote, false
	return i + n + 1, nil
}

// closing looks at a byte behind a quote inside a quoted field.
func (s *splitter) closing(c byte) error {
	switch {
	case c == '"' && s.state == afterQuote:
		s.store(c)
		s.state = inQuotes
	case c == s.comma || isLineEnd(c):
		s.separator(c)
	case c == ' ':
		s.state = afterField
	case s.open != s.line:
		return s.openQuote(fmt.Sprintf("it meets a quote on line %d that text follows", s.line))
	default:
		s.fail(ReasonStrayQuote)
		s.state = restOfLine
	}
	return nil
}

// separator ends the field, and at a line end the record.
func (s *splitter) separator(c byte) {
	s.endField()
	s.state = fieldStart
	if isLineEnd(c) {
		s.line++
		s.cr = c == '\r'
		s.state = recordEnded
	}
}

func (s *splitter) endField() {
	s.size = 0
	if s.rec.fault != "" {
		return
	}
	if len(s.rec.ends) == s.maxColumns {
		s.fail(ReasonTooManyColumns)
		return
	}
	s.rec.ends = append(s.rec.ends, len(s.rec.text))
}

// store keeps a part of the field's text and reports whether the field has outgrown its room. Which limit is to
// blame depends on where the field begins, never on how the source cut the text.
func (s *splitter) store(b ...byte) (outgrown bool) {
	s.size += len(b)
	room, why := s.maxField, ReasonFieldTooLong
	if left := s.maxRow - s.fieldStart(); s.rec.fault == "" && left < room {
		room, why = left, ReasonRowTooLong
	}
	if s.size > room {
		s.fail(why)
		return true
	}
	if s.rec.fault == "" {
		s.rec.text = append(s.rec.text, b...)
	}
	return false
}

// fail marks the record and drops the field at hand.
func (s *splitter) fail(why Reason) {
	if s.rec.fault == "" {
		s.rec.fault = why
		s.rec.text = s.rec.text[:s.fieldStart()]
	}
}

func (s *splitter) fieldStart() int {
	if n := len(s.rec.ends); n > 0 {
		return s.rec.ends[n-1]
	}
	return 0
}

// countLines counts the line ends inside quotes, CRLF as one even when it is cut in two.
func (s *splitter) countLines(b []byte) {
	if len(b) == 0 {
		return
	}
	if !s.cr && bytes.IndexByte(b, '\n') < 0 && bytes.IndexByte(b, '\r') < 0 {
		return
	}
	for _, c := range b {
		if c == '\r' || c == '\n' && !s.cr {
			s.line++
		}
		s.cr = c == '\r'
	}
}

func isLineEnd(c byte) bool { return c == '\n' || c == '\r' }

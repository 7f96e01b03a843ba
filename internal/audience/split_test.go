package audience

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func small(text string) *splitter {
	return newSplitter(bufio.NewReaderSize(strings.NewReader(text), 16), ',', Options{MaxRowBytes: 40, MaxFieldBytes: 20, MaxColumns: 4})
}

// lines tells what a splitter makes of a text: line:cell|cell, or line!fault, or the error's text.
func lines(s *splitter) (got []string) {
	for {
		rec, err := s.next()
		switch {
		case errors.Is(err, io.EOF):
			return got
		case err != nil:
			return append(got, err.Error())
		case rec.fault != "":
			got = append(got, fmt.Sprintf("%d!%s", rec.line, rec.fault))
		default:
			got = append(got, fmt.Sprintf("%d:%s", rec.line, strings.Join(rec.cells(), "|")))
		}
	}
}

func TestSplit(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 21)
	quote := ErrOpenQuote.Error()
	for _, c := range []struct {
		name, text string
		want       []string
	}{
		{"LF", "a,b\nc,d\n", []string{"1:a|b", "2:c|d"}},
		{"CRLF", "a,b\r\nc,d\r\n", []string{"1:a|b", "2:c|d"}},
		{"CR", "a,b\rc,d\r", []string{"1:a|b", "2:c|d"}},
		{"all kinds", "a\r\nb\rc\n\rd", []string{"1:a", "2:b", "3:c", "4:", "5:d"}},
		{"blank lines", "a\n\n\nb", []string{"1:a", "2:", "3:", "4:b"}},
		{"no line end at the end", "a,b", []string{"1:a|b"}},
		{"empty last field", "a,", []string{"1:a|"}},
		{"quotes", "\"a,b\",\"c\"\"d\",\"\"\n", []string{"1:a,b|c\"d|"}},
		{"line ends in quotes", "\"a\r\nb\rc\nd\",e\nf", []string{"1:a\r\nb\rc\nd|e", "5:f"}},
		{"spaces around quotes", "a,  \"b, c\"  ,d", []string{"1:a|b, c|d"}},
		{"spaces are text elsewhere", " a , b", []string{"1: a | b"}},
		{"quote inside plain text", "5\" pipe,b", []string{"1:5\" pipe|b"}},
		{"stray quote loses one line", "\"a\"b,\"c\nd", []string{"1!stray quote", "2:d"}},
		{"quote after a space is stray", "\"a\" \"b\"\nd", []string{"1!stray quote", "2:d"}},
		{"too many columns", "a,b,c,d,\"e\nf\"\ng", []string{"1!too many columns", "3:g"}},
		{"field too long", long + ",b\nc", []string{"1!field too long", "2:c"}},
		{"longest field", long[1:] + "\nc", []string{"1:" + long[1:], "2:c"}},
		{"spaces too long", strings.Repeat(" ", 21) + "\nc", []string{"1!field too long", "2:c"}},
		{"row too long", long[1:] + "," + long[1:] + ",x\nc", []string{"1!row too long", "2:c"}},
		{"row too long, then a quote", long[1:] + "," + long[1:] + ",x,\"y\nz\"\nc", []string{"1!row too long", "3:c"}},
		{"quote open at the end", "a\nb,\"c\nd\n", []string{"1:a", "line 2: " + quote + " (the file ends first): close the quote that opens on line 2, or double it if it is part of the text"}},
		{"quote open too long", "a\nb,\"c\n" + long, []string{"1:a", "line 2: " + quote + " (a field may hold 20 bytes, a row 40): close the quote that opens on line 2, or double it if it is part of the text"}},
		{"quote closed by another row's", "a\n\"b\nc,\"d\"\n", []string{"1:a", "line 2: " + quote + " (it meets a quote on line 3 that text follows): close the quote that opens on line 2, or double it if it is part of the text"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if d := cmp.Diff(c.want, lines(small(c.text))); d != "" {
				t.Errorf("records differ (-want +got):\n%s", d)
			}
		})
	}
}

// Where encoding/csv understands a text, the splitter reads the same.
func TestSplitAgreesWithEncodingCSV(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOfN(rapid.SampledFrom([]rune("ab\"\"\",,, \n\n\r🌊")), 0, 60, -1).Draw(t, "text")
		r := csv.NewReader(strings.NewReader(text))
		r.FieldsPerRecord = -1
		want, err := r.ReadAll()
		if err != nil || strings.Contains(text, "\r") || strings.Contains(text, "\" ") || strings.Contains(text, " \"") {
			return // the splitter forgives more: CR, spaces around quotes
		}
		s := newSplitter(bufio.NewReaderSize(strings.NewReader(text), 16), ',', Options{}.withDefaults())
		var got [][]string
		for {
			rec, err := s.next()
			if err != nil {
				break
			}
			if cells := rec.cells(); rec.fault != "" || len(cells) > 1 || cells[0] != "" {
				got = append(got, cells)
			}
		}
		// encoding/csv does not skip a line that holds only "".
		want = slices.DeleteFunc(want, func(cells []string) bool { return len(cells) == 1 && cells[0] == "" })
		if d := cmp.Diff(want, got); d != "" && len(want)+len(got) > 0 {
			t.Fatalf("records differ (-encoding/csv +splitter):\n%s", d)
		}
	})
}

// endless is a source that never ends.
type endless struct{ c byte }

func (e endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = e.c
	}
	return len(p), nil
}

// A line without end, an open quote, commas without end: memory stays at the limits.
func TestSplitNeverBuffersPastTheLimits(t *testing.T) {
	t.Parallel()
	const size = 16 << 20
	for name, c := range map[string]struct {
		start string
		fill  byte
		want  string
	}{
		"line":   {"a,", 'x', "field too long"},
		"quote":  {"a,\"", 'x', "line 1"},
		"commas": {"a,", ',', "too many columns"},
		"spaces": {"a,", ' ', "field too long"},
		"quotes": {"a,\"", '"', "line 1"},
	} {
		src := io.MultiReader(strings.NewReader(c.start), io.LimitReader(endless{c.fill}, size))
		s := newSplitter(bufio.NewReaderSize(src, headBytes), ',', Options{}.withDefaults())
		got := lines(s)
		if len(got) != 1 || !strings.Contains(got[0], c.want) {
			t.Errorf("%s: got %.200q, want %q", name, got, c.want)
		}
		if held := cap(s.rec.text) + 8*cap(s.rec.ends); held > 2<<20 {
			t.Errorf("%s: %d bytes held", name, held)
		}
	}
}

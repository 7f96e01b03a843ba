package audience

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/htmlindex"
	"golang.org/x/text/encoding/unicode"
)

// charset is how a file's bytes become text.
type charset struct {
	name string
	bom  int               // bytes of the byte order mark at the start
	enc  encoding.Encoding // nil: UTF-8, checked row by row
}

var (
	errWorkbook    = errors.New("this is a spreadsheet workbook (or another ZIP archive), not a CSV file: save it as \"CSV UTF-8\" first")
	errCompressed  = errors.New("the file is compressed with gzip: unpack it first")
	errUTF32       = errors.New("the file is UTF-32, which is not supported: save it as UTF-8")
	errUnknownText = errors.New("the file is neither UTF-8, UTF-16 nor Windows-1252: save it as UTF-8, or name its encoding")
)

// pickCharset names the encoding of a file that begins with head. A name given by the operator overrides
// everything but a byte order mark.
func pickCharset(head []byte, name string) (charset, error) {
	for _, sign := range []struct {
		magic string
		cs    charset
		err   error
	}{
		{"PK\x03\x04", charset{}, errWorkbook},
		{"\x1f\x8b", charset{}, errCompressed},
		{"\xff\xfe\x00\x00", charset{}, errUTF32},
		{"\x00\x00\xfe\xff", charset{}, errUTF32},
		{"\xef\xbb\xbf", charset{name: "utf-8", bom: 3}, nil},
		{"\xff\xfe", utf16(unicode.LittleEndian, 2), nil},
		{"\xfe\xff", utf16(unicode.BigEndian, 2), nil},
	} {
		if bytes.HasPrefix(head, []byte(sign.magic)) {
			return sign.cs, sign.err
		}
	}
	if name != "" {
		return namedCharset(name)
	}
	return guessCharset(head)
}

func utf16(order unicode.Endianness, bom int) charset {
	name := "utf-16le"
	if order == unicode.BigEndian {
		name = "utf-16be"
	}
	return charset{name: name, bom: bom, enc: unicode.UTF16(order, unicode.IgnoreBOM)}
}

func namedCharset(name string) (charset, error) {
	enc, err := htmlindex.Get(name)
	if err != nil {
		return charset{}, fmt.Errorf("unknown encoding %q: use a name such as utf-8, utf-16le, windows-1250 or shift_jis", name)
	}
	if canonical, err := htmlindex.Name(enc); err == nil {
		name = canonical
	}
	if name == "utf-8" {
		enc = nil
	}
	return charset{name: name, enc: enc}, nil
}

func guessCharset(head []byte) (charset, error) {
	if order, ok := nulPattern(head); ok {
		return utf16(order, 0), nil
	}
	good, bad := countRunes(head)
	switch {
	case bad == 0 || good >= bad: // a few bad bytes amid good UTF-8 are bad rows, not another encoding
		return charset{name: "utf-8"}, nil
	case bytes.ContainsAny(head, "\x00") || slices.ContainsFunc(head, undefined1252):
		return charset{}, errUnknownText
	}
	return charset{name: "windows-1252", enc: charmap.Windows1252}, nil
}

// undefined1252 reports the five bytes that no Windows-1252 text holds.
func undefined1252(c byte) bool { return strings.IndexByte("\x81\x8d\x8f\x90\x9d", c) >= 0 }

// nulPattern recognises UTF-16 without a byte order mark: digits and delimiters have a zero for one half, always
// the same one.
func nulPattern(head []byte) (unicode.Endianness, bool) {
	pairs := len(head) / 2
	var even, odd int
	for i := range pairs {
		if head[2*i] == 0 {
			even++
		}
		if head[2*i+1] == 0 {
			odd++
		}
	}
	const often, seldom = 3, 50 // at least a third of the pairs, at most one in fifty
	switch {
	case pairs == 0:
	case odd*often >= pairs && even*seldom <= pairs:
		return unicode.LittleEndian, true
	case even*often >= pairs && odd*seldom <= pairs:
		return unicode.BigEndian, true
	}
	return unicode.LittleEndian, false
}

// countRunes counts the characters of more than one byte that are good UTF-8, and the bytes that are not. The
// head may end inside a character.
func countRunes(head []byte) (good, bad int) {
	for len(head) > 0 {
		if head[0] < utf8.RuneSelf {
			head = head[1:]
			continue
		}
		r, size := utf8.DecodeRune(head)
		switch {
		case r != utf8.RuneError || size > 1:
			good++
		case len(head) < utf8.UTFMax && !utf8.FullRune(head):
			return good, bad
		default:
			bad++
		}
		head = head[size:]
	}
	return good, bad
}

// delimiters in the order in which equals are preferred.
const delimiters = ",;\t|"

// sepLine recognises the first line "sep=;" that spreadsheets understand, and returns its length with its end.
func sepLine(head []byte) (comma byte, n int, ok bool) {
	end := bytes.IndexAny(head, "\r\n")
	if end < 0 {
		return 0, 0, false
	}
	line := strings.Trim(string(head[:end]), `" `)
	if len(line) != len("sep=")+1 || !strings.EqualFold(line[:4], "sep=") {
		return 0, 0, false
	}
	comma = line[4]
	if comma == '"' || comma >= utf8.RuneSelf {
		return 0, 0, false
	}
	n = end + 1
	if bytes.HasPrefix(head[end:], []byte("\r\n")) {
		n++
	}
	return comma, n, true
}

// pickDelimiter chooses the delimiter under which the header holds the phone column; then the one under which
// most of the first lines have as many fields as the header; then the one that the header holds most often.
func pickDelimiter(head []byte, opts Options) byte {
	best, bestScore := delimiters[0], [3]int{}
	for _, comma := range []byte(delimiters) {
		if score := delimiterScore(head, comma, opts); slices.Compare(score[:], bestScore[:]) > 0 {
			best, bestScore = comma, score
		}
	}
	return best
}

const sampleLines = 50

func delimiterScore(head []byte, comma byte, opts Options) (score [3]int) {
	s := newSplitter(bufio.NewReader(bytes.NewReader(head)), comma, opts)
	width := 0
	for range sampleLines {
		rec, err := s.next()
		if err != nil {
			break
		}
		cells := rec.cells()
		switch {
		case blank(cells):
		case width == 0:
			width = len(cells)
			if width > 1 && columnIndex(cells, opts.PhoneColumn) >= 0 {
				score[0] = 1
			}
			score[2] = width - 1
		case len(cells) == width && width > 1:
			score[1]++
		}
	}
	return score
}

package audience

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/unicode"
)

var wantNames = Options{Params: []string{"name"}}

func encode(t testing.TB, name, text string) string {
	t.Helper()
	var out string
	var err error
	switch name {
	case "utf-8":
		return text
	case "utf-16le":
		out, err = unicode.UTF16(unicode.LittleEndian, unicode.IgnoreBOM).NewEncoder().String(text)
	case "utf-16be":
		out, err = unicode.UTF16(unicode.BigEndian, unicode.IgnoreBOM).NewEncoder().String(text)
	case "windows-1252":
		out, err = charmap.Windows1252.NewEncoder().String(text)
	case "windows-1251":
		out, err = charmap.Windows1251.NewEncoder().String(text)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestEncodings(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, bom, encoding, option, value string }{
		{"UTF-8", "", "utf-8", "", "José 🌊"},
		{"UTF-8 with BOM", "\xef\xbb\xbf", "utf-8", "", "José 🌊"},
		{"UTF-16 LE with BOM", "\xff\xfe", "utf-16le", "", "José 🌊 李"},
		{"UTF-16 BE with BOM", "\xfe\xff", "utf-16be", "", "José 🌊 李"},
		{"UTF-16 LE without BOM", "", "utf-16le", "", "José 🌊"},
		{"UTF-16 BE without BOM", "", "utf-16be", "", "José 🌊"},
		{"Windows-1252", "", "windows-1252", "", "José – 5 €"},
		{"named", "", "windows-1251", "cp1251", "Анна"},
		{"BOM beats the name", "\xef\xbb\xbf", "utf-8", "windows-1252", "José"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			text := c.bom + encode(t, c.encoding, "phone;name\r\n+4915112345678;"+c.value+"\r\n")
			opts := wantNames
			opts.Encoding = c.option
			f, err := Open(iotest.OneByteReader(strings.NewReader(text)), opts)
			if err != nil {
				t.Fatal(err)
			}
			if f.Encoding() != c.encoding {
				t.Errorf("encoding %q, want %q", f.Encoding(), c.encoding)
			}
			o := drain(f)
			if o.end != nil || len(o.contacts) != 1 || o.contacts[0].Values[0] != c.value {
				t.Errorf("got %+v, want one contact with %q", o, c.value)
			}
			if f.BytesRead() != int64(len(text)) {
				t.Errorf("%d bytes read, want %d", f.BytesRead(), len(text))
			}
		})
	}
}

func TestBadUTF8InAGoodFileIsARowError(t *testing.T) {
	t.Parallel()
	text := "phone,name\n+4915112345678,José\n+4915112345679,Jos\xe9\n+4915112345670,Ana\n"
	for name, padding := range map[string]string{"in the head": "", "behind the head": strings.Repeat("\n", headBytes)} {
		o := readAll(t, strings.Replace(text, "\n+4915112345679", padding+"\n+4915112345679", 1), wantNames)
		if len(o.contacts) != 2 || len(o.refused) != 1 || o.end != nil {
			t.Fatalf("%s: got %+v, want two contacts and one refusal", name, o)
		}
		want := &RowError{Line: 3 + len(padding), Reason: ReasonEncoding, Detail: "byte 0xE9, number 4 of field 2"}
		got := *o.refused[0]
		got.Hint, got.Record = "", nil
		if d := cmp.Diff(want, &got); d != "" {
			t.Errorf("%s: refusal differs (-want +got):\n%s", name, d)
		}
	}
}

func TestDelimiters(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, text string
		want       rune
	}{
		{"comma", "phone,name\n+4915112345678,Ana\n", ','},
		{"semicolon", "phone;name\n+4915112345678;Ana\n", ';'},
		{"tab", "phone\tname\n+4915112345678\tAna\n", '\t'},
		{"bar", "phone|name\n+4915112345678|Ana\n", '|'},
		{"commas in the cells of a semicolon file", "phone;name\n+4915112345678;a,b,c\n+4915112345678;a,b,c\n", ';'},
		{"commas in the header of a semicolon file", "name, first, last;phone\nAna;+4915112345678\n", ';'},
		{"semicolons in quotes", "\"phone\",\"name\",\"a;b;c;d\"\n+4915112345678,Ana,\"x;y;z\"\n", ','},
		{"decimal commas", "name;phone;a,b\nAna;+4915112345678;1,5\n", ';'},
		{"one column", "phone\n+4915112345678\n", ','},
		{"sep line", "sep=;\nphone;a,b\n+4915112345678;1\n", ';'},
		{"sep line of another kind", "\"SEP=^\"\r\nphone^name\r\n+4915112345678^Ana\r\n", '^'},
		{"sep line behind a BOM", "\xef\xbb\xbfsep=\t\r\nphone\tname\r\n+4915112345678\tAna\r\n", '\t'},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := open(t, c.text, Options{})
			if f.Delimiter() != c.want {
				t.Errorf("delimiter %q, want %q", f.Delimiter(), c.want)
			}
			o := drain(f)
			if len(o.contacts) == 0 || len(o.refused) > 0 || o.end != nil {
				t.Fatalf("got %+v, want contacts only", o)
			}
			if want := 2 + strings.Count(strings.ToLower(c.text), "sep="); o.contacts[0].Line != want {
				t.Errorf("first row on line %d, want %d", o.contacts[0].Line, want)
			}
		})
	}
}

const anyRow = "\n+4915112345678,Ana\n"

var unopenable = []struct {
	name, text string
	opts       Options
	is         error
	says       string
}{
	{"empty", "", Options{}, ErrEmpty, ""},
	{"BOM only", "\xef\xbb\xbf", Options{}, ErrEmpty, ""},
	{"blank lines only", "\r\n \r\n,,\r\n", Options{}, ErrEmpty, ""},
	{"header only", "phone,name", Options{}, ErrNoRows, ""},
	{"header and blank lines", "phone,name\n\n , \n", Options{}, ErrNoRows, ""},
	{"no header", "+4915112345678,Ana" + anyRow, Options{}, ErrNoHeader, "header row"},
	{"no phone column", "mobile,name" + anyRow, Options{}, nil, `no column "phone" for the phone numbers: the file has "mobile", "name"`},
	{"no column for a parameter", "phone,name" + anyRow, Options{Params: []string{"city"}}, nil, `"city" for a template parameter: the file has "phone", "name"`},
	{"two columns of one name", "phone,Phone " + anyRow, Options{}, nil, "columns 1 and 2 are both named"},
	{"column without a name", "phone,,name\n+4915112345678,x,Ana\n", Options{}, nil, "column 2 has no name"},
	{"NUL in the header", "phone,na\x00me" + anyRow, Options{}, nil, "NUL"},
	{"bad UTF-8 in the header", "phone,näh,n\xe9me" + anyRow, Options{Encoding: "utf-8"}, nil, "byte 11 of its text is not UTF-8"},
	{"header too wide", strings.Repeat("a,", 2000) + anyRow, Options{}, nil, "too many columns"},
	{"open quote in the header", "phone,\"name" + anyRow, Options{}, ErrOpenQuote, "line 1"},
	{"workbook", "PK\x03\x04....", Options{}, nil, "CSV UTF-8"},
	{"gzip", "\x1f\x8b....", Options{}, nil, "unpack"},
	{"UTF-32", "\xff\xfe\x00\x00p\x00\x00\x00", Options{}, nil, "UTF-32"},
	{"unknown text", "phone,n\x81me\n", Options{}, nil, "save it as UTF-8"},
	{"unknown encoding", "phone" + anyRow, Options{Encoding: "klingon"}, nil, "unknown encoding"},
	{"unknown country", "phone" + anyRow, Options{DefaultCountry: "UK"}, nil, "ISO 3166"},
	{"negative limit", "phone" + anyRow, Options{MaxColumns: -1}, nil, "negative"},
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range unopenable {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, err := Open(strings.NewReader(c.text), c.opts)
			if err == nil || c.is != nil && !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.says) {
				t.Fatalf("Open = %v, want %v, saying %q", err, c.is, c.says)
			}
			if strings.Contains(err.Error(), "4915112345678") {
				t.Errorf("the error %q tells a number", err)
			}
		})
	}
}

func TestOpenReportsTheSource(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken pipe")
	src := io.MultiReader(strings.NewReader("phone\n"), iotest.ErrReader(broken))
	if _, err := Open(src, Options{}); !errors.Is(err, broken) {
		t.Errorf("Open = %v, want %v", err, broken)
	}
}

func TestColumns(t *testing.T) {
	t.Parallel()
	text := " \ufeffPHONE ,\u00a0Name,cafe\u0301,,\n+4915112345678,Ana,x,,\n+4915112345679,Bob,y\n+4915112345670,Eve,z,,surplus\n"
	f := open(t, text, Options{Params: []string{"caf\u00e9", "NAME"}})
	if d := cmp.Diff([]string{"PHONE", "Name", "cafe\u0301"}, f.Columns()); d != "" {
		t.Errorf("columns differ (-want +got):\n%s", d)
	}
	o := drain(f)
	want := []Contact{
		{Line: 2, Phone: "+4915112345678", Values: []string{"x", "Ana"}},
		{Line: 3, Phone: "+4915112345679", Values: []string{"y", "Bob"}},
	}
	if d := cmp.Diff(want, o.contacts); d != "" {
		t.Errorf("contacts differ (-want +got):\n%s", d)
	}
	if len(o.refused) != 1 || o.refused[0].Reason != ReasonTooManyColumns {
		t.Errorf("refused %v, want the row with a cell under no name", o.refused)
	}
}

// The cuts that a source makes are not the file's business.
func TestCutsDoNotMatter(t *testing.T) {
	t.Parallel()
	text := "\xff\xfe" + encode(t, "utf-16le", "sep=;\r\nphone;name\r\n+4915112345678;\"Ana \"\"🌊\"\"\r\nSilva\"\r\n\r\n+491511;x\r\n+4915112345679;Jos\u00e9\r")
	want := read(strings.NewReader(text), wantNames)
	if len(want.contacts) != 1 || len(want.refused) != 2 || want.refused[1].Line != 6 {
		t.Fatalf("got %+v", want)
	}
	for name, cut := range map[string]func(io.Reader) io.Reader{
		"one byte": iotest.OneByteReader, "half": iotest.HalfReader, "data and error": iotest.DataErrReader,
	} {
		got := read(cut(bytes.NewReader([]byte(text))), wantNames)
		if d := cmp.Diff(want, got, cmp.AllowUnexported(outcome{})); d != "" {
			t.Errorf("%s: differs (-whole +cut):\n%s", name, d)
		}
	}
}

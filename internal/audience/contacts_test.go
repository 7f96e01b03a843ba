package audience

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestContacts(t *testing.T) {
	t.Parallel()
	text := strings.Join([]string{
		"name,phone,city",                  // 1
		"Ana,+4915112345678,Berlin",        // 2
		"Bob,0151 12345679, \u00a0Köln\t ", // 3
		"",                                 // 4
		", ,",                              // 5
		"Eve,+4915112345670",               // 6
		"Dan,4.479E+11,Bonn",               // 7
		"\"Li\nPo\",+4915112345671,Trier",  // 8, 9
		"Zoe,+4915112345672,\u200b",        // 10
	}, "\n")
	got := readAll(t, text, Options{DefaultCountry: "DE", Params: []string{"city", "name"}})
	if got.end != nil {
		t.Fatal(got.end)
	}
	want := []Contact{
		{Line: 2, Phone: "+4915112345678", Values: []string{"Berlin", "Ana"}},
		{Line: 3, Phone: "+4915112345679", Values: []string{"Köln", "Bob"}, Defaulted: true},
	}
	if d := cmp.Diff(want, got.contacts); d != "" {
		t.Errorf("contacts differ (-want +got):\n%s", d)
	}
	var reasons []string
	for _, e := range got.refused {
		reasons = append(reasons, fmt.Sprintf("%d %s: %s", e.Line, e.Column, e.what()))
	}
	wantReasons := []string{
		"6 : too few columns (2 of 3)", "7 phone: phone digits lost",
		"8 name: line break, tab or control character", "10 city: value missing",
	}
	if d := cmp.Diff(wantReasons, reasons); d != "" {
		t.Errorf("refusals differ (-want +got):\n%s", d)
	}
}

func TestValues(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, value string
		why         Reason
	}{
		{"plain", "Ana", ""},
		{"four spaces", "a    b", ""},
		{"four and four", "a    b    c", ""},
		{"five spaces", "a     b", ReasonValueSpaces},
		{"line break", "a\nb", ReasonValueControl},
		{"carriage return", "a\rb", ReasonValueControl},
		{"tab", "a\tb", ReasonValueControl},
		{"control character", "a\x01b", ReasonValueControl},
		{"longest", strings.Repeat("é", 1024), ""},
		{"too long", strings.Repeat("é", 1025), ReasonValueLong},
		{"damaged", "Jos\ufffd", ReasonValueDamaged},
		{"empty", "", ReasonValueMissing},
		{"invisible", "\u200b\u200e\u00ad", ReasonValueMissing},
		{"flag that ends invisibly", "🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f", ""},
	} {
		if why, hint := checkValue(trim(c.value)); why != c.why || (why == "") != (hint == "") {
			t.Errorf("%s: checkValue(%.20q) = %q, %q; want %q", c.name, c.value, why, hint, c.why)
		}
	}
}

func TestLimitsAreTheOperators(t *testing.T) {
	t.Parallel()
	text := "phone,name\n+4915112345678,Anastasia\n+4915112345678,Ana\n+4915112345678,Ana,b,c\n+4915112345678,Ana\n"
	for _, c := range []struct {
		opts Options
		want Reason
	}{
		{Options{MaxFieldBytes: 15}, ""},
		{Options{MaxFieldBytes: 14, MaxRowBytes: 20}, ReasonRowTooLong},
		{Options{MaxColumns: 3}, ReasonTooManyColumns},
	} {
		o := readAll(t, text, c.opts)
		if len(o.contacts)+len(o.refused) != 4 {
			t.Errorf("%+v: %d contacts and %d refusals of 4 rows", c.opts, len(o.contacts), len(o.refused))
		}
		if c.want != "" && (len(o.refused) == 0 || o.refused[0].Reason != c.want && o.refused[len(o.refused)-1].Reason != c.want) {
			t.Errorf("%+v: refused %v, want one for %q", c.opts, o.refused, c.want)
		}
	}
}

func TestErrorsTellNoNumber(t *testing.T) {
	t.Parallel()
	text := "phone,name\n+491511234567812345,Ana\n015112345678,Ana\n+4915112345678\n+4915112345678,\n4.915112345E+14,a\n+4915112345678,Jos\xe9é\n"
	o := readAll(t, text, Options{Params: []string{"name"}, Encoding: "utf-8"})
	if len(o.refused) != 6 {
		t.Fatalf("%d refused, want all 6", len(o.refused))
	}
	for _, e := range o.refused {
		if strings.Contains(e.Error(), "1511") || strings.Contains(e.Error(), "4.9") || strings.Contains(e.Error(), "Jos") {
			t.Errorf("the error %q tells what the cell holds", e)
		}
		if e.Hint == "" || len(e.Record) == 0 {
			t.Errorf("line %d: hint %q, record of %d cells", e.Line, e.Hint, len(e.Record))
		}
	}
}

func TestContactsEndsWithTheError(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken pipe")
	for name, c := range map[string]struct {
		src  io.Reader
		want error
	}{
		"source": {io.MultiReader(strings.NewReader("phone\n+4915112345678\n+4915112345679\n+49"+strings.Repeat(" ", headBytes)), iotest.ErrReader(broken)), broken},
		"quote":  {strings.NewReader("phone\n+4915112345678\n+4915112345679\n\"+49"), ErrOpenQuote},
	} {
		o := read(c.src, Options{})
		if len(o.contacts) != 2 || !errors.Is(o.end, c.want) {
			t.Errorf("%s: %d contacts, then %v; want 2, then %v", name, len(o.contacts), o.end, c.want)
		}
	}
}

func TestContactsOnce(t *testing.T) {
	t.Parallel()
	f := open(t, "phone\n+4915112345678\n", Options{})
	if o := drain(f); len(o.contacts) != 1 {
		t.Fatalf("got %+v", o)
	}
	if o := drain(f); !errors.Is(o.end, ErrConsumed) || len(o.contacts) > 0 {
		t.Errorf("second reading: %+v, want %v", o, ErrConsumed)
	}
}

// goleak, at the end of all tests, sees what these two leave behind.
func TestLeaveEarly(t *testing.T) {
	t.Parallel()
	for _, after := range []int{1, 511, 512, 513, 3000} {
		f := open(t, string(people(20_000)), Options{Workers: 3})
		seen := 0
		for range f.Contacts(context.Background()) {
			if seen++; seen == after {
				break
			}
		}
		if f.BytesRead() == 0 {
			t.Error("nothing was read")
		}
	}
}

func TestCancel(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	f, err := Open(io.MultiReader(strings.NewReader("phone\n"), &endlessRows{}), Options{})
	if err != nil {
		t.Fatal(err)
	}
	var last error
	seen := 0
	for _, err := range f.Contacts(ctx) {
		if seen++; seen == 1000 {
			cancel()
		}
		last = err
	}
	if !errors.Is(last, context.Canceled) {
		t.Errorf("the last error is %v, want %v", last, context.Canceled)
	}
	if seen > 1000+batchRows {
		t.Errorf("%d rows came after the cancellation", seen-1000)
	}
}

// endlessRows is a source of rows without end.
type endlessRows struct{ at int }

const endlessRow = "+4915112345678\n"

func (e *endlessRows) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = endlessRow[e.at]
		e.at = (e.at + 1) % len(endlessRow)
	}
	return len(p), nil
}

// However slow the consumer and however many the workers, the reader is never far ahead: so memory is flat.
func TestReadsLittleAhead(t *testing.T) {
	t.Parallel()
	const rows, workers = 100_000, 4
	src := io.LimitReader(&endlessRows{}, rows*int64(len(endlessRow)))
	f, err := Open(io.MultiReader(strings.NewReader("phone\n"), src), Options{Workers: workers})
	if err != nil {
		t.Fatal(err)
	}
	const most = (2*workers + 3) * batchRows * len(endlessRow) // in both channels, in the reader's hands, in ours
	line := 1
	for c, err := range f.Contacts(context.Background()) {
		if line++; err != nil || c.Line != line {
			t.Fatalf("row on line %d, want %d (%v)", c.Line, line, err)
		}
		if ahead := int(f.BytesRead()) - line*len(endlessRow); ahead > most+headBytes {
			t.Fatalf("line %d: %d bytes ahead, want at most %d", line, ahead, most+headBytes)
		}
	}
	if line != rows+1 {
		t.Errorf("%d rows, want %d", line-1, rows)
	}
}

// rows read = contacts + row errors, for whatever mixture, and whatever way the source cuts it.
func TestConservation(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		good := rapid.SampledFrom([]string{"+4915112345678,Ana", "0151 12345678,\"A, \"\"b\"\"\"", "'+4915112345678, Zoë "})
		bad := rapid.SampledFrom([]string{
			"+49151,Ana", "+4915112345678", "+4915112345678,a,b", "+4915112345678,", "+4915112345678,\"a\nb\"",
			"+4915112345678,a\x00", "+4915112345678,a\xff", "\"+49\"1,a", "4.9E+12,a", "+4915112345678," + strings.Repeat("x", 300), "\x01",
		})
		blank := rapid.SampledFrom([]string{"", " ", ",", "\"\"", "\u00a0,\t"})
		text := strings.Builder{}
		text.WriteString("phone,name\n+4915112345678,Ana\n")
		wantGood, wantBad := 1, 0
		for range rapid.IntRange(0, 700).Draw(t, "rows") {
			switch rapid.IntRange(0, 5).Draw(t, "kind") {
			case 0:
				text.WriteString(blank.Draw(t, "blank"))
			case 1:
				text.WriteString(bad.Draw(t, "bad"))
				wantBad++
			default:
				text.WriteString(good.Draw(t, "good"))
				wantGood++
			}
			text.WriteString(rapid.SampledFrom([]string{"\n", "\r\n"}).Draw(t, "end"))
		}
		opts := Options{DefaultCountry: "DE", Params: []string{"name"}, MaxFieldBytes: 200, Encoding: "utf-8", Workers: rapid.IntRange(1, 4).Draw(t, "workers")}
		o := read(strings.NewReader(text.String()), opts)
		if len(o.contacts) != wantGood || len(o.refused) != wantBad || o.end != nil {
			t.Fatalf("%d contacts, %d refused, end %v; want %d and %d", len(o.contacts), len(o.refused), o.end, wantGood, wantBad)
		}
		cut := read(iotest.OneByteReader(strings.NewReader(text.String())), opts)
		if d := cmp.Diff(o, cut, cmp.AllowUnexported(outcome{})); d != "" {
			t.Fatalf("cut into bytes it differs:\n%s", d)
		}
	})
}

// Countries that share a calling code are told apart, however the number is
// written, and what is refused for its country is no contact.
func TestUnservedAndOwnNumbers(t *testing.T) {
	t.Parallel()
	text := "phone\n+16045551234\n+14155552671\n001 (415) 555-2671\n+18765123456\n(415) 555-2671\n+4915112345678\n"
	got := readAll(t, text, Options{DefaultCountry: "US", Unserved: []string{"US"}, Own: []string{"+4915112345678"}})
	if got.end != nil {
		t.Fatal(got.end)
	}
	var phones, reasons []string
	for _, c := range got.contacts {
		phones = append(phones, c.Phone)
	}
	for _, e := range got.refused {
		reasons = append(reasons, fmt.Sprintf("%d %s", e.Line, e.Reason))
		if e.Hint == "" || e.Column != "phone" {
			t.Errorf("line %d: column %q, hint %q", e.Line, e.Column, e.Hint)
		}
	}
	if d := cmp.Diff([]string{"+16045551234", "+18765123456"}, phones); d != "" {
		t.Errorf("contacts (-want +got):\n%s", d)
	}
	want := []string{"3 " + string(ReasonUnserved), "4 " + string(ReasonUnserved), "6 " + string(ReasonUnserved), "7 " + string(ReasonOwnNumber)}
	if d := cmp.Diff(want, reasons); d != "" {
		t.Errorf("refusals (-want +got):\n%s", d)
	}
}

package audience

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestSafeCell(t *testing.T) {
	t.Parallel()
	for cell, want := range map[string]string{
		"": "", "Ana": "Ana", "'": "'", "it's": "it's", "'Ana'": "'Ana'", "5": "5", "123": "123", "a=b": "a=b",
		"=1+1": "'=1+1", "+4915112345678": "'+4915112345678", "-5": "'-5", "@SUM(A1)": "'@SUM(A1)",
		"\t=1": "'\t=1", "\r=1": "'\r=1", "\n=1": "'\n=1", " =1": "' =1", "\u00a0=1": "'\u00a0=1", "\u200b=1": "'\u200b=1",
		"＝1": "'＝1", "＋49": "'＋49", "－5": "'－5", "＠A": "'＠A",
		"015112345678": "'015112345678", "4915112345678": "'4915112345678",
		"'=1": "''=1", "''+49": "'''+49",
	} {
		if got := SafeCell(cell); got != want {
			t.Errorf("SafeCell(%q) = %q, want %q", cell, got, want)
		}
		if got := RestoreCell(want); got != cell {
			t.Errorf("RestoreCell(%q) = %q, want %q", want, got, cell)
		}
	}
}

// formula is what a spreadsheet may take for one: such a sign behind spaces, or a control character in front.
var formula = regexp.MustCompile("^([\t\r\n]|[ \u00a0\u200b]*[=+@-])")

func TestRestoreCellUndoesSafeCell(t *testing.T) {
	t.Parallel()
	cells := rapid.OneOf(rapid.String(), rapid.StringOf(rapid.SampledFrom([]rune("''''=+-@\t\r\n 0＝＋a1"))))
	rapid.Check(t, func(t *rapid.T) {
		cell := cells.Draw(t, "cell")
		safe := SafeCell(cell)
		if got := RestoreCell(safe); got != cell {
			t.Fatalf("%q became %q, then %q", cell, safe, got)
		}
		if formula.MatchString(safe) {
			t.Fatalf("%q is a formula", safe)
		}
	})
}

// reject reads a text and writes its rejects, and returns what is in them.
func reject(t *testing.T, text string, opts Options) (string, outcome) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "people.rejected.csv")
	f := open(t, text, opts)
	r := NewRejects(path, f)
	o := drain(f)
	for _, e := range o.refused {
		if err := r.Add(e); err != nil {
			t.Fatal(err)
		}
	}
	if r.Rows() != len(o.refused) || r.Path() != path {
		t.Errorf("%d rows at %s, want %d", r.Rows(), r.Path(), len(o.refused))
	}
	if err := r.Commit(); err != nil {
		t.Fatal(err)
	}
	written, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(written), o
}

func TestRejectsFile(t *testing.T) {
	t.Parallel()
	text := "phone;name\r\n015112345678;=cmd()\r\n+4915112345678\r\n+4915112345678;Ana\r\n+49151;a;b\r\n"
	got, _ := reject(t, text, Options{})
	want := "\ufeffphone;name;line;reason;hint\n" +
		"'015112345678;'=cmd();2;no country code: phone;put + and the country code in front, or name the country of such numbers with --default-country\n" +
		"'+4915112345678;;3;too few columns (1 of 2);\"" + shapeHints[ReasonTooFewColumns] + "\"\n" +
		"'+49151;\"a;b\";5;too many columns (3 instead of 2);\"" + shapeHints[ReasonTooManyColumns] + "\"\n"
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("file differs (-want +got):\n%s", d)
	}
}

const manyFaults = "phone,name,note\n" +
	"+4915112345678,Ana,x\n+4915112345678,-Ana-\n+4915112345678,'=1,\n015112345678,'Ana',n\n4.479E+11,Bob,=1\n" +
	"+4915112345678,a,b,c\n\"+491\"5,a,b\n+4915112345678,a\x00,b\n+4915112345678,a\xff,é\n,a,b\n+4915112345678,a     b,c\n"

// What was not mended is refused again, for the same reason, round after round.
func TestRejectsStayRejected(t *testing.T) {
	t.Parallel()
	opts := Options{Params: []string{"name", "note"}, Encoding: "utf-8"}
	written, first := reject(t, manyFaults, opts)
	again, second := reject(t, written, opts)
	if len(first.refused) != 10 || len(second.contacts) > 0 {
		t.Fatalf("%d refused first, %d accepted then: want 10 and 0", len(first.refused), len(second.contacts))
	}
	for i, e := range first.refused {
		if got := second.refused[i]; got.Reason != e.Reason || got.Column != e.Column {
			t.Errorf("line %d was %q (%s), now %q (%s)", e.Line, e.Reason, e.Column, got.Reason, got.Column)
		}
	}
	third, _ := reject(t, again, opts)
	if d := cmp.Diff(again, third); d != "" {
		t.Errorf("the rejects of rejects change (-second +third):\n%s", d)
	}
}

// What was mended comes through, and with it every cell as it was in the first file.
func TestRejectsFixAndReimport(t *testing.T) {
	t.Parallel()
	text := "phone,name,note\n+4915112345678,'=1,\n+4915112345679,-Ana-,\n+4915112345670,'Ana',\n0151,+1,\n+4915112345671,Bob\n"
	opts := Options{Params: []string{"name", "note"}}
	written, _ := reject(t, text, opts)
	fixed := strings.ReplaceAll(strings.ReplaceAll(written, ",,", ",fixed,"), "'0151,", "'+4915112345672,")
	fixed = strings.Replace(fixed, "too few columns (2 of 3)", "", 1)
	o := readAll(t, fixed, opts)
	want := []Contact{
		{Line: 2, Phone: "+4915112345678", Values: []string{"'=1", "fixed"}},
		{Line: 3, Phone: "+4915112345679", Values: []string{"-Ana-", "fixed"}},
		{Line: 4, Phone: "+4915112345670", Values: []string{"'Ana'", "fixed"}},
		{Line: 5, Phone: "+4915112345672", Values: []string{"+1", "fixed"}},
		{Line: 6, Phone: "+4915112345671", Values: []string{"Bob", "fixed"}},
	}
	if d := cmp.Diff(want, o.contacts); d != "" || len(o.refused) > 0 {
		t.Errorf("contacts differ (-want +got), %d refused:\n%s", len(o.refused), d)
	}
}

func TestRejectsOfAFileWithSuchColumns(t *testing.T) {
	t.Parallel()
	text := "phone,line,reason,hint\n+49151,7,too few columns,h\n+4915112345678,7,too few columns,h\n"
	opts := Options{Params: []string{"reason"}}
	written, o := reject(t, text, opts)
	if len(o.contacts) != 1 {
		t.Errorf("%d contacts, want 1: a column that is asked for is the operator's", len(o.contacts))
	}
	if head, _, _ := strings.Cut(written, "\n"); head != "\ufeffphone,line,reason,hint,rejected line,rejected reason,rejected hint" {
		t.Errorf("header %q", head)
	}
	again := open(t, strings.Replace(written, "'+49151", "'+4915112345678", 1), opts)
	if d := cmp.Diff([]string{"phone", "line", "reason", "hint"}, again.Columns()); d != "" {
		t.Errorf("columns differ (-want +got):\n%s", d)
	}
	if o := drain(again); len(o.contacts) != 1 {
		t.Errorf("got %+v, want the mended contact", o)
	}
}

// names lists a directory.
func names(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestRejectsAppearWholeOrNotAtAll(t *testing.T) {
	t.Parallel()
	dir, refusal := t.TempDir(), &RowError{Line: 2, Reason: ReasonPhoneShort, Record: []string{"1"}}
	path := filepath.Join(dir, "people.rejected.csv")
	r := NewRejects(path, open(t, "phone\n1\n", Options{}))
	if err := r.Commit(); err != nil || len(names(t, dir)) > 0 {
		t.Errorf("without a row: %v, left %v", err, names(t, dir))
	}
	if err := r.Add(refusal); err != nil {
		t.Fatal(err)
	}
	if left := names(t, dir); slices.Contains(left, filepath.Base(path)) || len(left) != 1 {
		t.Errorf("before Commit: %v", left)
	}
	if err := r.Close(); err != nil || len(names(t, dir)) > 0 {
		t.Errorf("closed without Commit: %v, left %v", err, names(t, dir))
	}
	if err := r.Add(refusal); err != nil {
		t.Fatal(err)
	}
	if err := r.Commit(); err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil || !slices.Equal(names(t, dir), []string{filepath.Base(path)}) {
		t.Errorf("committed: %v, left %v", err, names(t, dir))
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v; want 0600: the file holds people's data", info.Mode(), err)
	}
}

func TestRejectsWithoutADirectory(t *testing.T) {
	t.Parallel()
	r := NewRejects(filepath.Join(t.TempDir(), "no", "such.csv"), open(t, "phone\n1\n", Options{}))
	if err := r.Add(&RowError{Line: 2}); err == nil || !strings.Contains(err.Error(), "create rejects") {
		t.Errorf("Add = %v, want an error", err)
	}
	if err := r.Close(); err != nil {
		t.Errorf("Close = %v", err)
	}
}

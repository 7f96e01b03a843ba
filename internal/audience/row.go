package audience

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Contact is one person to write to.
type Contact struct {
	// Line is the line of the file on which the row begins, from 1.
	Line int
	// Phone is the number in E.164 with its +.
	Phone string
	// Values are the cells of the columns that [Options.Params] named, in that order, trimmed.
	Values []string
	// Zones are the time zones that the person may be in, by their IANA names, with commas between them; empty
	// unless [Options.Zones] asks for them.
	Zones string
	// Defaulted says that the number had neither + nor 00, so that [Options.DefaultCountry] decided how to read it.
	Defaulted bool
}

// Reason says in a few words why a row was refused. The set is closed: reasons can be counted and labelled.
type Reason string

// The reasons. Those of the first group concern the row's shape: its cells cannot be trusted.
const (
	ReasonTooFewColumns  Reason = "too few columns"
	ReasonTooManyColumns Reason = "too many columns"
	ReasonRowTooLong     Reason = "row too long"
	ReasonFieldTooLong   Reason = "field too long"
	ReasonStrayQuote     Reason = "stray quote"
	ReasonNUL            Reason = "NUL byte"
	ReasonEncoding       Reason = "not UTF-8"

	ReasonPhoneMissing   Reason = "phone missing"
	ReasonPhoneText      Reason = "not a phone number"
	ReasonDigitsLost     Reason = "phone digits lost"
	ReasonNoCountry      Reason = "no country code"
	ReasonUnknownCountry Reason = "unknown country code"
	ReasonAmbiguous      Reason = "two readings"
	ReasonPhoneShort     Reason = "phone too short"
	ReasonPhoneLong      Reason = "phone too long"
	ReasonPhoneInvalid   Reason = "no such phone number"
	ReasonUnserved       Reason = "nothing is delivered there"
	ReasonOwnNumber      Reason = "the sender's own number"

	ReasonNoZone    Reason = "no time zone known"
	ReasonZone      Reason = "not a time zone"
	ReasonNeverOpen Reason = "never within the window"

	ReasonValueMissing Reason = "value missing"
	ReasonValueControl Reason = "line break, tab or control character"
	ReasonValueSpaces  Reason = "more than four spaces in a row"
	ReasonValueLong    Reason = "value too long"
	ReasonValueDamaged Reason = "damaged character"
)

// RowError is a row that was refused. Reading goes on behind it. It is made for the operator: Reason and Detail
// say what is wrong, Hint says what to do.
type RowError struct {
	Line   int    // the line of the file on which the row begins, from 1
	Column string // the column's name; empty when the row as a whole is at fault
	Reason Reason
	Detail string // more of the same, as "3 of 6"; may be empty; never the content of a cell
	Hint   string
	// Record holds the row's cells as they were read, as far as they were read. It holds people's data.
	Record []string
}

// Error names the line, the column, the reason and the hint, and never the content of a cell.
func (e *RowError) Error() string {
	where := fmt.Sprintf("line %d", e.Line)
	if e.Column != "" {
		where += fmt.Sprintf(", column %q", e.Column)
	}
	return fmt.Sprintf("%s: %s: %s", where, e.what(), e.Hint)
}

func (e *RowError) what() string {
	if e.Detail == "" {
		return string(e.Reason)
	}
	return fmt.Sprintf("%s (%s)", e.Reason, e.Detail)
}

// row is a record on its way to a worker.
type row struct {
	line  int
	cells []string
	fault Reason
}

// cells copies the record's fields out of the splitter: one allocation for their text, one for the slice.
func (r *record) cells() []string {
	n := 0
	if len(r.ends) > 0 {
		n = r.ends[len(r.ends)-1]
	}
	text, cells, start := string(r.text[:n]), make([]string, len(r.ends)), 0
	for i, end := range r.ends {
		cells[i] = text[start:end]
		start = end
	}
	return cells
}

func blank(cells []string) bool {
	for _, cell := range cells {
		if trim(cell) != "" {
			return false
		}
	}
	return true
}

// trim removes the spaces around a text: Unicode's, and those of no width that travel with copied text. Other
// invisible characters stay: an emoji flag ends in one, and right-to-left text may.
func trim(s string) string {
	if s != "" && isGraphicASCII(s[0]) && isGraphicASCII(s[len(s)-1]) {
		return s
	}
	return strings.TrimFunc(s, func(r rune) bool {
		return unicode.IsSpace(r) || r == '\u200b' || r == '\u2060' || r == '\ufeff'
	})
}

func isGraphicASCII(c byte) bool { return c > ' ' && c < 0x7f }

// maxValueRunes is the longest body text of a template (Meta, "Templates: components", body).
const maxValueRunes = 1024

// checkValue says why Meta would refuse a template parameter of this text: "Param text cannot have new-line/tab
// characters or more than 4 consecutive spaces" (Meta, error 132018 and its kin), and a body ends at 1024
// characters.
func checkValue(v string) (Reason, string) {
	spaces := 0
	for _, r := range v {
		switch {
		case r == utf8.RuneError:
			return ReasonValueDamaged, "the text was damaged before it came here: take it from its source again"
		case unicode.IsControl(r):
			return ReasonValueControl, "Meta refuses these in a template parameter: put a space instead"
		case r == ' ':
			if spaces++; spaces > 4 {
				return ReasonValueSpaces, "Meta refuses these in a template parameter: leave one"
			}
			continue
		}
		spaces = 0
	}
	if len(v) > maxValueRunes && utf8.RuneCountInString(v) > maxValueRunes {
		return ReasonValueLong, fmt.Sprintf("Meta allows %d characters in a message's body: shorten it", maxValueRunes)
	}
	if !hasGraphic(v) {
		return ReasonValueMissing, "every contact needs this value: Meta refuses an empty template parameter"
	}
	return "", ""
}

// hasGraphic reports whether a text shows anything.
func hasGraphic(v string) bool {
	return strings.ContainsFunc(v, func(r rune) bool { return !unicode.IsSpace(r) && !unicode.Is(unicode.Cf, r) })
}

package audience

import (
	"strings"
	"unicode"
)

// SafeCell makes a cell's text safe to open in a spreadsheet: it puts an apostrophe before a text that would be
// taken for a formula (OWASP, "CSV Injection": it begins with = + - @, their full-width forms, TAB, CR or LF, after
// any spaces) and before digits that would lose some (a leading zero, or more than 11 digits, which become 4.47E+11).
// [RestoreCell] undoes it exactly, whatever the text.
func SafeCell(s string) string {
	if unsafe(s) {
		return "'" + s
	}
	return s
}

// RestoreCell takes back the apostrophe that [SafeCell] added, and no other.
func RestoreCell(s string) string {
	if strings.HasPrefix(s, "'") && unsafe(s) {
		return s[1:]
	}
	return s
}

// unsafe holds for a dangerous text and for one behind apostrophes: so an apostrophe that was there before is
// guarded by one of ours, and restoring cannot take the wrong one.
func unsafe(s string) bool {
	s = strings.TrimLeft(s, "'")
	if s == "" {
		return false
	}
	if strings.ContainsAny(s[:1], "\t\r\n") || losesDigits(s) {
		return true
	}
	s = strings.TrimLeftFunc(s, func(r rune) bool { return unicode.IsSpace(r) || unicode.Is(unicode.Cf, r) })
	return s != "" && strings.ContainsRune("=+-@＝＋－＠", []rune(s)[0])
}

// losesDigits reports text that a spreadsheet takes for a number and does not give back as it was.
func losesDigits(s string) bool {
	const shown = 11 // digits that Excel shows of a number in the format "General"
	if len(s) < 2 || len(s) <= shown && s[0] != '0' {
		return false
	}
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return true
}

func restoreAll(cells []string) []string {
	out := make([]string, len(cells))
	for i, cell := range cells {
		out[i] = RestoreCell(cell)
	}
	return out
}

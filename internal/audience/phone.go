package audience

import (
	"strings"
	"unicode"

	"golang.org/x/text/width"
)

// dialled is a phone number as a cell gives it, without the dress: digits only.
type dialled struct {
	digits string
	intl   bool // it began with + or 00: the digits begin with a country code
	zeros  bool // it began with 00, which a few countries use for something else
}

// undress finds the digits of a cell, or says why there are none to trust.
func undress(cell string) (d dialled, why Reason, hint string) {
	if d, ok := bare(cell); ok {
		return d, "", ""
	}
	s := unwrap(cell)
	if s == "" {
		return dialled{}, ReasonPhoneMissing, "every contact needs a phone number"
	}
	s, ok := spreadsheet(s)
	if !ok {
		return dialled{}, ReasonDigitsLost,
			"a spreadsheet has rounded the number: format the column as text, enter the numbers again and export it again"
	}
	if d, ok = digitsOf(s); !ok {
		return dialled{}, ReasonPhoneText, "write one number: digits, with + and the country code in front"
	}
	return d, "", ""
}

// bare takes the cells that need no undressing: nearly all.
func bare(cell string) (dialled, bool) {
	digits, plus := strings.CutPrefix(cell, "+")
	if !allDigits(digits) || digits[0] == '0' && (plus || strings.HasPrefix(digits, "00")) {
		return dialled{}, false
	}
	return dialled{digits: digits, intl: plus}, true
}

func allDigits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}

// unwrap removes invisible characters and what programs put around a number: ="…" and the apostrophe of
// spreadsheets, the schemes of links. Full-width characters become plain ones.
func unwrap(cell string) string {
	s := strings.Map(func(r rune) rune {
		switch {
		case unicode.Is(unicode.Cf, r):
			return -1
		case unicode.IsSpace(r):
			return ' '
		}
		return plainDigit(r)
	}, width.Fold.String(cell))
	s = strings.TrimLeft(strings.TrimSpace(s), "'")
	if inner, ok := strings.CutPrefix(s, `="`); ok {
		s = strings.TrimSuffix(inner, `"`)
	}
	for _, scheme := range []string{"tel:", "whatsapp:"} {
		if len(s) >= len(scheme) && strings.EqualFold(s[:len(scheme)], scheme) {
			s = s[len(scheme):]
		}
	}
	return strings.TrimSpace(s)
}

// plainDigit maps the digits of scripts that phone numbers are written in.
func plainDigit(r rune) rune {
	for _, zero := range [...]rune{'٠', '۰', '०', '০'} {
		if r >= zero && r <= zero+9 {
			return '0' + r - zero
		}
	}
	return r
}

// spreadsheet undoes the formats in which spreadsheets and data frames print a number that they took for an
// amount: 4.915112345678E+12 and 491511234567.0. It returns false when digits are gone: in 4.479E+11 eight are.
func spreadsheet(s string) (string, bool) {
	sign := s[:len(s)-len(strings.TrimPrefix(s, "+"))]
	mantissa, power, scientific := strings.Cut(strings.ToUpper(s[len(sign):]), "E")
	whole, fraction, _ := strings.Cut(strings.ReplaceAll(mantissa, ",", "."), ".")
	if !scientific {
		const least = 7 // digits: below it the point may as well be a separator, as in 0151.000
		if len(whole) >= least && allDigits(whole) && allDigits(fraction) && strings.Trim(fraction, "0") == "" {
			return sign + whole, true
		}
		return s, true
	}
	power = strings.TrimPrefix(power, "+")
	if !allDigits(whole) || !allDigits(power) || fraction != "" && !allDigits(fraction) {
		return s, true // not a number at all: others will say so
	}
	exponent := 0
	if power = strings.TrimLeft(power, "0"); len(power) > 2 {
		return "", false
	}
	for _, c := range []byte(power) {
		exponent = exponent*10 + int(c-'0')
	}
	if len(fraction) < exponent || strings.Trim(fraction[exponent:], "0") != "" {
		return "", false
	}
	return sign + whole + fraction[:exponent], true
}

// digitsOf drops the separators that people write. Letters, a second number, an extension are not guessed at.
func digitsOf(s string) (dialled, bool) {
	var d dialled
	digits := make([]byte, 0, len(s))
	for _, r := range s {
		switch {
		case r >= '0' && r <= '9':
			digits = append(digits, byte(r))
		case r == '+' && len(digits) == 0 && !d.intl:
			d.intl = true
		case r == ' ' || r == '(' || r == '[':
		case len(digits) > 0 && (strings.ContainsRune(".)]/\u2212", r) || unicode.Is(unicode.Pd, r)):
		default:
			return dialled{}, false
		}
	}
	d.digits = string(digits)
	if rest, ok := strings.CutPrefix(d.digits, "00"); ok { // behind a + too: no country code begins with 0
		d.digits, d.zeros, d.intl = rest, !d.intl, true
	}
	return d, d.digits != ""
}

// looksLikePhone recognises data where a column's name should be.
func looksLikePhone(cell string) bool {
	d, why, _ := undress(cell)
	return why == "" && len(d.digits) >= 7 || why == ReasonDigitsLost
}

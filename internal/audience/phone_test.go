package audience

import (
	"strings"
	"testing"
)

func mustNumbers(t testing.TB, country string) *numbers {
	t.Helper()
	n, err := newNumbers(country)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

var readable = []struct{ name, cell, country, want string }{
	{"plain", "+4915112345678", "", "+4915112345678"},
	{"separators", " +49 (151) 123-456.78 ", "", "+4915112345678"},
	{"slash", "0151/12345678", "DE", "+4915112345678"},
	{"plus in brackets", "(+49) 151 12345678", "", "+4915112345678"},
	{"trunk zero in brackets", "+49 (0) 151 12345678", "", "+4915112345678"},
	{"00", "004915112345678", "", "+4915112345678"},
	{"+00", "+004915112345678", "", "+4915112345678"},
	{"00 beats the default country", "004915112345678", "BR", "+4915112345678"},
	{"00 with a Brazilian carrier", "0015 49 151 12345678", "BR", "+4915112345678"},
	{"011 from the US", "011 49 151 12345678", "US", "+4915112345678"},
	{"tel", "tel:+49-151-12345678", "", "+4915112345678"},
	{"whatsapp", "WhatsApp:+4915112345678", "", "+4915112345678"},
	{"no-break and zero-width spaces", "\u00a0+49\u202f151\u200b12345678\u2060", "", "+4915112345678"},
	{"direction marks", "\u202a+49 151 12345678\u202c\u200e", "", "+4915112345678"},
	{"soft hyphen", "+49151\u00ad12345678", "", "+4915112345678"},
	{"dashes and minus", "+49–151—1234−5678", "", "+4915112345678"},
	{"full width", "＋４９１５１１２３４５６７８", "", "+4915112345678"},
	{"Arabic digits", "+٩٦٦٥٠١٢٣٤٥٦٧", "", "+966501234567"},
	{"apostrophe", "'+4915112345678", "", "+4915112345678"},
	{"text formula", `="+4915112345678"`, "", "+4915112345678"},
	{"exact scientific", "4.915112345678E+12", "DE", "+4915112345678"},
	{"exact scientific, comma", "4,915112345678e12", "DE", "+4915112345678"},
	{"exact scientific, plus", "+4.915112345678E+12", "", "+4915112345678"},
	{"exact scientific, zeros behind", "4.91511234567800E+12", "DE", "+4915112345678"},
	{"float", "4915112345678.0", "DE", "+4915112345678"},
	{"float, comma", "+4915112345678,00", "", "+4915112345678"},
	{"national", "0151 12345678", "DE", "+4915112345678"},
	{"national without trunk zero", "15112345678", "DE", "+4915112345678"},
	{"forgotten plus", "4915112345678", "DE", "+4915112345678"},
	{"forgotten plus, Brazil", "5511961234567", "BR", "+5511961234567"},
	{"forgotten plus, not a landline 04915 112345678", "4915112345678", "DE", "+4915112345678"},
	{"that landline with its trunk zero", "04915112345678", "DE", "+494915112345678"},
	{"Italian mobile that begins with 39", "3931234567", "IT", "+393931234567"},
	{"lower-case country", "11961234567", "br", "+5511961234567"},
	{"Italian zero stays", "+390612345678", "", "+390612345678"},
	{"region of a shared code", "+12644612345", "", "+12644612345"},
	{"Argentine mobile dialled at home", "011 15 2345-6789", "AR", "+5491123456789"},
}

func TestReadNumber(t *testing.T) {
	t.Parallel()
	for _, c := range readable {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, why, hint := mustNumbers(t, c.country).read(c.cell)
			if got.e164 != c.want {
				t.Errorf("read(%q) with %q = %q, refused: %q (%s); want %q", c.cell, c.country, got.e164, why, hint, c.want)
			}
		})
	}
}

var unreadable = []struct {
	name, cell, country string
	why                 Reason
	hint                string // a part of it
}{
	{"empty", "", "DE", ReasonPhoneMissing, "needs a phone"},
	{"invisible", " \u200b\u00a0", "DE", ReasonPhoneMissing, "needs a phone"},
	{"apostrophe alone", "'", "DE", ReasonPhoneMissing, "needs a phone"},
	{"word", "n/a", "DE", ReasonPhoneText, "digits"},
	{"masked", "+49151****5678", "DE", ReasonPhoneText, "digits"},
	{"vanity", "1-800-FLOWERS", "US", ReasonPhoneText, "digits"},
	{"extension", "+4930123456 ext 5", "DE", ReasonPhoneText, "digits"},
	{"two numbers", "+4915112345678, +4915112345679", "", ReasonPhoneText, "one number"},
	{"two numbers and a slash", "+4915112345678/+4915112345679", "", ReasonPhoneText, "one number"},
	{"negative", "-4915112345678", "DE", ReasonPhoneText, "digits"},
	{"digits lost", "4.479E+11", "GB", ReasonDigitsLost, "text"},
	{"digits lost, with plus", "+4.479E+11", "", ReasonDigitsLost, "text"},
	{"digits lost, comma", "4,47912E+11", "GB", ReasonDigitsLost, "text"},
	{"digits lost, no point", "4E11", "GB", ReasonDigitsLost, "text"},
	{"not whole", "4.915112345678123E+12", "DE", ReasonDigitsLost, "text"},
	{"huge exponent", "4E99999999999999999999", "DE", ReasonDigitsLost, "text"},
	{"no country", "015112345678", "", ReasonNoCountry, "--default-country"},
	{"no such code", "+999123456789", "", ReasonUnknownCountry, "country code"},
	{"short", "+5511961", "", ReasonPhoneShort, "check the digits"},
	{"very short", "+49", "", ReasonPhoneShort, "check the digits"},
	{"short at home", "06123", "FR", ReasonPhoneShort, "read as a number of FR"},
	{"local only", "5550123", "US", ReasonPhoneShort, "US"},
	{"long", "+491511234567890123", "", ReasonPhoneLong, "check the digits"},
	{"very long", "+" + strings.Repeat("49", 60), "", ReasonPhoneLong, "check the digits"},
	{"endless", strings.Repeat("4", 1000), "DE", ReasonPhoneLong, "DE"},
	{"landline either way", "62218350123", "ID", ReasonAmbiguous, "write it with +"},
	{"possible, not handed out", "+12223334444", "", ReasonPhoneInvalid, "check the digits"},
	{"country code missing behind plus", "+11961234567", "BR", ReasonPhoneInvalid, "With +55 it is a number of BR"},
	{"other country without plus", "447400123456", "BR", ReasonPhoneLong, "put + in front"},
}

func TestRefuseNumber(t *testing.T) {
	t.Parallel()
	for _, c := range unreadable {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, why, hint := mustNumbers(t, c.country).read(c.cell)
			if got.e164 != "" || why != c.why || !strings.Contains(hint, c.hint) {
				t.Errorf("read(%q) = %q, %q, %q; want %q and a hint with %q", c.cell, got.e164, why, hint, c.why, c.hint)
			}
			if digits := strings.TrimLeft(c.cell, "+0'"); len(digits) > 6 && strings.Contains(hint, digits) {
				t.Errorf("the hint %q tells the number", hint)
			}
		})
	}
}

func TestDefaultedIsCounted(t *testing.T) {
	t.Parallel()
	for cell, want := range map[string]bool{
		"+4915112345678": false, "004915112345678": false, "015112345678": true, "4915112345678": true,
		"0015 49 151 12345678": true,
	} {
		country := "DE"
		if strings.HasPrefix(cell, "0015") {
			country = "BR"
		}
		if got, why, _ := mustNumbers(t, country).read(cell); why != "" || got.defaulted != want {
			t.Errorf("read(%q): defaulted %v, refused %q; want %v", cell, got.defaulted, why, want)
		}
	}
}

func TestUnknownDefaultCountry(t *testing.T) {
	t.Parallel()
	for _, country := range []string{"UK", "XX", "Germany", "49"} {
		if _, err := newNumbers(country); err == nil || !strings.Contains(err.Error(), "ISO 3166") {
			t.Errorf("newNumbers(%q) = %v, want an error that says what to write", country, err)
		}
	}
}

package audience

import (
	"strings"
	"testing"

	"github.com/nyaruka/phonenumbers"
)

func TestParsePhone(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ text, country, want string }{
		{"+49 151 1234 5678", "", "+4915112345678"},
		{"0151 12345678", "DE", "+4915112345678"},
	} {
		if got, err := ParsePhone(tc.text, tc.country); err != nil || got != tc.want {
			t.Errorf("ParsePhone(%q, %q) = %q, %v; want %q", tc.text, tc.country, got, err, tc.want)
		}
	}
	for _, tc := range []struct{ text, country string }{{"0151 12345678", ""}, {"+49 151", ""}, {"", "DE"}, {"+4915112345678", "ZZ"}} {
		got, err := ParsePhone(tc.text, tc.country)
		if err == nil {
			t.Errorf("ParsePhone(%q, %q) = %q, want an error", tc.text, tc.country, got)
		} else if len(tc.text) > 6 && strings.Contains(err.Error(), tc.text) {
			t.Errorf("the error repeats the number: %v", err)
		}
	}
}

func TestCountries(t *testing.T) {
	t.Parallel()
	c, err := NewCountries()
	if err != nil {
		t.Fatal(err)
	}
	for phone, want := range map[string]string{
		"+4915112345678": "DE", "+5511987654321": "BR", "+14155550123": "US", "+16135550123": "CA", "+18765550123": "JM",
		"+77011234567": "KZ", "+79161234567": "RU", "+80012345678": "", "+49": "", "": "",
	} {
		if got := c.Of(phone); got != want {
			t.Errorf("the country of %s is %q, want %q", phone, got, want)
		}
	}
	for region := range phonenumbers.GetSupportedRegions() {
		example := phonenumbers.GetExampleNumberForType(region, phonenumbers.MOBILE)
		if example == nil {
			continue
		}
		phone := phonenumbers.Format(example, phonenumbers.E164)
		if got, want := c.Of(phone), phonenumbers.GetRegionCodeForNumber(example); got != want {
			t.Errorf("the country of %s is %q, and %q to the library", phone, got, want)
		}
	}
}

func BenchmarkCountries(b *testing.B) {
	c, err := NewCountries()
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		c.Of("+5511987654321")
	}
}

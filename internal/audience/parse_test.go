package audience

import (
	"strings"
	"testing"
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

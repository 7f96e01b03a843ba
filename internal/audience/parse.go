package audience

import (
	"fmt"
	"strings"

	"github.com/nyaruka/phonenumbers"
)

// ParsePhone reads one phone number as a cell of a file would be read, and
// returns it in E.164 with +. country is as in Options.DefaultCountry. The
// error says why and what to do, and does not repeat the number.
func ParsePhone(text, country string) (string, error) {
	n, err := newNumbers(country)
	if err != nil {
		return "", err
	}
	got, why, hint := n.read(text)
	if why != "" {
		return "", fmt.Errorf("%s: %s", why, hint)
	}
	return got.e164, nil
}

// Countries tells the country of phone numbers. It is safe for concurrent use.
type Countries struct{ numbers *numbers }

// NewCountries fails only when the numbering plans cannot be read.
func NewCountries() (*Countries, error) {
	n, err := newNumbers("")
	if err != nil {
		return nil, err
	}
	return &Countries{n}, nil
}

// Of returns the ISO 3166 alpha-2 code of the country of a phone number in
// E.164, or "" for one that belongs to none. Of countries that share a calling
// code, the one whose plan the number fits.
func (c *Countries) Of(phone string) string {
	n, ok := c.numbers.international(strings.TrimPrefix(phone, "+"))
	if !ok || n.region == phonenumbers.REGION_CODE_FOR_NON_GEO_ENTITY {
		return ""
	}
	return n.region
}

// Known reports whether there is a country of this ISO 3166 alpha-2 code, in
// capitals, with a numbering plan.
func (c *Countries) Known(code string) bool { return c.numbers.plans.byRegion[code] != nil }

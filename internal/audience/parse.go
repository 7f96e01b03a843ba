package audience

import "fmt"

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

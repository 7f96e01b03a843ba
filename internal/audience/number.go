package audience

import (
	"fmt"
	"strings"

	"github.com/nyaruka/phonenumbers"
)

// numbers reads phone numbers. It is safe for concurrent use.
type numbers struct {
	region string // the default country, "" for none
	plans  *plans
}

func newNumbers(country string) (*numbers, error) {
	region := strings.ToUpper(trim(country))
	if region != "" && !phonenumbers.GetSupportedRegions()[region] {
		return nil, fmt.Errorf("unknown default country %q: use a two-letter code of ISO 3166, such as BR, DE or GB", country)
	}
	plans, err := newPlans()
	if err != nil {
		return nil, err
	}
	return &numbers{region: region, plans: plans}, nil
}

// read understands one cell, or says why not.
//
// Only a valid number passes: one that a country's numbering plan has handed out. A merely possible number (of
// the right length) is refused, for it is most often a national number whose first digits happen to be another
// country's code, or a slip of the finger; either reaches a stranger, or nobody, and costs the sender's quality
// rating. A number that the library's plan does not know yet shows in the rejects with that reason.
func (n *numbers) read(cell string) (number, Reason, string) {
	d, why, hint := undress(cell)
	if why != "" {
		return number{}, why, hint
	}
	if d.intl {
		if r, ok := n.international(d.digits); ok {
			return r, "", ""
		}
		// In a country whose prefix for calls abroad is not 00 alone (Brazil: 00 and a carrier).
		if d.zeros && n.region != "" {
			if r, ok := n.national("00" + d.digits); ok {
				r.defaulted = true
				return r, "", ""
			}
		}
		why, hint = n.diagnose(d)
		return number{}, why, hint
	}
	if n.region == "" {
		return number{}, ReasonNoCountry, "put + and the country code in front, or name the country of such numbers with --default-country"
	}
	return n.atHome(d)
}

// atHome reads digits without + or 00. When they begin with the default country's own code the + may have been
// forgotten, and often both readings are valid: Germany's plan has room for a landline 04915 112345678. Then a
// mobile number wins, for it is WhatsApp's usual kind; where that does not decide, the row is refused. Other
// countries' codes are not looked for: a slip in a national number must not become a stranger abroad.
func (n *numbers) atHome(d dialled) (number, Reason, string) {
	r, ok := n.national(d.digits)
	if code := n.plans.code(n.region); strings.HasPrefix(d.digits, code) {
		with, okWith := n.international(d.digits)
		switch {
		case !okWith || ok && with.e164 == r.e164 || ok && r.mobile && !with.mobile:
		case !ok || with.mobile && !r.mobile:
			r, ok = with, true
		default:
			return number{}, ReasonAmbiguous, fmt.Sprintf("with or without its first digits %s it is a number of %s: write it with +", code, n.region)
		}
	}
	if !ok {
		why, hint := n.diagnose(d)
		return number{}, why, hint
	}
	r.defaulted = true
	return r, "", ""
}

// international reads digits that begin with a country code.
func (n *numbers) international(digits string) (number, bool) {
	if r, v := n.plans.international(digits); v != unsure {
		return r, v == valid
	}
	return parseSlowly("+"+digits, "")
}

// national reads digits as they are dialled in the default country.
func (n *numbers) national(digits string) (number, bool) {
	if r, v := n.plans.national(digits, n.region); v != unsure {
		return r, v == valid
	}
	return parseSlowly(digits, n.region)
}

func parseSlowly(s, region string) (number, bool) {
	p, err := phonenumbers.Parse(s, region)
	if err != nil || !phonenumbers.IsValidNumber(p) {
		return number{}, false
	}
	kind := phonenumbers.GetNumberType(p)
	return number{
		e164:   phonenumbers.Format(p, phonenumbers.E164),
		region: phonenumbers.GetRegionCodeForNumber(p),
		mobile: kind == phonenumbers.MOBILE || kind == phonenumbers.FIXED_LINE_OR_MOBILE,
	}, true
}

const checkDigits = "check the digits, and the country code behind the +"

// diagnose says why a number is not valid. It runs for refused rows only.
func (n *numbers) diagnose(d dialled) (Reason, string) {
	text, hint := d.digits, checkDigits
	if d.intl {
		text = "+" + d.digits
		if n.region != "" {
			if _, ok := n.national(d.digits); ok {
				hint = fmt.Sprintf("is the country code missing behind the +? With +%s it is a number of %s", n.plans.code(n.region), n.region)
			}
		}
	} else {
		hint = fmt.Sprintf("read as a number of %s, the default country: check the digits", n.region)
		if _, ok := n.international(d.digits); ok {
			hint = fmt.Sprintf("not a number of %s, the default country: if it begins with a country code, put + in front", n.region)
		}
	}
	p, err := phonenumbers.Parse(text, n.region)
	switch {
	case err == phonenumbers.ErrInvalidCountryCode:
		return ReasonUnknownCountry, hint
	case err == phonenumbers.ErrNumTooLong:
		return ReasonPhoneLong, hint
	case err != nil:
		return ReasonPhoneShort, hint
	}
	switch phonenumbers.IsPossibleNumberWithReason(p) {
	case phonenumbers.TOO_SHORT, phonenumbers.IS_POSSIBLE_LOCAL_ONLY:
		return ReasonPhoneShort, hint
	case phonenumbers.TOO_LONG:
		return ReasonPhoneLong, hint
	case phonenumbers.INVALID_COUNTRY_CODE:
		return ReasonUnknownCountry, hint
	}
	return ReasonPhoneInvalid, hint
}

package audience

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/nyaruka/phonenumbers"
)

// plans answers for bare digits what phonenumbers.Parse, IsValidNumber and Format answer, from the same metadata,
// in a twentieth of the time: the library runs some forty regular expressions a number, most of them to look for
// punctuation, letters and extensions that bare digits cannot hold, and to tell types of numbers apart that do
// not matter here. Where it would rewrite a number rather than strip a prefix, the answer is [unsure] and the
// library is asked. Tests hold the two together.
type plans struct {
	byRegion map[string]*phonenumbers.PhoneMetadata
	byCode   map[int]*phonenumbers.PhoneMetadata // numbers of no country, such as +800
	codes    map[int]bool
	compiled sync.Map // country code → []*plan, as the file needs them
}

// number is a phone number that was understood.
type number struct {
	e164      string
	region    string // that it belongs to, as ISO 3166 alpha-2; "001": none
	mobile    bool   // it may be a mobile phone's
	defaulted bool   // the default country decided how it was read
}

// verdict is what plans knows of a number.
type verdict uint8

const (
	unsure verdict = iota
	valid
	invalid
)

func newPlans() (*plans, error) {
	all, err := phonenumbers.MetadataCollection()
	if err != nil {
		return nil, fmt.Errorf("read numbering plans: %w", err)
	}
	p := &plans{
		byRegion: map[string]*phonenumbers.PhoneMetadata{},
		byCode:   map[int]*phonenumbers.PhoneMetadata{},
		codes:    phonenumbers.GetSupportedCallingCodes(),
	}
	for _, m := range all.GetMetadata() {
		if m.GetId() == phonenumbers.REGION_CODE_FOR_NON_GEO_ENTITY {
			p.byCode[int(m.GetCountryCode())] = m
		} else {
			p.byRegion[m.GetId()] = m
		}
	}
	return p, nil
}

// code returns the country calling code of a region.
func (p *plans) code(region string) string {
	return strconv.Itoa(int(p.byRegion[region].GetCountryCode()))
}

// international reads digits that begin with a country code.
func (p *plans) international(digits string) (number, verdict) {
	for n := 1; n <= 3 && n < len(digits); n++ {
		code, err := strconv.Atoi(digits[:n])
		if err != nil || digits[0] == '0' || !p.codes[code] {
			continue
		}
		owners := p.owners(code)
		if len(owners) == 0 {
			return number{}, unsure
		}
		nsn, sure := owners[0].trimPrefix(digits[n:])
		if !sure {
			return number{}, unsure
		}
		return p.judge(digits[:n], nsn, owners)
	}
	return number{}, unsure
}

// national reads digits as they are dialled in a region.
func (p *plans) national(digits, region string) (number, verdict) {
	home, owners := p.home(region)
	if home == nil || home.abroad.MatchString(digits) {
		return number{}, unsure
	}
	code, rules, nsn := p.code(region), home, digits
	if rest, ok := strings.CutPrefix(digits, code); ok {
		stripped, sure := home.strip(rest)
		if !sure {
			return number{}, unsure
		}
		if !home.general.re.MatchString(digits) && home.general.re.MatchString(stripped) || home.length(digits) == tooLong {
			rules, nsn = owners[0], stripped
		}
	}
	nsn, sure := rules.trimPrefix(nsn)
	if !sure {
		return number{}, unsure
	}
	return p.judge(code, nsn, owners)
}

// judge decides whether a number within a country code belongs to one of the countries that share the code.
func (p *plans) judge(code, nsn string, owners []*plan) (number, verdict) {
	if len(nsn) < 2 || len(nsn) > 17 {
		return number{}, unsure
	}
	for _, o := range owners {
		leads := o.leading != nil && len(owners) > 1
		if leads && !o.leading.MatchString(nsn) {
			continue
		}
		if ok, mobile := o.valid(nsn); ok {
			return number{e164: "+" + code + nsn, region: o.region, mobile: mobile}, valid
		}
		if leads { // the library looks no further
			return number{}, invalid
		}
	}
	return number{}, invalid
}

// owners returns the plans of all regions with a calling code; the first one's prefixes count.
func (p *plans) owners(code int) []*plan {
	if owners, ok := p.compiled.Load(code); ok {
		return owners.([]*plan)
	}
	var owners []*plan
	if m := p.byCode[code]; m != nil {
		owners = append(owners, compile(m))
	} else {
		for _, region := range phonenumbers.GetRegionCodesForCountryCode(code) {
			owners = append(owners, compile(p.byRegion[region]))
		}
	}
	p.compiled.Store(code, owners)
	return owners
}

// home returns a region's plan and those of all regions that share its code.
func (p *plans) home(region string) (home *plan, owners []*plan) {
	owners = p.owners(int(p.byRegion[region].GetCountryCode()))
	i := slices.IndexFunc(owners, func(o *plan) bool { return o.region == region })
	if i < 0 {
		return nil, nil
	}
	return owners[i], owners
}

// plan is one region's numbering plan, compiled.
type plan struct {
	region    string
	general   pattern
	mobile    pattern
	types     []pattern // the other types: a valid number matches the general pattern and one of the types
	leading   *regexp.Regexp
	prefix    *regexp.Regexp // what is dialled before a national number; nil for none
	abroad    *regexp.Regexp // what is dialled before a country code
	transform bool           // the prefix may be rewritten instead of stripped
	lengths   []int32
	local     []int32 // lengths that can be dialled within an area only
}

// pattern is a regular expression over a whole number, and the lengths it can have.
type pattern struct {
	re      *regexp.Regexp
	lengths []int32 // none: any
}

func compile(m *phonenumbers.PhoneMetadata) *plan {
	p := &plan{
		region:    m.GetId(),
		general:   compilePattern(m.GetGeneralDesc()),
		mobile:    compilePattern(m.GetMobile()),
		transform: m.GetNationalPrefixTransformRule() != "",
		abroad:    regexp.MustCompile("^(?:" + m.GetInternationalPrefix() + ")"),
		lengths:   m.GetGeneralDesc().GetPossibleLength(),
		local:     m.GetGeneralDesc().GetPossibleLengthLocalOnly(),
	}
	for _, desc := range []*phonenumbers.PhoneNumberDesc{
		m.GetFixedLine(), m.GetVoip(), m.GetTollFree(), m.GetPremiumRate(),
		m.GetSharedCost(), m.GetPersonalNumber(), m.GetPager(), m.GetUan(), m.GetVoicemail(),
	} {
		if desc.GetNationalNumberPattern() != "" {
			p.types = append(p.types, compilePattern(desc))
		}
	}
	if s := m.GetLeadingDigits(); s != "" {
		p.leading = regexp.MustCompile("^(?:" + s + ")")
	}
	if s := m.GetNationalPrefixForParsing(); s != "" {
		p.prefix = regexp.MustCompile("^(?:" + s + ")")
	}
	return p
}

func compilePattern(desc *phonenumbers.PhoneNumberDesc) pattern {
	return pattern{
		re:      regexp.MustCompile("^(?:" + desc.GetNationalNumberPattern() + ")$"),
		lengths: desc.GetPossibleLength(),
	}
}

func (d pattern) match(nsn string) bool {
	return (len(d.lengths) == 0 || slices.Contains(d.lengths, int32(len(nsn)))) && d.re.MatchString(nsn)
}

func (p *plan) valid(nsn string) (ok, mobile bool) {
	if !p.general.match(nsn) {
		return false, false
	}
	mobile = p.mobile.match(nsn)
	return mobile || slices.ContainsFunc(p.types, func(d pattern) bool { return d.match(nsn) }), mobile
}

// trimPrefix takes the national prefix off where what is left can be a number of the region.
func (p *plan) trimPrefix(digits string) (nsn string, sure bool) {
	stripped, sure := p.strip(digits)
	if l := p.length(stripped); l == fits || l == tooLong {
		return stripped, sure
	}
	return digits, sure
}

// strip takes the national prefix off, unless a good number would become a bad one by it.
func (p *plan) strip(digits string) (rest string, sure bool) {
	if p.prefix == nil || digits == "" {
		return digits, true
	}
	match := p.prefix.FindStringSubmatchIndex(digits)
	if match == nil {
		return digits, true
	}
	if p.transform && match[len(match)-2] >= 0 {
		return "", false
	}
	rest = digits[match[1]:]
	if rest != digits && p.general.re.MatchString(digits) && !p.general.re.MatchString(rest) {
		return digits, true
	}
	return rest, true
}

type fit uint8

const (
	misfit fit = iota
	fits
	tooLong
)

func (p *plan) length(digits string) fit {
	n := int32(len(digits))
	switch {
	case slices.Contains(p.local, n) || len(p.lengths) == 0:
		return misfit
	case slices.Contains(p.lengths, n):
		return fits
	case n > slices.Max(p.lengths):
		return tooLong
	}
	return misfit
}

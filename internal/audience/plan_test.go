package audience

import (
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/nyaruka/phonenumbers"
)

// library is what plans is held to.
func library(digits, region string) (string, verdict) {
	if n, ok := parseSlowly(digits, region); ok {
		return n.e164, valid
	}
	return "", invalid
}

func mustPlans(t testing.TB) *plans {
	t.Helper()
	p, err := newPlans()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// agree compares both readings of some digits, and reports how many of the two the library had to be asked for.
func agree(t testing.TB, p *plans, digits, region string) (asked int) {
	t.Helper()
	check := func(how, got string, v verdict, want string, wantV verdict) {
		t.Helper()
		if v == unsure {
			asked++
		} else if v != wantV || v == valid && got != want {
			t.Errorf("%s in %s, %s: got %q (verdict %d), the library says %q (verdict %d)", digits, region, how, got, v, want, wantV)
		}
	}
	got, v := p.international(digits)
	want, wantV := library("+"+digits, "")
	check("international", got.e164, v, want, wantV)
	got, v = p.national(digits, region)
	want, wantV = library(digits, region)
	check("national", got.e164, v, want, wantV)
	return asked
}

func TestPlansAgreeWithTheLibrary(t *testing.T) {
	t.Parallel()
	const perRegion = 25
	p, r := mustPlans(t), rand.New(rand.NewPCG(7, 11))
	regions := slices.Sorted(maps.Keys(phonenumbers.GetSupportedRegions())) // or the dice would fall otherwise each time
	asked := 0
	for _, region := range regions {
		for range perRegion {
			asked += agree(t, p, likely(r, region), region)
		}
	}
	if most := len(regions) * perRegion * 2 / 4; asked > most {
		t.Errorf("the library was asked for %d numbers, want at most %d: the short cut is none", asked, most)
	}
}

func TestPlansAgreeWithTheLibraryOnNumbersOfNoCountry(t *testing.T) {
	t.Parallel()
	p, r := mustPlans(t), rand.New(rand.NewPCG(7, 12))
	for _, code := range slices.Sorted(maps.Keys(phonenumbers.GetSupportedGlobalNetworkCallingCodes())) {
		example := phonenumbers.Format(phonenumbers.GetExampleNumberForNonGeoEntity(code), phonenumbers.E164)
		for range 50 {
			agree(t, p, mutate(r, strings.TrimPrefix(example, "+")), "DE")
		}
	}
}

// likely makes digits that look like a number of a region: an example of some type, nationally or with the
// country code, with the trunk prefix or what else is dialled first, a few digits off.
func likely(r *rand.Rand, region string) string {
	code := phonenumbers.GetCountryCodeForRegion(region)
	n := phonenumbers.GetExampleNumberForType(region, phonenumbers.PhoneNumberType(r.IntN(11)))
	if n == nil {
		n = phonenumbers.GetExampleNumber(region)
	}
	digits := phonenumbers.GetNationalSignificantNumber(n)
	prefix := [...]string{"", "", "", "0", "1", "8", "9", "15", "06", "044", "00", "011", phonenumbers.GetNddPrefixForRegion(region, true)}
	digits = prefix[r.IntN(len(prefix))] + digits
	if r.IntN(2) == 0 {
		digits = phonenumbers.NormalizeDigitsOnly(phonenumbers.Format(&phonenumbers.PhoneNumber{CountryCode: new(int32(code)), NationalNumber: new(uint64(0))}, phonenumbers.E164))
		digits = strings.TrimSuffix(digits, "0") + prefix[r.IntN(len(prefix))] + phonenumbers.GetNationalSignificantNumber(n)
	}
	return mutate(r, digits)
}

// mutate changes, adds or drops a few digits, or none.
func mutate(r *rand.Rand, digits string) string {
	b := []byte(digits)
	for range r.IntN(5) {
		i := r.IntN(len(b))
		switch d := byte('0' + r.IntN(10)); r.IntN(8) {
		case 0:
			b = slices.Insert(b, i, d)
		case 1:
			if len(b) > 3 {
				b = slices.Delete(b, i, i+1)
			}
		default:
			b[max(i, len(b)/3)] = d
		}
	}
	return string(b)
}

// A mobile number written without its + must not become another person's, and hardly ever be refused.
func TestForgottenPlus(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(5, 6))
	tried, refused := 0, 0
	for _, region := range slices.Sorted(maps.Keys(phonenumbers.GetSupportedRegions())) {
		reader := mustNumbers(t, region)
		for range 20 {
			digits := mutate(r, phonenumbers.Format(phonenumbers.GetExampleNumberForType(region, phonenumbers.MOBILE), phonenumbers.E164)[1:])
			want, ok := reader.international(digits)
			if !ok || !want.mobile || want.e164 != "+"+digits || !strings.HasPrefix(digits, reader.plans.code(region)) {
				continue
			}
			tried++
			if got, why, _ := reader.read(digits); why != "" {
				refused++
			} else if got.e164 != want.e164 {
				t.Errorf("%s in %s is read as %s", want.e164, region, got.e164)
			}
		}
	}
	if refused*100 > tried || tried < 1000 {
		t.Errorf("%d of %d refused, want at most one in a hundred of more than a thousand", refused, tried)
	}
}

func FuzzPlans(f *testing.F) {
	f.Add("4915112345678", "DE")
	f.Add("011151234567", "AR")
	f.Add("15112345678", "US")
	f.Add("018005550123", "MX")
	p := mustPlans(f)
	f.Fuzz(func(t *testing.T, digits, region string) {
		if !allDigits(digits) || len(digits) > 40 || !phonenumbers.GetSupportedRegions()[region] {
			return
		}
		agree(t, p, digits, region)
	})
}

func BenchmarkLibrary(b *testing.B) {
	for b.Loop() {
		parseSlowly("+4915112345678", "")
	}
}

func BenchmarkPlans(b *testing.B) {
	p := mustPlans(b)
	for b.Loop() {
		p.international("4915112345678")
	}
}

package audience

import (
	"slices"
	"strings"
	"sync"

	"github.com/nyaruka/phonenumbers"

	"github.com/weirhq/weir/engine"
)

// ZoneSource says where contacts' time zones come from. The zero value: they have none.
type ZoneSource struct {
	// Number takes the zones that the phone number may be in.
	Number bool
	// Column names a column with IANA names; it goes before Number.
	Column string
	// Opens reports whether there is an hour at which a contact of these zones, a comma-separated list, can be
	// written to. A row for which there is none is refused. Nil: there always is. It is called from several
	// goroutines, once or a few times for each list.
	Opens func(zones string) bool
}

// atlas finds the zones of contacts. It is safe for concurrent use.
type atlas struct {
	source  ZoneSource
	numbers *numbers
	judged  sync.Map // list of zones → Reason; "": they are good
}

// find returns a contact's zones, or says why there are none. cell is what the zone's column holds.
func (a *atlas) find(n number, cell string) (zones string, why Reason, hint string) {
	switch {
	case a.source.Column != "":
		zones = trim(cell)
	case a.source.Number:
		if zones = a.numbers.zones(n); zones == "" {
			return "", ReasonNoZone, "nobody can tell what time it is there: put a time zone into a column, and name that with --tz column:NAME"
		}
	default:
		return "", "", ""
	}
	why, ok := a.judge(zones)
	if !ok {
		why = a.remember(zones)
	}
	return zones, why, zoneHints[why]
}

func (a *atlas) judge(zones string) (Reason, bool) {
	why, ok := a.judged.Load(zones)
	if !ok {
		return "", false
	}
	return why.(Reason), true
}

// remember judges a list of zones, and keeps the judgement of lists that are zones: those are few.
func (a *atlas) remember(zones string) (why Reason) {
	if _, err := engine.Zones(zones); err != nil {
		return ReasonZone
	}
	if a.source.Opens != nil && !a.source.Opens(zones) {
		why = ReasonNeverOpen
	}
	a.judged.Store(zones, why)
	return why
}

var zoneHints = map[Reason]string{
	ReasonZone:      "write the IANA name of the person's time zone, for example America/Sao_Paulo",
	ReasonNeverOpen: "the number may be in any of several zones, and the window has no hour that all of them share: widen the window, or put the person's time zone into a column and name that with --tz column:NAME",
}

// zones are all those that a number may be in. A mobile number of most countries says nothing of the place, and
// can be in any zone of its country, whatever its first digits were once handed out for; of a few it begins with
// an area's code, or cannot be told from one that does.
func (n *numbers) zones(of number) string {
	prefix, code := of.e164, n.plans.code(of.region)
	alone := phonenumbers.GetRegionCodeForCountryCode(int(n.plans.byRegion[of.region].GetCountryCode())) == of.region
	if of.mobile && alone && !slices.Contains([]string{"1", "52", "54", "55", "86"}, code) {
		prefix = code
	}
	names, err := phonenumbers.GetTimezonesForPrefix(prefix)
	if err != nil || slices.Contains(names, phonenumbers.UNKNOWN_TIMEZONE) {
		return ""
	}
	return strings.Join(names, ",")
}

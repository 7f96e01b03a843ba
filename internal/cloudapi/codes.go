package cloudapi

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"github.com/weirhq/weir/engine"
)

// entry is one error code (or range) of the platform: what it asks for, our
// short words for it and what an operator can do. The table below is the only
// place that knows Meta's codes. Whoever adds one adds the exchange to testdata.
type entry struct {
	lo, hi   int
	asks     engine.Answer
	title    string
	advice   string
	byStatus bool // the code says too little: asks holds for HTTP 400 alone
	offPath  bool // belongs to another part of the API: counted as "other"
}

func (e *entry) answer(code int) engine.Answer {
	a := e.asks
	a.Code, a.Title, a.Advice = code, e.title, e.advice
	return a
}

func (e *entry) label() string {
	if e.lo == e.hi {
		return strconv.Itoa(e.lo)
	}
	return strconv.Itoa(e.lo) + "-" + strconv.Itoa(e.hi)
}

// lookup finds a code's entry. A code may have an entry of its own at the start
// of a range (200 has): it sorts before the range and so is found first.
func lookup(code int) *entry {
	i, found := slices.BinarySearchFunc(codes, code, func(e entry, c int) int { return cmp.Compare(e.lo, c) })
	if found {
		return &codes[i]
	}
	if i > 0 && codes[i-1].hi >= code {
		return &codes[i-1]
	}
	return nil
}

var (
	reconcileIt = engine.Answer{}
	// platformDown is a retry whose reason is not the message: the scope tells
	// the engine so.
	platformDown = engine.Answer{Action: engine.Reschedule, Scope: engine.ScopeApp}
	fail         = engine.Answer{Action: engine.Fail}
	// suspect fails one row; when it repeats, the campaign is at fault.
	suspect = engine.Answer{Action: engine.Fail, Suspect: true}
	// dubious delays one row; when it repeats, likewise.
	dubious = engine.Answer{Action: engine.Reschedule, Suspect: true}
	// stopWork is said of the template, so to every campaign that sends it.
	stopWork  = engine.Answer{Action: engine.StopCampaign, Scope: engine.ScopeTemplate}
	stopApp   = engine.Answer{Action: engine.StopNumber, Scope: engine.ScopeApp}
	stopWABA  = engine.Answer{Action: engine.StopNumber, Scope: engine.ScopeWABA}
	stopOne   = engine.Answer{Action: engine.StopNumber, Scope: engine.ScopeNumber}
	pauseApp  = engine.Answer{Action: engine.Pause, Scope: engine.ScopeApp, Throttled: true}
	pauseWABA = engine.Answer{Action: engine.Pause, Scope: engine.ScopeWABA, Throttled: true}
	pauseOne  = engine.Answer{Action: engine.Pause, Scope: engine.ScopeNumber, Throttled: true}
	// absent is a number that is away for a while, whatever its pace.
	absent = engine.Answer{Action: engine.Pause, Scope: engine.ScopeNumber, After: maintenance}
)

// codes is sorted by lo, and its entries are not changed after it is built.
var codes = sorted(slices.Concat(accountCodes, paceCodes, recipientCodes, templateCodes, otherCodes))

func sorted(es []entry) []entry {
	for i := range es {
		es[i].hi = max(es[i].lo, es[i].hi)
	}
	slices.SortFunc(es, func(a, b entry) int { return cmp.Or(cmp.Compare(a.lo, b.lo), cmp.Compare(a.hi, b.hi)) })
	return es
}

func after(a engine.Answer, d time.Duration) engine.Answer {
	a.After = d
	return a
}

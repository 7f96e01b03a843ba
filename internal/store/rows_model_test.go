package store

import (
	"fmt"
	"maps"
	"slices"

	"github.com/weirhq/weir/engine"
)

// modelRow is the reference: what the rules of a row say in plain Go, written
// without a look at the SQL. A message is named by the claim it was sent under.
type modelRow struct {
	status   engine.Status
	claim    int
	attempt  int
	shown    int              // the message that the row shows; 0 = none
	tries    map[int]modelTry // what is on record beside one plain acceptance
	doubt    int              // claim of its unknowns entry; 0 = none
	replayed string
	replays  int
}

type modelTry struct {
	message bool // a message of this claim is known
	failed  bool // by the platform's word, and not delivered since
	gaveUp  bool // unknown_outcome
}

func (r *modelRow) note(claim int, change func(*modelTry)) {
	try := r.tries[claim]
	change(&try)
	r.tries[claim] = try
}

func (r *modelRow) become(s engine.Status) {
	if r.status == engine.Unknown && s != engine.Unknown {
		r.doubt = 0
	}
	r.status = s
}

// hear is the platform's word about the message of a claim.
func (r *modelRow) hear(claim int, word engine.Status) {
	if word == engine.Failed {
		r.hearFailed(claim)
		return
	}
	dead := r.tries[claim].failed
	switch {
	case dead && word < engine.Delivered:
		return // a failed message lives again only when it was delivered
	case dead:
		r.note(claim, func(t *modelTry) { t.failed, t.message = false, true })
	}
	switch {
	case r.shown == claim, r.shown == 0 && r.status != engine.Failed:
		r.shown = claim
		r.become(max(r.status, word))
	case r.status == engine.Failed: // a living message replaces a failed one
		r.duplicate(claim)
		r.shown = claim
		r.become(word)
	default:
		r.duplicate(claim)
		r.become(max(r.status, word))
	}
}

// duplicate puts a message on record that is not the first one of its row.
func (r *modelRow) duplicate(claim int) {
	if r.shown != 0 {
		r.note(claim, func(t *modelTry) { t.message, t.failed = true, false })
	}
}

func (r *modelRow) hearFailed(claim int) {
	if r.shown == claim && r.status >= engine.Delivered { // a note: it was delivered
		r.note(claim, func(t *modelTry) { t.message = true })
		return
	}
	r.note(claim, func(t *modelTry) { t.message, t.failed = true, true })
	if r.shown != claim && (r.shown != 0 || claim < r.claim) {
		return // not what the row stands for
	}
	for _, other := range slices.Sorted(maps.Keys(r.tries)) {
		if try := r.tries[other]; other != claim && try.message && !try.failed && r.status < engine.Delivered {
			r.shown = other
			return
		}
	}
	r.shown = claim
	r.become(max(r.status, engine.Failed))
}

// answer is what a node writes of its own call. Only an acceptance is a fact
// that needs no look at the row's claim.
func (r *modelRow) answer(claim int, a engine.Result) {
	if a.Status == engine.Accepted || a.Status == engine.Held {
		r.hear(claim, a.Status)
		return
	}
	open := r.status == engine.Sending || r.status == engine.Unknown && a.Status != engine.Unknown
	if claim != r.claim || !open {
		return
	}
	if !a.KeepDue {
		r.note(claim, func(t *modelTry) { t.failed = t.failed || a.Status == engine.Failed })
	}
	if a.Refund {
		r.attempt--
	}
	r.become(a.Status)
	if a.Status == engine.Unknown {
		r.doubt = claim
	}
}

func (r *modelRow) take() {
	r.claim++
	r.attempt++
	r.status = engine.Sending
}

func (r *modelRow) giveBack(claim int) {
	if r.status == engine.Sending && r.claim == claim {
		r.attempt--
		r.become(engine.Pending)
	}
}

func (r *modelRow) reclaim(claim int) {
	if r.status == engine.Sending && r.claim == claim {
		r.become(engine.Unknown)
		r.doubt = claim
	}
}

// decide is the end of the window.
func (r *modelRow) decide(policy engine.OnUnknown, cap int) {
	switch {
	case r.status != engine.Unknown || r.doubt != r.claim:
		r.doubt = 0
	case policy == engine.UnknownHolds:
	default:
		r.note(r.claim, func(t *modelTry) { t.gaveUp = true })
		if policy == engine.UnknownResends && r.attempt < cap {
			r.become(engine.Pending)
		} else {
			r.become(engine.Dead)
		}
	}
}

// notDead is what a replay does not even look at.
const notDead Skip = "not dead"

// replay moves the row, or says why not.
func (r *modelRow) replay(o ReplayOrder, inFlight bool) Skip {
	gaveUp := r.status == engine.Dead && r.tries[r.claim].gaveUp
	switch {
	case r.status == engine.Unknown:
		return SkipUnknown
	case r.status != engine.Dead && r.status != engine.Failed:
		return notDead
	case r.replayed == o.ID:
		return SkipReplayed
	case r.replays >= o.MaxReplays:
		return SkipCapped
	case gaveUp && !o.Force:
		return SkipUnknown
	case inFlight && !o.Force:
		return SkipInHand
	}
	r.claim++
	r.attempt, r.shown, r.replayed = 0, 0, o.ID
	r.replays++
	r.become(engine.Pending)
	return Taken
}

// lines describe the row as machineState describes the database's.
func (r *modelRow) lines(i int) []string {
	shown := ""
	if r.shown != 0 {
		shown = message(int64(i), int32(r.shown))
	}
	all := []string{fmt.Sprintf("row %d %v claim %d attempt %d replays %d due %t shows %s", i, r.status, r.claim, r.attempt, r.replays, r.status == engine.Pending, shown)}
	for claim, try := range r.tries {
		known := ""
		if try.message {
			known = message(int64(i), int32(claim))
		}
		all = append(all, fmt.Sprintf("try %d claim %d failed %t message %s", i, claim, try.failed, known))
	}
	if r.doubt != 0 {
		all = append(all, fmt.Sprintf("unknown %d claim %d", i, r.doubt))
	}
	return all
}

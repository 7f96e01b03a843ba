package engine

import "time"

// RestraintKind is what a Restraint does.
type RestraintKind uint8

// The restraints.
const (
	PauseNumber   RestraintKind = iota // for a time: a throttle
	HaltNumber                         // until an operator acts
	HaltCampaign                       // until an operator acts
	PauseCampaign                      // for a time
)

// Restraint is an order to hold something back, fleet-wide, as a row that every
// claim reads. Whoever hears the platform say so gives it: a lane by an answer,
// a receiver by a webhook.
type Restraint struct {
	Kind     RestraintKind
	Scope    Scope         // of a number: itself, its WABA or its app; of a campaign: itself, or all that send its template from Number's WABA
	Number   string        // that it was said of
	Campaign int64         // HaltCampaign, PauseCampaign: that it was said of
	For      time.Duration // PauseNumber, PauseCampaign
	Learned  Learned       // PauseNumber: what it taught about Number's pace; zero: nothing
	Code     int           // the platform's code; 0 = none
	Reason   string        // what happened, for an operator
	Advice   string        // and what to do about it; "" = nothing
	// Told is when the message was accepted of which it was said later, by a
	// webhook, that it failed; zero: it is said now. What an operator has let go on
	// since then is left alone.
	Told time.Time
}

// Stops is what an answer stops beyond its own row, given that it was said of a
// campaign's message from a number: a restraint to write, if any.
func (a Answer) Stops(number string, campaign int64) (r Restraint, ok bool) {
	r = Restraint{Scope: a.Scope, Number: number, Code: a.Code, Reason: a.Title, Advice: a.Advice}
	switch a.Action {
	case StopNumber:
		r.Kind = HaltNumber
	case StopCampaign:
		r.Kind, r.Campaign, r.For = HaltCampaign, campaign, max(a.After, 0)
		if r.For > 0 {
			r.Kind = PauseCampaign
		}
	default:
		return Restraint{}, false
	}
	return r, true
}

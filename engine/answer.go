package engine

import "time"

// Action is what an answer asks for. Its zero value, Reconcile, is the one
// that is safe when nobody knows what happened.
type Action uint8

// The actions.
const (
	Reconcile    Action = iota // a call was made and its outcome is unknown: never send again blindly
	Accept                     // the platform took the message and gave it an id
	Pause                      // the sender is throttled (Scope says how much of it): pause, spend nothing
	Reschedule                 // this recipient later; spends an attempt unless Throttled
	Fail                       // this recipient never: the platform's word, or ours where it is Local, for no call was made
	StopCampaign               // nothing of this campaign (or of its template) will go through: until an operator acts, or for After
	StopNumber                 // nothing of this number (or its WABA, or app) will go through until an operator acts
	Release                    // provably no call reached the platform: give the row back, spend nothing
)

var actionNames = [...]string{
	"reconcile", "accept", "pause", "reschedule", "fail", "stop_campaign", "stop_number", "release",
}

// Actions lists every action; metrics make their series from it.
func Actions() []Action {
	all := make([]Action, len(actionNames))
	for i := range all {
		all[i] = Action(i)
	}
	return all
}

// String is the action's name as a metric label.
func (a Action) String() string { return actionNames[a] }

// Scope is how far an answer reaches.
type Scope uint8

// The scopes, smallest first.
const (
	ScopeRecipient Scope = iota // this message only
	ScopePair                   // this number to this recipient
	ScopeCampaign               // every message of this campaign
	ScopeTemplate               // every message of this campaign's template, in whatever campaign of the account
	ScopeNumber                 // every message of this number
	ScopeWABA                   // every number of this WhatsApp business account
	ScopeApp                    // every number that uses this token or app
)

// Spare is whom an answer asks to leave in peace, in every campaign and not only
// in the row's. It becomes a row that every claim reads.
type Spare uint8

// Whom to spare.
const (
	SpareNobody    Spare = iota
	SparePair            // this person, by this number: 4^X s, X = how often in a row (Meta's advice for its pair limit)
	SpareMarketing       // this person, by the marketing of this account, for After
	SpareForGood         // as SpareMarketing, until they ask for it again
	SpareNoLonger        // they ask for it again
	SpareAbsent          // this person, by all marketing, for as long as each campaign says: not on WhatsApp
)

var spareNames = [...]string{"", "pair", "marketing", "for_good", "resume", "absent"}

// String is the spare's name in the store's statements; "" spares nobody.
func (s Spare) String() string { return spareNames[s] }

// Answer is what one call came to, in our words. Sender.Send returns an
// Answer and never an error: every way a call can end is one of the actions.
type Answer struct {
	Action    Action
	Scope     Scope
	MessageID string        // set exactly with Accept
	Held      bool          // Accept: the platform holds it for quality assessment
	Code      int           // the platform's error code; 0 = none
	Title     string        // the platform's or our short words for it; no phone number, no secret
	Advice    string        // what an operator can do about it; "" = nothing
	After     time.Duration // Pause, Reschedule: not before this long, 0 = policy decides. StopCampaign: so long, 0 = until an operator acts
	Throttled bool          // Pause: the number was too fast, and learns from it. Reschedule: no attempt is spent
	Suspect   bool          // Fail, Reschedule: more likely the campaign's fault than the row's when it repeats
	Once      bool          // Reschedule: one more call is all it is worth; the same answer again ends the row
	Spare     Spare         // Reschedule, Fail: what else must leave this person in peace
	Local     bool          // it was met on this side, as a name that does not resolve, a redirect or our own proxy: it says nothing of the platform. From ScopeNumber on it is the number's alone, as a token that cannot be read
}

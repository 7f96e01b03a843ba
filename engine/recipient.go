package engine

import "time"

// Category is a template's category at Meta; suppressions can be scoped by it.
type Category string

// The categories.
const (
	Marketing      Category = "marketing"
	Utility        Category = "utility"
	Authentication Category = "authentication"
)

// Template is what a campaign sends: an approved template and, for each of its
// parameters, where the value comes from. It does not change once created.
type Template struct {
	Name     string
	Language string // Meta's code, for example en_US
	Category Category
	Params   []Param
}

// Param binds one template parameter. Target is the sender's word for the
// place (for example body.1, body.first_name, header.image, button.0.url); a
// value comes from the recipient's Values[Column], or is Literal for everyone
// when Column is negative.
type Param struct {
	Target  string `json:"target"`
	Column  int    `json:"column"`
	Literal string `json:"literal,omitempty"`
}

// Value is the parameter's value for one recipient; "" when values are short.
func (p Param) Value(values []string) string {
	switch {
	case p.Column < 0:
		return p.Literal
	case p.Column < len(values):
		return values[p.Column]
	default:
		return ""
	}
}

// OnUnknown is a campaign's policy for a recipient whose outcome stays unknown
// after a window of healthy webhook time.
type OnUnknown string

// The policies.
const (
	UnknownFails   OnUnknown = "fail"   // dead, reason unknown_outcome: at most once (the default)
	UnknownResends OnUnknown = "resend" // pending again: at least once
	UnknownHolds   OnUnknown = "hold"   // waits for an operator
)

// Campaign is what a lane needs to know of a running campaign.
type Campaign struct {
	ID       int64
	Priority int // higher first; equal ones take equal turns
	Retry
	Zones    []int16
	Capped   bool // whoever has had enough messages of any campaign is left out: see Ask
	Template *Template
}

// Recipient is one claimed row: one person in one campaign.
type Recipient struct {
	ID       int64
	Campaign int64
	Claim    int32 // the row's fence: bumped by a claim, and by whatever lets a settled row wait again
	Attempt  int   // 1 for the first; the claim has already spent it
	Due      time.Time
	Code     int    // the platform's code of its last answer, 0 = none or accepted
	Phone    string // E.164 with +
	Values   []string
	// Suppressed: the claim found an opt-out, a person who is not on WhatsApp, or
	// one who has had enough. The row is settled already and must not be sent; it
	// is returned so that the claimer knows it took rows.
	Suppressed bool
	// Waiting: the claim found that this person must be left in peace for a
	// while. The row is pending again until then, nothing is spent, and it is
	// returned for the same reason.
	Waiting bool
}

// Message is one call to make.
type Message struct {
	Number    string // the sender's phone_number_id
	Recipient int64
	Claim     int32
	To        string // E.164 with +
	Template  *Template
	Values    []string
	// Fence, when set, is asked before the request and before each write to
	// the wire. An error means that this lane may no longer send: what has not
	// been written must not be, and the answer is Release if nothing was.
	Fence func() error
}

// Result is what to write for one recipient: settle's output. Status is one of
// Pending, Unknown, Dead, Accepted, Held, Failed.
type Result struct {
	Recipient int64
	Campaign  int64
	Claim     int32
	Seq       int64 // the claim batch the row came with
	Status    Status
	MessageID string        // Accepted, Held
	Code      int           // the platform's error code, 0 = none
	Title     string        // short words for the code, or the reason of Dead
	Delay     time.Duration // Pending: due this long from now on the database's clock
	Refund    bool          // Pending, Dead: no call was made or it was throttled; the attempt is given back
	KeepDue   bool          // Pending: give-back; the old due time stands instead of Delay
	Due       time.Time     // with KeepDue
	Spare     Spare         // who else must leave this person in peace,
	SpareFor  time.Duration // and for how long, where Spare does not say
}

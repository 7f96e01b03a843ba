package engine

import (
	"math"
	"time"
)

// About is what a piece of news is about.
type About uint8

// The subjects. The zero value is nothing that we act on.
const (
	AboutNothing  About = iota
	AboutTemplate       // Template, in Language, of the account
	AboutAccount        // the account itself
	AboutNumber         // the account's number that shows as Phone
	AboutLimit          // Limit: how many people its portfolio may reach in 24 hours
	AboutPerson         // Phone, as a recipient of the account's marketing: Spare
)

// Bearing is what news means for sending.
type Bearing uint8

// The bearings.
const (
	BearsNothing Bearing = iota // to know, not to act on
	BearsWarning                // it may be sent, and somebody should look
	BearsStop                   // nothing of it will go through
	BearsGo                     // what stopped it is over
)

var bearingNames = [...]string{"nothing", "warning", "stop", "go"}

// String is the bearing's name in the store's statements.
func (b Bearing) String() string { return bearingNames[b] }

// NoLimit is the Limit of a portfolio that has none.
const NoLimit = math.MaxInt64

// News is what the platform says, apart from any message, about something of
// ours. Of two words about the same thing the later stands, and of two of the
// same second the one that forbids more: in whatever order they come.
type News struct {
	About              About
	Bears              Bearing
	At                 time.Time // when the platform said it, by its clock, to the second
	Account            string    // WABA
	Template, Language string
	Phone              string // digits
	Word               string // the platform's own, for people
	Reason             string // what happened, for an operator
	Advice             string // what to do about it; "" = nothing
	Limit              int64  // at least 0
	Spare              Spare  // SpareForGood, or SpareNoLonger
}

// Said is the latest instant that the news may be from: its second's end.
func (n News) Said() time.Time { return n.At.Truncate(time.Second).Add(time.Second - time.Microsecond) }

package engine

import "fmt"

// Status is how far a recipient has come. The order of declaration is the
// rank, here and in Postgres's enum recipient_status: what the platform says
// outranks what we believe, and of two words about one message the greater
// stands. A test holds the two lists together.
type Status uint8

// The statuses, least first.
const (
	Pending    Status = iota // waits for due_at
	Sending                  // claimed by a lane
	Unknown                  // a call was made and nobody knows what came of it
	Canceled                 // the campaign was canceled before a send
	Expired                  // the campaign's time ran out before a send
	Suppressed               // the person has opted out, is not on WhatsApp, or has had enough; the reason is in attempts
	Dead                     // our own policy gave up; the reason is in attempts
	Accepted                 // the API took the message
	Held                     // taken, and held by Meta for quality assessment
	Sent                     // status webhook
	Failed                   // the platform's word: a permanent answer or a status webhook
	Delivered                // status webhook
	Read                     // status webhook
)

var statusNames = [...]string{
	"pending", "sending", "unknown", "canceled", "expired", "suppressed", "dead",
	"accepted", "held", "sent", "failed", "delivered", "read",
}

// Statuses lists every status, least first.
func Statuses() []Status {
	all := make([]Status, len(statusNames))
	for i := range all {
		all[i] = Status(i)
	}
	return all
}

// String is the status's name in the database.
func (s Status) String() string {
	if int(s) < len(statusNames) {
		return statusNames[s]
	}
	return fmt.Sprintf("status(%d)", uint8(s))
}

// ParseStatus is the reverse of String.
func ParseStatus(name string) (Status, error) {
	for i, n := range statusNames {
		if n == name {
			return Status(i), nil
		}
	}
	return 0, fmt.Errorf("parse status: %q is none of %v", name, statusNames)
}

// Settled reports whether a recipient of this status needs nothing more from
// us. A campaign is finished when all its recipients are settled.
func (s Status) Settled() bool { return s > Unknown }

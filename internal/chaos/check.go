package chaos

import (
	"fmt"
	"slices"
)

// Property is one promise and how it is read off a history.
type Property struct {
	Name    string // a word or two, for a table's head
	Promise string
	check   func(*evidence, report)
}

// report takes a violation in words.
type report func(format string, args ...any)

// Properties are all promises that a history is held to, in a table's order.
func Properties() []Property {
	return []Property{
		{"conserved", "every row of the file is counted, and every recipient is there exactly once", conserved},
		{"settled", "once everything has healed, nothing is left pending, sending or unknown", settled},
		{"known", "nothing that was accepted is shown unsent", known},
		{"real", "nothing that was not accepted is shown sent", real},
		{"durable", "a webhook answered 200 is in the database, and the status is the last word of them all", durable},
		{"once", "at-most-once campaigns: never a second call after one that could have been accepted", once},
		{"late", "at-least-once campaigns: a second call only after the window, and without a sign of the first", late},
		{"undoubled", "while webhooks flow, nobody gets a message twice", undoubled},
		{"capped", "no more calls than the campaign allows, and each of them was spent", capped},
		{"paced", "in every window of time a number sends at most burst + rate × window", paced},
		{"owned", "a number's calls follow its leases: each under a claim of its own lease, none after the next owner began", owned},
		{"clean", "where nodes were only asked to end, nobody's outcome is unknown", clean},
		{"tended", "no number with work is without an owner for longer than TTL + quarantine + polls", tended},
		{"resumed", "after a fault, sending goes on", resumed},
		{"held", "on a database that may have forgotten claims, nobody is called before an operator has confirmed it", held},
		{"silent", "after a confirmed pause or cancel, not one call", silent},
		{"discreet", "no phone number, message id, token or password stands in a node's log", discreet},
	}
}

// Verdict is what a history came to.
type Verdict struct {
	Fault   string
	About   []string            // the properties that the fault is most likely to break
	Broken  map[string][]string // by name of the property; those that hold are absent
	Figures Figures
}

// OK tells that every property holds.
func (v Verdict) OK() bool { return len(v.Broken) == 0 }

// Check holds a history to every property.
func Check(h *History) Verdict {
	e := gather(h)
	v := Verdict{Fault: h.Run.Fault, About: h.Run.About, Broken: map[string][]string{}, Figures: measure(e)}
	for _, p := range Properties() {
		p.check(e, func(format string, args ...any) {
			v.Broken[p.Name] = append(v.Broken[p.Name], fmt.Sprintf(format, args...))
		})
		slices.Sort(v.Broken[p.Name])
	}
	return v
}

// ranks are the statuses from what we believe to what the platform said last.
var ranks = [...]string{
	"pending", "sending", "unknown", "canceled", "expired", "suppressed", "dead",
	"accepted", "held", "sent", "failed", "delivered", "read",
}

// rank is a status's place in ranks, or -1.
func rank(status string) int {
	for i, s := range ranks {
		if s == status {
			return i
		}
	}
	return -1
}

// isSent tells that a status claims that the platform took the message.
func isSent(status string) bool { return rank(status) >= rank("accepted") }

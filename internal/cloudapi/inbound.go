package cloudapi

import (
	"encoding/json"
	"time"

	"github.com/weirhq/weir/engine"
)

// kindInbound is the kind of an event that is one person's message.
const kindInbound = "inbound"

// What became of wishes: labels of weir_webhook_wishes_total. unplaced: Meta did
// not say whose it was, as of persons who hide their number.
const wishUnplaced = "unplaced"

var wishLabels = []string{engine.WishStop.String(), engine.WishStopAll.String(), engine.WishStart.String(), wishUnplaced}

// hookMessage is an inbound message, as far as wishes go.
type hookMessage struct {
	From      phone  `json:"from"`
	ID        string `json:"id"`
	Timestamp stamp  `json:"timestamp"`
	Text      struct {
		Body string `json:"body"`
	} `json:"text"`
	Button struct { // a quick reply of a template
		Payload string `json:"payload"`
		Text    string `json:"text"`
	} `json:"button"`
	Interactive struct {
		Button hookChoice `json:"button_reply"`
		List   hookChoice `json:"list_reply"`
	} `json:"interactive"`
}

type hookChoice struct {
	ID    string `json:"id"`
	Title string `json:"title"`
}

// phone is a person's phone, which Meta writes as a string.
type phone string

// UnmarshalJSON never fails. A number is read too: what somebody asked for counts,
// however a platform writes who they are.
func (p *phone) UnmarshalJSON(b []byte) error {
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		s = string(b) // digits refuses what is no number
	}
	*p = phone(s)
	return nil
}

// inbound adds an event for each message of a change. It reports false when they
// are not the list of objects that we know: the change is then kept whole, beside
// the messages that can be read.
func (d *decoder) inbound(out *delivery, k kept, messages json.RawMessage, now time.Time) bool {
	var all []json.RawMessage
	if json.Unmarshal(messages, &all) != nil {
		return false
	}
	known := true
	for _, raw := range all {
		var m hookMessage
		if len(raw) == 0 || raw[0] != '{' {
			known = false
			continue
		}
		_ = json.Unmarshal(raw, &m) // a field of another type hides no other
		in := d.read(&m, now)
		d.countWish(in)
		out.events = append(out.events, engine.Event{
			Key: m.key(k.number), Kind: kindInbound, Account: k.account, Number: k.number, Body: storable(raw), Inbound: in,
		})
	}
	return known
}

// key is one message's at its number; without an id there is none.
func (m *hookMessage) key(number string) string {
	if m.ID == "" {
		return ""
	}
	return hashed(number, m.ID)
}

func (d *decoder) read(m *hookMessage, now time.Time) engine.Inbound {
	in := engine.Inbound{From: digits(string(m.From)), At: m.Timestamp.at(now)}
	if d.wish != nil {
		in.Wish = d.wish(m.Text.Body, m.Button.Payload, m.Button.Text, m.Interactive.Button.ID, m.Interactive.Button.Title, m.Interactive.List.ID, m.Interactive.List.Title)
	}
	return in
}

func (d *decoder) countWish(in engine.Inbound) {
	switch {
	case in.Wish == engine.WishNothing:
	case in.From == "":
		d.metrics.wishes[wishUnplaced].Inc()
	default:
		d.metrics.wishes[in.Wish.String()].Inc()
	}
}

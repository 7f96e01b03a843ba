package cloudapi

import (
	"bytes"
	"encoding/json"
	"strconv"
	"time"

	"github.com/weirhq/weir/engine"
)

// The closed label sets of the receiver's metrics, with "other" for the rest.
var (
	statusWords = []string{"sent", "delivered", "read", "failed", "played", "held", "deleted", "warning", labelOther}
	eventFields = []string{
		"inbound", "messages", "errors", "status", "unreadable", "message_template_status_update", "message_template_quality_update",
		"template_category_update", "phone_number_quality_update", "business_capability_update",
		"account_update", "account_alerts", "user_preferences", labelOther,
	}
)

// decoder turns webhook bodies into engine's words.
type decoder struct {
	signer  *signer
	metrics *receiverMetrics
	wish    func(texts ...string) engine.Wish // nil: none are looked for
}

// delivery is what one body said.
type delivery struct {
	updates    []engine.StatusUpdate
	events     []engine.Event
	unreadable bool // not JSON, or not of the shape we know: kept whole as an event
}

// The body, as far as statuses go. Everything else in it (pricing,
// conversation, contacts) is skipped without being built.
type hookBody struct {
	Entry []struct {
		ID      string `json:"id"`
		Time    stamp  `json:"time"`
		Changes []struct {
			Field string    `json:"field"`
			Value hookValue `json:"value"`
		} `json:"changes"`
	} `json:"entry"`
}

type hookValue struct {
	Metadata struct {
		Number string `json:"phone_number_id"`
	} `json:"metadata"`
	Statuses []hookStatus `json:"statuses"`
	Messages inboundList  `json:"messages"`
	Errors   present      `json:"errors"`
}

type hookStatus struct {
	ID        string      `json:"id"`
	Status    string      `json:"status"`
	Timestamp stamp       `json:"timestamp"`
	Recipient string      `json:"recipient_id"`
	Callback  string      `json:"biz_opaque_callback_data"`
	Errors    []hookError `json:"errors"`
}

type hookError struct {
	Code  looseInt `json:"code"`
	Title string   `json:"title"`
}

// present notes that a field is there, without reading it.
type present bool

// UnmarshalJSON never fails.
func (p *present) UnmarshalJSON(b []byte) error {
	*p = len(b) > 2 && b[0] != 'n' // not {}, [], "", null
	return nil
}

// inboundList is the messages of a change, unread; nil when there are none.
type inboundList []byte

// UnmarshalJSON never fails.
func (l *inboundList) UnmarshalJSON(b []byte) error {
	if len(b) > 2 && b[0] != 'n' {
		*l = bytes.Clone(b)
	}
	return nil
}

// stamp is a Unix time: Meta documents seconds as a string, writes integers
// in places, and has been seen to write milliseconds.
type stamp int64 // milliseconds; 0 = unreadable

// Seconds beyond this are past the year 5000, milliseconds before 1973.
const firstMillis = 100_000_000_000

// at is the time said, or now for one that cannot be read or has yet to come: what
// was said in a year to come would outrank every later word.
func (s stamp) at(now time.Time) time.Time {
	if at := time.UnixMilli(int64(s)); s != 0 && at.Before(now) {
		return at
	}
	return now
}

// UnmarshalJSON never fails: one odd timestamp must not hide a status.
func (s *stamp) UnmarshalJSON(b []byte) error {
	v, err := strconv.ParseInt(string(bytes.Trim(b, `"`)), 10, 64)
	switch {
	case err != nil || v <= 0 || v >= firstMillis*1000:
		*s = 0
	case v < firstMillis:
		*s = stamp(v * 1000)
	default:
		*s = stamp(v)
	}
	return nil
}

// decode reads one signed body, whatever is in it. A status that cannot be
// used hides no other; what is not a status is kept as an event.
func (d *decoder) decode(body []byte, now time.Time) delivery {
	var out delivery
	var hook hookBody
	err := json.Unmarshal(body, &hook)
	if err != nil {
		out.unreadable = true
		out.events = append(out.events, engine.Event{Kind: "unreadable", Body: unreadable(body)})
	}
	var raw rawBody // filled by the first change that must be kept
	for i, entry := range hook.Entry {
		for j, change := range entry.Changes {
			kept := kept{field: change.Field, account: clean(entry.ID), number: clean(change.Value.Metadata.Number), at: entry.Time.at(now), now: now, said: entry.Time}
			if kept.field == "messages" {
				odd := d.statuses(&out, kept, change.Value.Statuses, now)
				inbound := change.Value.Messages != nil && d.inbound(&out, kept, json.RawMessage(change.Value.Messages), now)
				kept.choose(change.Value, odd, inbound)
			}
			if kept.kinds != nil || kept.field != "messages" {
				out.keep(kept, raw.value(body, i, j))
			}
		}
	}
	d.count(out)
	return out
}

// statuses adds the usable ones and reports whether any was not.
func (d *decoder) statuses(out *delivery, k kept, all []hookStatus, now time.Time) (odd bool) {
	if out.updates == nil && len(all) > 0 {
		out.updates = make([]engine.StatusUpdate, 0, len(all))
	}
	for i := range all {
		s := &all[i]
		count(d.metrics.statuses, statusLabel(s.Status))
		u, ok := d.update(s, now)
		if !ok {
			odd = true
			continue
		}
		u.Number = k.number
		d.metrics.lag.Observe(max(now.Sub(u.At).Seconds(), 0))
		out.updates = append(out.updates, u)
	}
	return odd
}

func (d *decoder) update(s *hookStatus, now time.Time) (engine.StatusUpdate, bool) {
	status, ok := statusOf(s.Status)
	u := engine.StatusUpdate{
		Status:    status,
		MessageID: clean(s.ID),
		Phone:     digits(s.Recipient),
		At:        s.Timestamp.at(now),
	}
	if !ok || u.MessageID == "" {
		return u, false
	}
	// An id that is not ours is another program's on the same account: the
	// status then has to find its row by phone and message id, or none.
	if id, ours := d.signer.parse(s.Callback); ours {
		u.Recipient, u.Claim = id.Recipient, id.Claim
	} else {
		d.metrics.foreign.Inc()
	}
	if status == engine.Failed && len(s.Errors) > 0 {
		u.Code = s.Errors[0].Code.value
		u.Title = failureTitle(s.Errors[0])
		if s.Errors[0].Code.ok {
			u.Asks = ClassifyCode(u.Code)
		}
	}
	return u, true
}

// statusOf translates the platform's word. `played` comes after `read` for a
// voice message: whoever has played it has read it, and nothing ranks higher.
// `deleted` and `warning` say nothing of how far a message has come.
func statusOf(word string) (engine.Status, bool) {
	switch word {
	case "sent":
		return engine.Sent, true
	case "delivered":
		return engine.Delivered, true
	case "read", "played":
		return engine.Read, true
	case "failed":
		return engine.Failed, true
	case "held_for_quality_assessment":
		return engine.Held, true
	default:
		return 0, false
	}
}

func statusLabel(word string) string {
	if word == "held_for_quality_assessment" {
		return "held"
	}
	return word
}

// failureTitle prefers our words: they are the same for a sync answer and a
// webhook, and name nobody.
func failureTitle(e hookError) string {
	if t := Title(e.Code.value); t != "" && e.Code.ok {
		return t
	}
	return scrub(e.Title)
}

// digits is a phone as the platform writes it, or "" for anything else, such
// as the business scoped user ids that begin to take the phone's place.
func digits(s string) string {
	if len(s) > 0 && s[0] == '+' {
		s = s[1:]
	}
	if len(s) > 20 {
		return ""
	}
	for _, c := range []byte(s) {
		if c < '0' || c > '9' {
			return ""
		}
	}
	return s
}

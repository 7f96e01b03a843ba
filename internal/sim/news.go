package sim

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// News is what the platform says by webhook apart from messages: of a template,
// an account, a number, a limit, a person. It changes nothing about how requests
// are answered; Misbehave does that.
type News struct {
	Field   string `json:"field"`             // as account_update; any name
	Account string `json:"account,omitempty"` // WABA; empty: the number's
	Number  string `json:"number,omitempty"`  // a sender's id; empty: the first known

	Event    string `json:"event,omitempty"`    // PAUSED, DISABLED_UPDATE, FLAGGED …; stop or resume of a person
	Detail   string `json:"detail,omitempty"`   // other_info.title, a restriction's type, a ban's state, a violation's type
	Reason   string `json:"reason,omitempty"`   // of a template
	Template string `json:"template,omitempty"` // and its Language
	Language string `json:"language,omitempty"`
	Limit    string `json:"limit,omitempty"` // of people a day: a number or TIER_…
	To       string `json:"to,omitempty"`    // a person's phone

	At    time.Time       `json:"at,omitzero"`     // when it was said; zero: now
	Value json.RawMessage `json:"value,omitempty"` // instead of what the fields above would make
}

// Announce sends news to the receiver, again and again until it is taken, as a
// status is. It fails on a field whose value it cannot make, and without a
// receiver.
func (s *Sim) Announce(n News) error {
	if s.opts.WebhookURL == "" {
		return errors.New("announce: the simulator has no webhook receiver")
	}
	w := s.world.Load()
	if n.At.IsZero() {
		n.At = time.Unix(0, w.wall+w.now())
	}
	sender := w.sender(n.Number)
	if n.Value == nil {
		value, err := n.value(sender)
		if err != nil {
			return fmt.Errorf("announce: %w", err)
		}
		n.Value = value
	}
	b := appendString([]byte(`{"object":"whatsapp_business_account","entry":[{"id":`), cmp.Or(n.Account, sender.WABA))
	b = strconv.AppendInt(append(b, `,"time":`...), n.At.Unix(), 10)
	b = append(append(b, `,"changes":[{"value":`...), n.Value...)
	b = append(appendString(append(b, `,"field":`...), n.Field), `}]}]}`...)
	w.announce(b)
	return nil
}

// sender is a known number, or the first one.
func (w *world) sender(id string) Number {
	for _, l := range w.lines() {
		if id == "" || l.ID == id {
			return l.Number
		}
	}
	return Number{ID: id}.withDefaults()
}

func (w *world) announce(body []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.now()
	w.out.retries.push(&batch{at: now, first: now, raw: body, world: w})
	w.signal()
}

// value writes a change as Meta's pages show it.
func (n News) value(sender Number) (json.RawMessage, error) {
	v := object{"event": n.Event}
	display := strings.TrimPrefix(sender.Display, "+")
	switch n.Field {
	case "message_template_status_update":
		v["message_template_id"], v["message_template_name"], v["message_template_language"] = 1689556908129832, n.Template, n.Language
		v["reason"] = cmp.Or(n.Reason, "NONE")
		if n.Detail != "" {
			v["other_info"] = object{"title": n.Detail}
		}
	case "account_update":
		n.account(v)
	case "phone_number_quality_update":
		v["display_phone_number"] = display
		if n.Limit != "" {
			v["max_daily_conversations_per_business"] = n.limit()
		}
	case "business_capability_update":
		v = object{"max_phone_numbers_per_business": 25, "max_daily_conversations_per_business": n.limit()}
	case "user_preferences":
		v = n.preference(object{"display_phone_number": display, "phone_number_id": sender.ID})
	default:
		return nil, fmt.Errorf("field %q has no made-up value: give one", n.Field)
	}
	return json.Marshal(v)
}

func (n News) account(v object) {
	switch n.Event {
	case "ACCOUNT_RESTRICTION":
		v["restriction_info"] = []object{{"restriction_type": n.Detail, "expiration": 1893456000}}
	case "DISABLED_UPDATE":
		v["ban_info"] = object{"waba_ban_state": n.Detail, "waba_ban_date": "November 30, 2026"}
	case "ACCOUNT_VIOLATION":
		v["violation_info"] = object{"violation_type": n.Detail}
	}
}

// limit is a number where it is one: Meta documents both.
func (n News) limit() any {
	if v, err := strconv.Atoi(n.Limit); err == nil {
		return v
	}
	return n.Limit
}

func (n News) preference(metadata object) object {
	phone := strings.TrimPrefix(n.To, "+")
	return object{
		"messaging_product": "whatsapp", "metadata": metadata,
		"contacts": []object{{"profile": object{"name": "Ana"}, "wa_id": phone}},
		"user_preferences": []object{{
			"wa_id": phone, "detail": "User requested to " + n.Event + " marketing messages",
			"category": "marketing_messages", "value": n.Event, "timestamp": n.At.Unix(),
		}},
	}
}

// serveAnnounce takes one News.
func (s *Sim) serveAnnounce(rw http.ResponseWriter, r *http.Request) {
	var n News
	err := order(rw, r, &n)
	if err == nil {
		err = s.Announce(n)
	}
	if err != nil {
		http.Error(rw, err.Error(), http.StatusBadRequest)
		return
	}
	reply(rw, map[string]bool{"success": true})
}

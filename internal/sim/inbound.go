package sim

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// Inbound is a person's message to a number: a text, or the quick reply of a
// template. It changes nothing about how requests are answered.
type Inbound struct {
	From    string    `json:"from"`              // phone, E.164 with +
	To      string    `json:"to,omitempty"`      // a sender's id; empty: the first known
	Text    string    `json:"text,omitempty"`    // of the message; with Payload, the button's label
	Payload string    `json:"payload,omitempty"` // of the button; empty: it is no button
	ID      string    `json:"id,omitempty"`      // empty: a new one. The same again is a repeated delivery
	At      time.Time `json:"at,omitzero"`       // when it was written; zero: now
}

// Write delivers a message to the receiver, once, and returns its id and the
// receiver's answer. It fails without a receiver, for what is no phone, and when
// the receiver cannot be reached; deliver it again with the same id then.
func (s *Sim) Write(ctx context.Context, in Inbound) (id string, status int, err error) {
	if s.opts.WebhookURL == "" {
		return "", 0, errors.New("write: the simulator has no webhook receiver")
	}
	to := s.world.Load().sender(in.To)
	phone, _, ok := normalize(in.From, to.Display)
	if !ok || !strings.HasPrefix(in.From, "+") {
		return "", 0, errors.New("write: from must be a phone in international form")
	}
	if in.At.IsZero() {
		in.At = time.Now()
	}
	in.ID = cmp.Or(in.ID, wamid(phone, hashString(s.opts.Seed, in.Text), uint64(in.At.UnixNano())))
	body, err := in.hook(waID(phone), to)
	if err != nil {
		return "", 0, fmt.Errorf("write: %w", err)
	}
	hook := &signed{body: body}
	if s.opts.AppSecret != "" {
		hook.signature = sign(s.opts.AppSecret, body)
	}
	p := &poster{opts: &s.opts, client: &http.Client{Transport: s.opts.Transport}}
	status, _, err = p.do(ctx, http.MethodPost, s.opts.WebhookURL, hook)
	return in.ID, status, err
}

// hook is the webhook, as Meta's pages show it.
func (in Inbound) hook(from string, to Number) ([]byte, error) {
	message := object{"from": from, "id": in.ID, "timestamp": fmt.Sprint(in.At.Unix())}
	if in.Payload != "" {
		message["type"], message["button"] = "button", object{"payload": in.Payload, "text": in.Text}
	} else {
		message["type"], message["text"] = "text", object{"body": in.Text}
	}
	value := object{
		"messaging_product": "whatsapp",
		"metadata":          object{"display_phone_number": strings.TrimPrefix(to.Display, "+"), "phone_number_id": to.ID},
		"contacts":          []object{{"profile": object{"name": "Zoë"}, "wa_id": from}},
		"messages":          []object{message},
	}
	return json.Marshal(object{"object": "whatsapp_business_account", "entry": []object{
		{"id": to.WABA, "changes": []object{{"value": value, "field": "messages"}}},
	}})
}

func (s *Sim) serveWrite(rw http.ResponseWriter, r *http.Request) {
	var in Inbound
	if err := order(rw, r, &in); err != nil {
		http.Error(rw, err.Error(), http.StatusBadRequest)
		return
	}
	id, status, err := s.Write(r.Context(), in)
	if err != nil {
		http.Error(rw, err.Error(), http.StatusBadRequest)
		return
	}
	reply(rw, map[string]any{"id": id, "answer": status})
}

package store

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weirhq/weir/engine"
	"github.com/weirhq/weir/internal/store/db"
)

// kindUnmatched is the kind of a webhook event that is a status without a
// recipient; ApplyStatuses writes it, RetryUnmatched reads it.
const kindUnmatched = "unmatched"

// place finds each update's row: its own callback id's, else the row of that
// phone and message id. A row with id 0 is none.
func (s *Store) place(ctx context.Context, updates []engine.StatusUpdate) ([]rowClaim, error) {
	rows := make([]rowClaim, len(updates))
	p := &db.FindMessagesParams{}
	for i, u := range updates {
		switch {
		case u.MessageID == "": // nothing to tell its message by
		case u.Recipient != 0:
			rows[i] = rowClaim{u.Recipient, u.Claim}
		default:
			for _, phone := range phones(u.Phone) {
				p.Keys = append(p.Keys, int32(i))
				p.Phones = append(p.Phones, phone)
				p.MessageIds = append(p.MessageIds, clean(u.MessageID))
			}
		}
	}
	if len(p.Keys) == 0 {
		return rows, nil
	}
	found, err := s.q.FindMessages(ctx, s.pool, p)
	for _, f := range found {
		rows[f.Key] = rowClaim{f.ID, f.Claim}
	}
	return rows, wrap("find messages by phone", err)
}

// phones lists the ways a person's phone may stand in a file, given the
// platform's digits: Brazil's mobile numbers with and without the 9 after the
// area code, Mexico's with and without the 1 after the country code.
func phones(digits string) []string {
	digits = strings.TrimPrefix(clean(digits), "+")
	if digits == "" {
		return nil
	}
	all := []string{"+" + digits}
	switch br, mx := strings.HasPrefix(digits, "55"), strings.HasPrefix(digits, "52"); {
	case br && len(digits) == 13 && digits[4] == '9':
		all = append(all, "+"+digits[:4]+digits[5:])
	case br && len(digits) == 12:
		all = append(all, "+"+digits[:4]+"9"+digits[4:])
	case mx && len(digits) == 13 && digits[2] == '1':
		all = append(all, "+52"+digits[3:])
	case mx && len(digits) == 12:
		all = append(all, "+521"+digits[2:])
	}
	return all
}

// keep stores events, and updates that found no recipient. Those with a key come
// in its order: two calls with the same ones would else wait for each other.
func (s *Store) keep(ctx context.Context, lost []engine.StatusUpdate, events []engine.Event) error {
	all := make([]engine.Event, 0, len(lost)+len(events))
	for _, u := range lost {
		body, err := json.Marshal(newLostStatus(u))
		if err != nil {
			return fmt.Errorf("encode status: %w", err)
		}
		all = append(all, engine.Event{Kind: kindUnmatched, Number: u.Number, Body: body})
	}
	all = append(all, events...)
	if len(all) == 0 {
		return nil
	}
	slices.SortStableFunc(all, func(a, b engine.Event) int { return cmp.Compare(a.Key, b.Key) })
	p := &db.KeepEventsParams{}
	for _, e := range all {
		p.Kinds = append(p.Kinds, clean(e.Kind))
		p.Accounts = append(p.Accounts, clean(e.Account))
		p.Numbers = append(p.Numbers, clean(e.Number))
		p.Bodies = append(p.Bodies, string(storable(e.Body)))
		p.Keys = append(p.Keys, e.Key)
	}
	return again(func() error { return s.q.KeepEvents(ctx, s.pool, p) })
}

// storable is JSON without what jsonb refuses: broken UTF-8, NUL and halves of
// surrogate pairs. One odd character must not make the platform deliver a batch
// for seven days. What is no JSON stays none, and is refused.
func storable(body []byte) []byte {
	body = bytes.ToValidUTF8(body, []byte("\uFFFD"))
	if !bytes.Contains(body, []byte(`\u`)) {
		return body
	}
	var v any
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return body
	}
	escaped, err := json.Marshal(v)
	if err != nil {
		return body
	}
	return bytes.ReplaceAll(escaped, []byte(`\u0000`), []byte(`\ufffd`))
}

// lostStatus is a status update as webhook_events keeps it.
type lostStatus struct {
	Recipient   int64     `json:"recipient,omitempty"`
	Claim       int32     `json:"claim,omitempty"`
	Number      string    `json:"number,omitempty"`
	Phone       string    `json:"phone,omitempty"`
	MessageID   string    `json:"message_id"`
	Status      string    `json:"status"`
	At          time.Time `json:"at,omitzero"`
	Code        int       `json:"code,omitempty"`
	Title       string    `json:"title,omitempty"`
	SentAt      time.Time `json:"sent_at,omitzero"`
	DeliveredAt time.Time `json:"delivered_at,omitzero"`
	ReadAt      time.Time `json:"read_at,omitzero"`
	FailedAt    time.Time `json:"failed_at,omitzero"`

	Asks engine.Answer `json:"asks,omitzero"`
}

func newLostStatus(u engine.StatusUpdate) lostStatus {
	return lostStatus{
		Recipient: u.Recipient, Claim: u.Claim, Number: u.Number, Phone: u.Phone, MessageID: u.MessageID,
		Status: u.Status.String(), At: u.At, Code: u.Code, Title: u.Title,
		SentAt: u.SentAt, DeliveredAt: u.DeliveredAt, ReadAt: u.ReadAt, FailedAt: u.FailedAt, Asks: u.Asks,
	}
}

func (l lostStatus) update() (engine.StatusUpdate, error) {
	status, err := engine.ParseStatus(l.Status)
	return engine.StatusUpdate{
		Recipient: l.Recipient, Claim: l.Claim, Number: l.Number, Phone: l.Phone, MessageID: l.MessageID,
		Status: status, At: l.At, Code: l.Code, Title: l.Title,
		SentAt: l.SentAt, DeliveredAt: l.DeliveredAt, ReadAt: l.ReadAt, FailedAt: l.FailedAt, Asks: l.Asks,
	}, err
}

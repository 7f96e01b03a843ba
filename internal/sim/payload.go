package sim

import (
	"strconv"
	"strings"
	"time"
	"unicode/utf16"
	"unicode/utf8"
)

// update is one status as it will be written.
type update struct {
	rec      record
	callback []byte
	seq      uint64
	status   status
	at       int64 // Unix seconds
	sender   *line
	category string
}

// updates are the contents of one webhook.
type updates struct {
	list    []update
	subject subject // of the first one, for the signing fault
}

// updates copies what a batch needs out of the ledger.
func (w *world) updates(b *batch) updates {
	w.mu.Lock()
	defer w.mu.Unlock()
	v := view{arena: w.book.arena, names: w.book.names}
	u := updates{list: make([]update, 0, len(b.events))}
	for _, e := range b.events {
		rec := *w.book.at(int(e.ref))
		steps := rec.plan.steps()
		at := e.at
		if steps[e.step] == statusSent && e.step > 0 {
			at = rec.received // it was sent before what overtook it
		}
		u.list = append(u.list, update{
			rec: rec, callback: v.callback(&rec), seq: uint64(e.ref) + 1, status: steps[e.step],
			at: (w.wall + at) / int64(time.Second), sender: w.numbers[w.book.names[rec.number]],
			category: w.category(&rec),
		})
	}
	first := &u.list[0].rec
	u.subject = subject{number: w.book.names[first.number], to: phoneText(first.phone), fate: first.fate + uint64(b.tries)}
	return u
}

func (w *world) category(rec *record) string {
	name, language, _ := strings.Cut(w.book.names[rec.template], "/")
	category := "marketing"
	if p := w.templates[plateKey{name, language}]; p != nil {
		category = strings.ToLower(p.Category)
	}
	if rec.flags&flagLite != 0 && category == "marketing" {
		return "marketing_lite"
	}
	return category
}

// append writes the envelope: one change per run of statuses of one number.
func (u *updates) append(b []byte) []byte {
	b = append(b, `{"object":"whatsapp_business_account","entry":[`...)
	for i := 0; i < len(u.list); {
		k := i
		for k < len(u.list) && u.list[k].sender == u.list[i].sender {
			k++
		}
		if i > 0 {
			b = append(b, ',')
		}
		b = appendEntry(b, u.list[i:k])
		i = k
	}
	return append(b, `]}`...)
}

func appendEntry(b []byte, list []update) []byte {
	n := list[0].sender
	b = appendString(append(b, `{"id":`...), n.WABA)
	b = append(b, `,"changes":[{"value":{"messaging_product":"whatsapp","metadata":{"display_phone_number":`...)
	b = appendString(b, strings.TrimPrefix(n.Display, "+"))
	b = appendString(append(b, `,"phone_number_id":`...), n.ID)
	b = appendContacts(append(b, '}'), list)
	b = append(b, `,"statuses":[`...)
	for i := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = list[i].append(b)
	}
	return append(b, `]},"field":"messages"}]}`...)
}

// profileNames exercise the escaped form of the body.
var profileNames = [...]string{"Ana", "José", "Zoë 🌊", "Łukasz", "李雷", "O'Neil & Söhne"}

// appendContacts names the people, except where a message failed: a failed
// status to a phone has no contact.
func appendContacts(b []byte, list []update) []byte {
	open := `,"contacts":[`
	for i := range list {
		if list[i].status == statusFailed {
			continue
		}
		b = appendContact(append(b, open...), &list[i])
		open = ","
	}
	if open == "," {
		b = append(b, ']')
	}
	return b
}

func appendContact(b []byte, u *update) []byte {
	b = append(b, `{"profile":{"name":`...)
	b = appendString(b, profileNames[u.rec.fate%uint64(len(profileNames))])
	b = appendString(append(b, `},"wa_id":`...), waID(u.rec.phone))
	return append(b, '}')
}

func (u *update) append(b []byte) []byte {
	b = appendString(append(b, `{"id":`...), wamid(u.rec.phone, u.rec.fate, u.seq))
	b = appendString(append(b, `,"status":`...), u.status.String())
	b = appendString(append(b, `,"timestamp":`...), strconv.FormatInt(u.at, 10))
	b = appendString(append(b, `,"recipient_id":`...), waID(u.rec.phone))
	if len(u.callback) > 0 {
		b = appendString(append(b, `,"biz_opaque_callback_data":`...), string(u.callback))
	}
	switch u.status {
	case statusSent, statusDelivered:
		b = append(b, `,"pricing":{"billable":true,"pricing_model":"PMP","type":"regular","category":`...)
		b = append(appendString(b, u.category), '}')
	case statusFailed:
		b = appendFailure(b, int(u.rec.code))
	}
	return append(b, '}')
}

const errorPage = "https://developers.facebook.com/documentation/business-messaging/whatsapp/support/error-codes"

func appendFailure(b []byte, code int) []byte {
	w, ok := vocabulary[code]
	if !ok {
		w = words{title: "Unknown error", details: "Unknown error."}
	}
	b = strconv.AppendInt(append(b, `,"errors":[{"code":`...), int64(code), 10)
	b = appendString(append(b, `,"title":`...), w.title)
	b = appendString(append(b, `,"message":`...), w.title)
	b = appendString(append(b, `,"error_data":{"details":`...), w.details)
	b = appendString(append(b, `},"href":`...), errorPage)
	return append(b, `}]`...)
}

// appendString writes a JSON string the way Meta does: ASCII only, everything
// else as \u escapes, and slashes escaped too. The signature covers these bytes.
func appendString(b []byte, s string) []byte {
	const hexDigits = "0123456789abcdef"
	escape := func(u uint16) {
		b = append(b, '\\', 'u', hexDigits[u>>12], hexDigits[u>>8&15], hexDigits[u>>4&15], hexDigits[u&15])
	}
	b = append(b, '"')
	for i := 0; i < len(s); {
		c := s[i]
		switch {
		case c == '"' || c == '\\' || c == '/':
			b = append(b, '\\', c)
		case c < 0x20 || c == 0x7f:
			escape(uint16(c))
		case c < utf8.RuneSelf:
			b = append(b, c)
		default:
			r, n := utf8.DecodeRuneInString(s[i:])
			if hi, lo := utf16.EncodeRune(r); r > 0xffff {
				escape(uint16(hi))
				escape(uint16(lo))
			} else {
				escape(uint16(r))
			}
			i += n
			continue
		}
		i++
	}
	return append(b, '"')
}

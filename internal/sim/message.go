package sim

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

const (
	maxCallback = 512       // characters; Meta's changelog, status webhook page
	maxRequest  = 256 << 10 // bytes; far above any template message
)

// envelope is the outside of a message. Unknown keys at this level are
// ignored, as Graph does with parameters it does not know.
type envelope struct {
	Product       string          `json:"messaging_product"`
	RecipientType string          `json:"recipient_type"`
	To            string          `json:"to"`
	Type          string          `json:"type"`
	Callback      string          `json:"biz_opaque_callback_data"`
	Template      json.RawMessage `json:"template"`
}

// message is a parsed request.
type message struct {
	envelope
	template outgoing
}

// outgoing is the `template` object. Unknown keys inside it are refused.
type outgoing struct {
	Name     string `json:"name"`
	Language struct {
		Code   string `json:"code"`
		Policy string `json:"policy"`
	} `json:"language"`
	Components []component `json:"components"`
}

type component struct {
	Type       string      `json:"type"`
	SubType    string      `json:"sub_type"`
	Index      flexInt     `json:"index"`
	Parameters []parameter `json:"parameters"`
}

type parameter struct {
	Type       string          `json:"type"`
	Name       string          `json:"parameter_name"`
	Text       *string         `json:"text"`
	Image      *media          `json:"image"`
	Video      *media          `json:"video"`
	Document   *media          `json:"document"`
	Location   *location       `json:"location"`
	Currency   json.RawMessage `json:"currency"`
	DateTime   json.RawMessage `json:"date_time"`
	Payload    string          `json:"payload"`
	CouponCode string          `json:"coupon_code"`
	Action     json.RawMessage `json:"action"`
}

type media struct {
	ID       string `json:"id"`
	Link     string `json:"link"`
	Filename string `json:"filename"`
}

type location struct {
	Latitude  flexText `json:"latitude"`
	Longitude flexText `json:"longitude"`
	Name      string   `json:"name"`
	Address   string   `json:"address"`
}

// flexInt is an integer that may be written as a string: Meta's examples show
// `index` both ways. Absent is nil.
type flexInt struct{ n *int }

func (f *flexInt) UnmarshalJSON(b []byte) error {
	n := 0
	if err := json.Unmarshal(bytes.Trim(b, `"`), &n); err != nil {
		return fmt.Errorf("index must be an integer: %w", err)
	}
	f.n = &n
	return nil
}

// flexText is a string that may be written as a number.
type flexText string

func (f *flexText) UnmarshalJSON(b []byte) error {
	*f = flexText(bytes.Trim(b, `"`))
	return nil
}

// parse reads a body. The message holds whatever could be read even when the
// error is not nil, so that the ledger can name it.
func parse(body []byte) (message, *graphError) {
	var m message
	if err := json.Unmarshal(body, &m.envelope); err != nil {
		var mismatch *json.UnmarshalTypeError
		if errors.As(err, &mismatch) && mismatch.Field != "" {
			return m, plain("Param %s must be a %s.", mismatch.Field, mismatch.Type.Kind())
		}
		return m, plain("The parameter messaging_product is required.")
	}
	if len(m.Template) == 0 {
		return m, nil
	}
	dec := json.NewDecoder(bytes.NewReader(m.Template))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&m.template); err != nil && !errors.Is(err, io.EOF) {
		return m, badTemplate(err)
	}
	return m, nil
}

func badTemplate(err error) *graphError {
	var mismatch *json.UnmarshalTypeError
	if errors.As(err, &mismatch) {
		return plain("Param template['%s'] must be a %s.",
			strings.ReplaceAll(mismatch.Field, ".", "']['"), mismatch.Type.Kind())
	}
	if _, key, ok := strings.Cut(err.Error(), "unknown field "); ok {
		return plain("Unexpected key %s on param \"template\".", key)
	}
	return plain("Param template must be a JSON object.")
}

// checkEnvelope validates what every message has. marketing is true on the
// /marketing_messages endpoint.
func (m *message) checkEnvelope(marketing bool) *graphError {
	switch {
	case m.Product == "":
		return plain("The parameter messaging_product is required.")
	case m.Product != "whatsapp":
		return plain("Param messaging_product must be one of {WHATSAPP} - got %q.", m.Product)
	case m.RecipientType == "group":
		return fail(131051, "Groups are not simulated.")
	case m.RecipientType != "" && m.RecipientType != "individual":
		return plain("Param recipient_type must be one of {individual, group} - got %q.", m.RecipientType)
	case m.To == "":
		return plain("The parameter to is required.")
	case utf8.RuneCountInString(m.Callback) > maxCallback:
		return fail(131009, fmt.Sprintf("biz_opaque_callback_data must be at most %d characters", maxCallback))
	case m.Type != "template" && marketing:
		return fail(131055, "")
	}
	return m.checkType()
}

// checkType lets templates through. Everything else needs a conversation that
// the recipient began, and nobody here ever writes first.
func (m *message) checkType() *graphError {
	switch m.Type {
	case "template":
		if len(m.Template) == 0 {
			return plain("The parameter template is required.")
		}
		return nil
	case "", "text", "image", "video", "document", "audio", "sticker", "location", "contacts", "interactive", "reaction":
		return fail(131047, "")
	default:
		return plain("Param type must be one of {AUDIO, CONTACTS, DOCUMENT, IMAGE, INTERACTIVE, LOCATION, REACTION,"+
			" STICKER, TEMPLATE, TEXT, VIDEO} - got %q.", m.Type)
	}
}

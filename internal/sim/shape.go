package sim

import (
	"fmt"
	"net/url"
	"strings"
	"unicode/utf8"
)

const (
	maxCoupon  = 20 // characters; Meta's changelog, 2025-12-03
	maxButtons = 10 // buttons of one template; Meta, "Components"
)

// checkShape validates a template object on its own, whatever the template:
// names, component kinds, and that each parameter carries its value.
func (o *outgoing) checkShape() *graphError {
	switch {
	case o.Name == "":
		return fail(131008, "template['name'] is required")
	case o.Language.Code == "":
		return fail(131008, "template['language']['code'] is required")
	case o.Language.Policy != "" && o.Language.Policy != "deterministic":
		return fail(131009, "template['language']['policy'] must be deterministic")
	}
	seen := make(map[string]bool, len(o.Components))
	for i := range o.Components {
		c := &o.Components[i]
		if err := c.checkShape(); err != nil {
			return err
		}
		key := strings.ToLower(c.Type)
		if key == "button" {
			key = fmt.Sprint("button ", *c.Index.n)
		}
		if seen[key] {
			return fail(131009, fmt.Sprintf("components: %s is given twice", key))
		}
		seen[key] = true
	}
	return nil
}

func (c *component) checkShape() *graphError {
	switch strings.ToLower(c.Type) {
	case "header", "body":
	case "button":
		if err := c.checkButton(); err != nil {
			return err
		}
	case "":
		return fail(131008, "components: type is required")
	default:
		return fail(131009, fmt.Sprintf("components: type %q is not simulated; use header, body or button", c.Type))
	}
	for i := range c.Parameters {
		if err := c.Parameters[i].checkShape(); err != nil {
			return err
		}
	}
	return nil
}

// buttonParameter is the parameter kind each button takes.
var buttonParameter = map[string]string{
	"url": "text", "quick_reply": "payload", "copy_code": "coupon_code",
	"flow": "action", "catalog": "action", "mpm": "action", "voice_call": "payload",
}

func (c *component) checkButton() *graphError {
	sub := strings.ToLower(c.SubType)
	want, known := buttonParameter[sub]
	switch {
	case sub == "":
		return fail(131008, "buttons: sub_type is required")
	case !known:
		return fail(131009, fmt.Sprintf("buttons: sub_type %q is not valid", c.SubType))
	case c.Index.n == nil:
		return fail(131008, "buttons: index is required")
	case *c.Index.n < 0 || *c.Index.n >= maxButtons:
		return fail(131009, fmt.Sprintf("buttons: index must be 0 to %d", maxButtons-1))
	case len(c.Parameters) == 0:
		return fail(131008, fmt.Sprintf("buttons: Button at index %d of type %s requires a parameter", *c.Index.n, pretty(sub)))
	case len(c.Parameters) > 1:
		return countMismatch("buttons", len(c.Parameters), 1)
	case c.Parameters[0].Type != want:
		return fail(132012, fmt.Sprintf("buttons: Format mismatch, expected %s, received %s", want, c.Parameters[0].Type))
	}
	return nil
}

// textual tells whether the parameter can fill a variable of a text.
func (p *parameter) textual() bool {
	return p.Type == "text" || p.Type == "currency" || p.Type == "date_time"
}

func (p *parameter) checkShape() *graphError {
	switch p.Type {
	case "text":
		return p.checkText()
	case "image":
		return p.Image.check("image")
	case "video":
		return p.Video.check("video")
	case "document":
		return p.Document.check("document")
	case "location":
		return required(p.Location != nil && p.Location.Latitude != "" && p.Location.Longitude != "",
			"Parameter of type location is missing latitude or longitude")
	case "currency":
		return required(len(p.Currency) > 0, "Parameter of type currency is missing its value")
	case "date_time":
		return required(len(p.DateTime) > 0, "Parameter of type date_time is missing its value")
	case "payload":
		return required(p.Payload != "", "Parameter of type payload is missing its payload")
	case "action":
		return required(len(p.Action) > 0, "Parameter of type action is missing its action")
	case "coupon_code":
		if n := utf8.RuneCountInString(p.CouponCode); n > maxCoupon {
			return fail(131009, fmt.Sprintf("coupon_code has %d characters, at most %d allowed", n, maxCoupon))
		}
		return required(p.CouponCode != "", "Parameter of type coupon_code is missing its code")
	case "":
		return fail(131008, "Parameter is missing its type")
	default:
		return fail(131009, fmt.Sprintf("Parameter type %q is not valid", p.Type))
	}
}

func required(ok bool, details string) *graphError {
	if ok {
		return nil
	}
	return fail(131008, details)
}

func (p *parameter) checkText() *graphError {
	if p.Text == nil || *p.Text == "" {
		return fail(131008, "Parameter of type text is missing text value")
	}
	if strings.ContainsAny(*p.Text, "\n\r\t") || strings.Contains(*p.Text, "     ") {
		return fail(132018, "Param text cannot have new-line/tab characters or more than 4 consecutive spaces")
	}
	return nil
}

func (m *media) check(kind string) *graphError {
	switch {
	case m == nil || m.ID == "" && m.Link == "":
		return fail(131008, fmt.Sprintf("Parameter of type %s is missing id or link", kind))
	case m.ID != "" && m.Link != "":
		return fail(131009, fmt.Sprintf("Parameter of type %s has both id and link", kind))
	case m.Link != "":
		if u, err := url.Parse(m.Link); err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
			return fail(131009, fmt.Sprintf("Parameter of type %s: link is not a valid URL", kind))
		}
	}
	return nil
}

package sim

import (
	"encoding/json"
	"fmt"
	"strings"
)

// textList is a list of strings that may be written as a single one: Meta
// shows a copy-code button's example both ways.
type textList []string

// UnmarshalJSON accepts a string or a list of strings.
func (l *textList) UnmarshalJSON(b []byte) error {
	var one string
	if json.Unmarshal(b, &one) == nil {
		*l = textList{one}
		return nil
	}
	var many []string
	if err := json.Unmarshal(b, &many); err != nil {
		return fmt.Errorf("decode example: %w", err)
	}
	*l = many
	return nil
}

// subType is the sub_type by which a request addresses a template's button;
// authentication buttons are addressed as URLs.
func (b *Button) subType() string {
	switch t := strings.ToLower(b.Type); t {
	case "otp":
		return "url"
	default:
		return t
	}
}

// needsParameter tells whether a request must fill the button in.
func (b *Button) needsParameter() bool {
	switch b.subType() {
	case "copy_code":
		return true
	case "url":
		return strings.EqualFold(b.Type, "otp") || len(variables(b.URL)) > 0
	default:
		return false
	}
}

// checkButtons matches a request's button components with the template's.
func (p *plate) checkButtons(components []component) *graphError {
	filled := make(map[int]bool, len(p.buttons))
	for i := range components {
		c := &components[i]
		if !strings.EqualFold(c.Type, "button") {
			continue
		}
		n := *c.Index.n // the shape check has required it
		if n >= len(p.buttons) {
			return fail(132018, fmt.Sprintf("buttons: the template has no button at index %d", n))
		}
		b := &p.buttons[n]
		if !strings.EqualFold(c.SubType, b.subType()) {
			return fail(132012, fmt.Sprintf("buttons: Button at index %d is of type %s, received %s", n, b.Type, c.SubType))
		}
		if b.subType() == "url" && !b.needsParameter() {
			return fail(132018, fmt.Sprintf("buttons: Button at index %d of type Url does not require parameters", n))
		}
		filled[n] = true
	}
	for n := range p.buttons {
		if b := &p.buttons[n]; b.needsParameter() && !filled[n] {
			return fail(131008, fmt.Sprintf("buttons: Button at index %d of type %s requires a parameter", n, pretty(b.subType())))
		}
	}
	return nil
}

func pretty(subType string) string {
	if subType == "copy_code" {
		return "CopyCode"
	}
	return strings.ToUpper(subType[:1]) + subType[1:]
}

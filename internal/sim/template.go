package sim

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// Template is a message template in the Graph API's own shape, so that what
// Meta's GET message_templates returns can be given to the simulator as it is.
type Template struct {
	ID       string `json:"id,omitempty"`
	Name     string `json:"name"`
	Language string `json:"language"`
	// Category is MARKETING, UTILITY or AUTHENTICATION; empty means MARKETING.
	Category string `json:"category,omitempty"`
	// Status is APPROVED, PAUSED, DISABLED, PENDING, ...; empty means APPROVED.
	Status string `json:"status,omitempty"`
	// ParameterFormat is POSITIONAL or NAMED; empty means POSITIONAL.
	ParameterFormat string      `json:"parameter_format,omitempty"`
	Components      []Component `json:"components,omitempty"`
}

// Component is one part of a template: HEADER, BODY, FOOTER or BUTTONS.
type Component struct {
	Type string `json:"type"`
	// Format of a header: TEXT, IMAGE, VIDEO, DOCUMENT, LOCATION.
	Format  string         `json:"format,omitempty"`
	Text    string         `json:"text,omitempty"`
	Example map[string]any `json:"example,omitempty"`
	Buttons []Button       `json:"buttons,omitempty"`
}

// Button is one button of a template; Type is URL, QUICK_REPLY, COPY_CODE,
// PHONE_NUMBER, FLOW, OTP, ...
type Button struct {
	Type        string   `json:"type"`
	Text        string   `json:"text,omitempty"`
	URL         string   `json:"url,omitempty"`
	PhoneNumber string   `json:"phone_number,omitempty"`
	OTPType     string   `json:"otp_type,omitempty"`
	Example     textList `json:"example,omitempty"`
}

// ParseTemplates reads a JSON list of templates, or what the Graph API itself
// answers to GET message_templates: {"data": [...]}. Each needs a name and a
// language.
func ParseTemplates(r io.Reader) ([]Template, error) {
	var raw json.RawMessage
	if err := json.NewDecoder(r).Decode(&raw); err != nil {
		return nil, fmt.Errorf("read templates: %w", err)
	}
	var list []Template
	if json.Unmarshal(raw, &list) != nil {
		var page struct{ Data []Template }
		if err := json.Unmarshal(raw, &page); err != nil {
			return nil, fmt.Errorf("read templates: %w", err)
		}
		list = page.Data
	}
	for i, t := range list {
		if t.Name == "" || t.Language == "" {
			return nil, fmt.Errorf("read templates: number %d has no name or no language", i+1)
		}
	}
	return list, nil
}

const maxRendered = 1024 // characters of a rendered body; Meta, "Components"

// plate is a template prepared for checking requests.
type plate struct {
	Template
	named        bool
	headerFormat string
	headerVars   []string
	bodyVars     []string
	bodyLength   int // characters of the body without its variables
	buttons      []Button
}

var placeholder = regexp.MustCompile(`\{\{\s*([A-Za-z0-9_]+)\s*\}\}`)

func variables(text string) []string {
	var vars []string
	for _, m := range placeholder.FindAllStringSubmatch(text, -1) {
		if !slices.Contains(vars, m[1]) {
			vars = append(vars, m[1])
		}
	}
	return vars
}

func newPlate(t Template) *plate {
	t.Category = cmp.Or(strings.ToUpper(t.Category), "MARKETING")
	t.Status = cmp.Or(strings.ToUpper(t.Status), "APPROVED")
	t.ParameterFormat = cmp.Or(strings.ToUpper(t.ParameterFormat), "POSITIONAL")
	t.ID = cmp.Or(t.ID, fmt.Sprint(hashString(2, t.Name+"/"+t.Language)>>12))
	p := &plate{Template: t, named: t.ParameterFormat == "NAMED"}
	for _, c := range t.Components {
		switch strings.ToUpper(c.Type) {
		case "HEADER":
			p.headerFormat = cmp.Or(strings.ToUpper(c.Format), "TEXT")
			p.headerVars = variables(c.Text)
		case "BODY":
			p.bodyVars = variables(c.Text)
			p.bodyLength = utf8.RuneCountInString(placeholder.ReplaceAllLiteralString(c.Text, ""))
		case "BUTTONS":
			p.buttons = c.Buttons
		}
	}
	return p
}

// checkStatus says whether a template in this state may be sent.
func checkStatus(name, language, state string) *graphError {
	switch state {
	case "APPROVED", "FLAGGED":
		return nil
	case "PAUSED":
		return fail(132015, "")
	case "DISABLED":
		return fail(132016, "")
	default:
		return fail(132001, fmt.Sprintf("template name (%s) is %s in %s", name, state, language))
	}
}

// check validates a request's components against the template.
func (p *plate) check(o *outgoing) *graphError {
	var header, body []parameter
	for i := range o.Components {
		switch c := &o.Components[i]; strings.ToLower(c.Type) {
		case "header":
			header = c.Parameters
		case "body":
			body = c.Parameters
		}
	}
	if err := p.checkHeader(header); err != nil {
		return err
	}
	if err := p.checkValues("body", body, p.bodyVars); err != nil {
		return err
	}
	if n := p.renderedLength(body); n > maxRendered {
		return fail(132005, fmt.Sprintf("body: %d characters, at most %d allowed", n, maxRendered))
	}
	return p.checkButtons(o.Components)
}

func (p *plate) checkHeader(params []parameter) *graphError {
	switch p.headerFormat {
	case "", "TEXT":
		return p.checkValues("header", params, p.headerVars)
	}
	got := "UNKNOWN"
	if len(params) > 0 {
		got = strings.ToUpper(params[0].Type)
	}
	if got != p.headerFormat {
		return fail(132012, fmt.Sprintf("header: Format mismatch, expected %s, received %s", p.headerFormat, got))
	}
	if len(params) != 1 {
		return countMismatch("header", len(params), 1)
	}
	return nil
}

// checkValues matches text-like parameters with the variables of a text.
func (p *plate) checkValues(where string, params []parameter, vars []string) *graphError {
	if len(params) != len(vars) {
		return countMismatch(where, len(params), len(vars))
	}
	seen := make(map[string]bool, len(params))
	for i := range params {
		switch q := &params[i]; {
		case !q.textual():
			return fail(132012, fmt.Sprintf("%s: Format mismatch, expected TEXT, received %s", where, strings.ToUpper(q.Type)))
		case !p.named:
			continue
		case q.Name == "":
			return fail(100, "Parameter name is missing or empty")
		case !slices.Contains(vars, q.Name):
			return fail(132000, fmt.Sprintf("%s: the template has no parameter named %s", where, q.Name))
		case seen[q.Name]:
			return fail(132000, fmt.Sprintf("%s: parameter %s is given twice", where, q.Name))
		default:
			seen[q.Name] = true
		}
	}
	return nil
}

func countMismatch(where string, got, want int) *graphError {
	return fail(132000, fmt.Sprintf(
		"%s: number of localizable_params (%d) does not match the expected number of params (%d)", where, got, want))
}

func (p *plate) renderedLength(params []parameter) int {
	n := p.bodyLength
	for i := range params {
		if t := params[i].Text; t != nil {
			n += utf8.RuneCountInString(*t)
		}
	}
	return n
}

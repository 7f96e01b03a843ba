package cloudapi

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/weirhq/weir/engine"
)

// TemplateInfo is what Meta says of a template in one language.
type TemplateInfo struct {
	Name     string
	Language string
	Status   string          // APPROVED, PAUSED, REJECTED, …
	Category engine.Category // as Meta has it, which may differ from what was asked for
	Named    bool            // parameters have names instead of positions

	Needs       []Target // parameters that each message must carry
	May         []Target // parameters that it may carry: a quick reply's payload, a document's file name
	Buttons     []Kind   // by index; KindButton for one that takes no parameter
	Unsupported []string // parts that Weir cannot fill, in Meta's words
}

const (
	templateFields   = "name,language,status,category,parameter_format,components"
	templatePage     = 100
	maxTemplatePages = 20 // Meta allows at most 6000 templates; the name filter leaves few
)

type wireTemplate struct {
	Name       string          `json:"name"`
	Language   string          `json:"language"`
	Status     string          `json:"status"`
	Category   string          `json:"category"`
	Format     string          `json:"parameter_format"`
	Components []wireComponent `json:"components"`
}

type wireComponent struct {
	Type    string       `json:"type"`
	Format  string       `json:"format"`
	Text    string       `json:"text"`
	Buttons []wireButton `json:"buttons"`
}

type wireButton struct {
	Type string `json:"type"`
	URL  string `json:"url"`
}

type wireTemplates struct {
	Data   *[]wireTemplate `json:"data"`
	Paging struct {
		Next    string `json:"next"` // only whether there is one: the address may hold a token
		Cursors struct {
			After string `json:"after"`
		} `json:"cursors"`
	} `json:"paging"`
}

// TemplateRef names a template of a business account, and the number whose
// token asks for it.
type TemplateRef struct {
	WABA     string
	Number   string // phone_number_id
	Name     string
	Language string // Meta's code, for example en_US
}

// Template reads a template. The error is ErrNotFound (and says in which
// languages the template does exist), ErrNotPermitted or ErrNoReads, or says
// that the question was not answered.
func (c *Client) Template(ctx context.Context, ref TemplateRef) (TemplateInfo, error) {
	var languages []string
	after := ""
	for range maxTemplatePages {
		var page wireTemplates
		if err := c.get(ctx, ref.Number, c.templatesURL(ref, after), &page); err != nil {
			return TemplateInfo{}, fmt.Errorf("read template %s: %w", ref.Name, err)
		}
		if page.Data == nil {
			return TemplateInfo{}, fmt.Errorf("read template %s: answer without a list: %w", ref.Name, ErrNoReads)
		}
		for _, t := range *page.Data {
			if t.Name != ref.Name { // the filter matches parts of names
				continue
			}
			if t.Language == ref.Language {
				return t.info(), nil
			}
			languages = append(languages, t.Language)
		}
		if after = page.Paging.Cursors.After; after == "" || page.Paging.Next == "" {
			break
		}
	}
	return TemplateInfo{}, missingTemplate(ref, languages)
}

func missingTemplate(ref TemplateRef, languages []string) error {
	if len(languages) == 0 {
		return fmt.Errorf("read template %s: no template of this name in business account %s: %w", ref.Name, ref.WABA, ErrNotFound)
	}
	slices.Sort(languages)
	return fmt.Errorf("read template %s: it exists in %s, not in %s: %w",
		ref.Name, strings.Join(languages, ", "), ref.Language, ErrNotFound)
}

func (c *Client) templatesURL(ref TemplateRef, after string) *url.URL {
	u := c.root.JoinPath(url.PathEscape(ref.WABA), "message_templates")
	q := url.Values{"name": {ref.Name}, "fields": {templateFields}, "limit": {fmt.Sprint(templatePage)}}
	if after != "" {
		q.Set("after", after)
	}
	u.RawQuery = q.Encode()
	return u
}

func (w wireTemplate) info() TemplateInfo {
	t := TemplateInfo{
		Name: w.Name, Language: w.Language, Status: strings.ToUpper(w.Status),
		Category: engine.Category(strings.ToLower(w.Category)),
		Named:    strings.EqualFold(w.Format, "named"),
	}
	for _, c := range w.Components {
		switch strings.ToUpper(c.Type) {
		case "HEADER":
			t.header(c)
		case "BODY":
			t.Needs = append(t.Needs, variables(partBody, c.Text)...)
		case "BUTTONS":
			for _, b := range c.Buttons {
				t.button(b)
			}
		case "FOOTER": // has no variables
		default:
			t.Unsupported = append(t.Unsupported, strings.ToLower(c.Type))
		}
	}
	return t
}

func (t *TemplateInfo) header(c wireComponent) {
	switch strings.ToUpper(c.Format) {
	case "TEXT", "":
		t.Needs = append(t.Needs, variables(partHeader, c.Text)...)
	case "IMAGE":
		t.Needs = append(t.Needs, Target{Part: partHeader, Kind: KindImage})
	case "VIDEO":
		t.Needs = append(t.Needs, Target{Part: partHeader, Kind: KindVideo})
	case "DOCUMENT":
		t.Needs = append(t.Needs, Target{Part: partHeader, Kind: KindDocument})
		t.May = append(t.May, Target{Part: partHeader, Kind: KindFilename})
	default:
		t.Unsupported = append(t.Unsupported, strings.ToLower(c.Format)+" header")
	}
}

// button notes what a button takes. A one-time password button is sent as a
// url button with the code as its text, whatever it looks like (Meta's page on
// authentication templates). Phone, voice call, flow and catalog buttons work
// without a parameter.
func (t *TemplateInfo) button(b wireButton) {
	kind, list := KindButton, &t.Needs
	switch strings.ToUpper(b.Type) {
	case "URL":
		if strings.Contains(b.URL, "{{") {
			kind = KindURL
		}
	case "OTP":
		kind = KindURL
	case "COPY_CODE":
		kind = KindCopyCode
	case "QUICK_REPLY":
		kind, list = KindQuickReply, &t.May
	case "MPM", "SPM":
		t.Unsupported = append(t.Unsupported, strings.ToLower(b.Type)+" button")
	}
	if kind != KindButton {
		*list = append(*list, Target{Part: partButton, Kind: kind, Index: len(t.Buttons)})
	}
	t.Buttons = append(t.Buttons, kind)
}

// variables finds {{1}} or {{first_name}} in a template's text, each once.
func variables(part, text string) []Target {
	var found []Target
	for {
		_, rest, ok := strings.Cut(text, "{{")
		if !ok {
			return found
		}
		name, rest, ok := strings.Cut(rest, "}}")
		if !ok {
			return found
		}
		text = rest
		t, hint := parseText(part, strings.TrimSpace(name))
		if hint == "" && !slices.Contains(found, t) {
			found = append(found, t)
		}
	}
}

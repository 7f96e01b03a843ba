package cloudapi

import (
	"fmt"
	"strconv"
	"strings"
)

// Kind is what a template parameter holds.
type Kind uint8

// The kinds of parameters that Weir can fill.
const (
	KindText       Kind = iota // header.1, header.name, body.1, body.name
	KindImage                  // header.image: a media id or an https link
	KindVideo                  // header.video
	KindDocument               // header.document
	KindFilename               // header.document.filename: the name the recipient sees
	KindButton                 // button.0: of a kind that only the template knows
	KindURL                    // button.0.url: the variable end of the link
	KindQuickReply             // button.0.quick_reply: the payload that comes back with a tap
	KindCopyCode               // button.0.copy_code: the coupon code
)

var kindNames = [...]string{"", "image", "video", "document", "document.filename", "", "url", "quick_reply", "copy_code"}

const (
	partHeader = "header"
	partBody   = "body"
	partButton = "button"

	maxPosition = 1024 // far above what a 1024 character body can hold
	maxButton   = 9    // a template has at most ten buttons
)

// Target is the place of one template parameter: the parsed form of
// engine.Param's Target.
type Target struct {
	Part  string // "header", "body" or "button"
	Kind  Kind
	Index int    // text: position from 1, or 0 when named; button: index from 0
	Name  string // text of a template with named parameters
}

// String is the target as an operator writes it.
func (t Target) String() string {
	switch {
	case t.Part == partButton && t.Kind == KindButton:
		return fmt.Sprintf("button.%d", t.Index)
	case t.Part == partButton:
		return fmt.Sprintf("button.%d.%s", t.Index, kindNames[t.Kind])
	case t.Kind != KindText:
		return t.Part + "." + kindNames[t.Kind]
	case t.Name != "":
		return t.Part + "." + t.Name
	default:
		return fmt.Sprintf("%s.%d", t.Part, t.Index)
	}
}

// ParseTarget reads body.1, body.first_name, header.1, header.first_name,
// header.image, header.video, header.document, header.document.filename,
// button.0, button.0.url, button.0.quick_reply and button.0.copy_code. The
// error says which of them the writer may have meant.
func ParseTarget(s string) (Target, error) {
	part, rest, _ := strings.Cut(s, ".")
	var t Target
	var hint string
	switch part {
	case partBody:
		t, hint = parseText(partBody, rest)
	case partHeader:
		t, hint = parseHeader(rest)
	case partButton:
		t, hint = parseButton(rest)
	default:
		hint = "start with body., header. or button., as in body.1 or button.0.url"
	}
	if hint != "" {
		return Target{}, fmt.Errorf("parse target %q: %s", s, hint)
	}
	return t, nil
}

func parseHeader(rest string) (Target, string) {
	for kind := KindImage; kind <= KindFilename; kind++ {
		if rest == kindNames[kind] {
			return Target{Part: partHeader, Kind: kind}, ""
		}
	}
	if strings.Contains(rest, ".") {
		return Target{}, "a header takes header.1, header.NAME, header.image, header.video, header.document or header.document.filename"
	}
	t, hint := parseText(partHeader, rest)
	if t.Index > 1 {
		return Target{}, "a header has one variable: write header.1"
	}
	return t, hint
}

func parseText(part, rest string) (Target, string) {
	if n, err := strconv.Atoi(rest); err == nil {
		if n < 1 || n > maxPosition || strconv.Itoa(n) != rest {
			return Target{}, "positions count from 1, as in " + part + ".1"
		}
		return Target{Part: part, Index: n}, ""
	}
	if !isName(rest) {
		return Target{}, "a parameter is a position (" + part + ".1) or a name of lower case letters, digits and underscores (" + part + ".first_name)"
	}
	return Target{Part: part, Name: rest}, ""
}

func parseButton(rest string) (Target, string) {
	number, kind, _ := strings.Cut(rest, ".")
	n, err := strconv.Atoi(number)
	if err != nil || n < 0 || n > maxButton || strconv.Itoa(n) != number {
		return Target{}, "buttons count from 0 to 9, as in button.0 or button.0.url"
	}
	if rest == number {
		return Target{Part: partButton, Kind: KindButton, Index: n}, ""
	}
	for k := KindURL; k <= KindCopyCode; k++ {
		if kind == kindNames[k] {
			return Target{Part: partButton, Kind: k, Index: n}, ""
		}
	}
	return Target{}, "a button is url, quick_reply or copy_code, as in button.0.url"
}

// isName follows Meta's rule for named parameters, with digits allowed after
// the first character as its own examples do.
func isName(s string) bool {
	if s == "" || len(s) > 64 || s[0] >= '0' && s[0] <= '9' {
		return false
	}
	for _, c := range []byte(s) {
		if c != '_' && (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			return false
		}
	}
	return true
}

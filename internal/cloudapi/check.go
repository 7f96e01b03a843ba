package cloudapi

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weirhq/weir/engine"
)

// TemplateError says in an operator's words why a campaign cannot use a
// template as it stands. It has at least one problem.
type TemplateError struct {
	Template string
	Problems []string
}

// Error lists the problems in one line.
func (e *TemplateError) Error() string {
	return "template " + e.Template + " " + strings.Join(e.Problems, "; ")
}

// CheckTemplate compares what a campaign would send with what Meta says of the
// template: approval, category, parameters missing or surplus. It returns the
// template with button.N resolved to the button's kind and, where the campaign
// named no category, Meta's. The error is a *TemplateError with every problem.
func CheckTemplate(info TemplateInfo, t engine.Template) (engine.Template, error) {
	e := &TemplateError{Template: info.Name}
	if info.Status != "APPROVED" {
		e.add("is %s at Meta: only an approved template can be sent", strings.ToLower(info.Status))
	}
	for _, u := range info.Unsupported {
		e.add("has a part that Weir cannot fill: %s", u)
	}
	switch {
	case t.Category == "":
		t.Category = info.Category
	case info.Category != "" && t.Category != info.Category:
		e.add("is %s at Meta, not %s: create the campaign with --category %[1]s", info.Category, t.Category)
	}
	var given []Target
	t.Params, given = e.resolve(info, t.Params)
	for _, need := range info.Needs {
		if !slices.Contains(given, need) {
			e.add("needs %s: add --param %[1]s=COLUMN", need)
		}
	}
	if len(e.Problems) == 0 {
		if err := CheckParams(t.Params); err != nil {
			e.add("cannot be filled: %v", err)
		}
	}
	if len(e.Problems) > 0 {
		return engine.Template{}, e
	}
	return t, nil
}

func (e *TemplateError) add(format string, args ...any) {
	e.Problems = append(e.Problems, fmt.Sprintf(format, args...))
}

func (e *TemplateError) resolve(info TemplateInfo, params []engine.Param) ([]engine.Param, []Target) {
	resolved := slices.Clone(params)
	var given []Target
	for i := range resolved {
		t, err := ParseTarget(resolved[i].Target)
		if err != nil {
			e.add("cannot be filled: %v", err)
			continue
		}
		if t.Kind == KindButton && t.Index < len(info.Buttons) && info.Buttons[t.Index] != KindButton {
			t.Kind = info.Buttons[t.Index]
		}
		if !slices.Contains(info.Needs, t) && !slices.Contains(info.May, t) {
			e.add("takes no %s: it takes %s", t, info.takes())
			continue
		}
		resolved[i].Target = t.String()
		given = append(given, t)
	}
	return resolved, given
}

// takes lists a template's parameters for an error text.
func (info TemplateInfo) takes() string {
	var names []string
	for _, t := range slices.Concat(info.Needs, info.May) {
		names = append(names, t.String())
	}
	if names == nil {
		return "no parameters"
	}
	return strings.Join(names, ", ")
}

package cloudapi

import (
	"errors"
	"strings"
	"testing"

	"github.com/weirhq/weir/engine"
)

// complete gives orderInfo all it takes.
func complete() []engine.Param {
	return []engine.Param{
		{Target: "header.document", Column: 0},
		{Target: "body.1", Column: 1},
		{Target: "body.2", Column: 2},
		{Target: "button.1", Column: 3},
		{Target: "button.4", Column: 4},
		{Target: "button.2", Column: 5},
	}
}

func TestCheckTemplate(t *testing.T) {
	t.Parallel()
	params := complete()
	got, err := CheckTemplate(orderInfo, engine.Template{Name: "order_update", Params: params})
	if err != nil {
		t.Fatal(err)
	}
	var targets []string
	for _, p := range got.Params {
		targets = append(targets, p.Target)
	}
	want := "header.document body.1 body.2 button.1.url button.4.copy_code button.2.quick_reply"
	if strings.Join(targets, " ") != want || got.Category != engine.Utility {
		t.Errorf("got %v, category %v", targets, got.Category)
	}
	if params[3].Target != "button.1" {
		t.Error("the caller's parameters were changed")
	}
}

func TestCheckTemplateNamesProblems(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		info     func(*TemplateInfo)
		template func(*engine.Template)
		want     []string
	}{
		"missing":        {template: func(m *engine.Template) { m.Params = m.Params[:3] }, want: []string{"needs button.1.url: add --param button.1.url=COLUMN", "needs button.4.copy_code: add --param button.4.copy_code=COLUMN"}},
		"surplus":        {template: func(m *engine.Template) { m.Params = append(m.Params, literal("body.3", "x")) }, want: []string{"takes no body.3: it takes header.document, body.1, body.2, button.1.url, button.4.copy_code, header.document.filename, button.2.quick_reply"}},
		"static button":  {template: func(m *engine.Template) { m.Params = append(m.Params, literal("button.3", "x")) }, want: []string{"takes no button.3"}},
		"no such button": {template: func(m *engine.Template) { m.Params = append(m.Params, literal("button.7", "x")) }, want: []string{"takes no button.7"}},
		"wrong kind":     {template: func(m *engine.Template) { m.Params[3].Target = "button.1.copy_code" }, want: []string{"takes no button.1.copy_code", "needs button.1.url"}},
		"nonsense":       {template: func(m *engine.Template) { m.Params = append(m.Params, literal("footer", "x")) }, want: []string{"cannot be filled: parse target"}},
		"twice":          {template: func(m *engine.Template) { m.Params = append(m.Params, literal("button.1.url", "x")) }, want: []string{"given twice"}},
		"not approved":   {info: func(i *TemplateInfo) { i.Status = "PAUSED" }, want: []string{"is paused at Meta"}},
		"category":       {template: func(m *engine.Template) { m.Category = engine.Marketing }, want: []string{"is utility at Meta, not marketing: create the campaign with --category utility"}},
		"unsupported":    {info: func(i *TemplateInfo) { i.Unsupported = []string{"carousel"} }, want: []string{"Weir cannot fill: carousel"}},
		"no parameters":  {info: func(i *TemplateInfo) { *i = TemplateInfo{Name: "n", Status: "APPROVED"} }, template: func(m *engine.Template) { m.Params = m.Params[1:2] }, want: []string{"it takes no parameters"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			info, m := orderInfo, engine.Template{Name: "order_update", Params: complete()}
			if tc.info != nil {
				tc.info(&info)
			}
			if tc.template != nil {
				tc.template(&m)
			}
			_, err := CheckTemplate(info, m)
			var problems *TemplateError
			if !errors.As(err, &problems) || len(problems.Problems) != len(tc.want) {
				t.Fatalf("got %v", err)
			}
			if text := problems.Error(); !strings.HasPrefix(text, "template "+info.Name+" "+problems.Problems[0]) {
				t.Errorf("error text %q", text)
			}
			for i, want := range tc.want {
				if !strings.Contains(problems.Problems[i], want) {
					t.Errorf("got %q, want %q", problems.Problems[i], want)
				}
			}
		})
	}
}

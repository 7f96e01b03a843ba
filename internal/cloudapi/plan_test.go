package cloudapi

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/weirhq/weir/engine"
)

func TestParseTarget(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Target{
		"body.1":                   {Part: "body", Index: 1},
		"body.12":                  {Part: "body", Index: 12},
		"body.first_name":          {Part: "body", Name: "first_name"},
		"header.1":                 {Part: "header", Index: 1},
		"header.city":              {Part: "header", Name: "city"},
		"header.image":             {Part: "header", Kind: KindImage},
		"header.video":             {Part: "header", Kind: KindVideo},
		"header.document":          {Part: "header", Kind: KindDocument},
		"header.document.filename": {Part: "header", Kind: KindFilename},
		"button.0":                 {Part: "button", Kind: KindButton},
		"button.9.url":             {Part: "button", Kind: KindURL, Index: 9},
		"button.1.quick_reply":     {Part: "button", Kind: KindQuickReply, Index: 1},
		"button.2.copy_code":       {Part: "button", Kind: KindCopyCode, Index: 2},
	} {
		got, err := ParseTarget(text)
		if err != nil || got != want || got.String() != text {
			t.Errorf("%q: got %+v (%s), %v", text, got, got, err)
		}
	}
	for text, hint := range map[string]string{
		"":                      "start with body.",
		"footer.1":              "start with body.",
		"1":                     "start with body.",
		"body":                  "body.1",
		"body.0":                "count from 1",
		"body.01":               "count from 1",
		"body.-1":               "count from 1",
		"body.99999":            "count from 1",
		"body.First":            "lower case",
		"body.a.b":              "lower case",
		"header.2":              "one variable",
		"header.image.filename": "header.document.filename",
		"button":                "button.0",
		"button.10":             "from 0 to 9",
		"button.00":             "from 0 to 9",
		"button.0.flow":         "url, quick_reply or copy_code",
		"button.0.url.x":        "url, quick_reply or copy_code",
	} {
		if got, err := ParseTarget(text); err == nil || !strings.Contains(err.Error(), hint) {
			t.Errorf("%q: got %+v, %v", text, got, err)
		}
	}
}

func literal(target, value string) engine.Param {
	return engine.Param{Target: target, Column: -1, Literal: value}
}

func TestRequestComponents(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		params []engine.Param
		want   string
	}{
		"no variables": {nil, ``},
		"positions in any order": {
			[]engine.Param{literal("body.2", "two"), literal("header.1", "head"), literal("body.1", "one")},
			`[{"type":"header","parameters":[{"type":"text","text":"head"}]},
			{"type":"body","parameters":[{"type":"text","text":"one"},{"type":"text","text":"two"}]}]`,
		},
		"names": {
			[]engine.Param{literal("body.first_name", "Ana"), literal("header.city", "Lima"), literal("body.order_no", "A-77")},
			`[{"type":"header","parameters":[{"type":"text","parameter_name":"city","text":"Lima"}]},
			{"type":"body","parameters":[{"type":"text","parameter_name":"first_name","text":"Ana"},{"type":"text","parameter_name":"order_no","text":"A-77"}]}]`,
		},
		"image by id": {
			[]engine.Param{literal("header.image", "1234")},
			`[{"type":"header","parameters":[{"type":"image","image":{"id":"1234"}}]}]`,
		},
		"video by link": {
			[]engine.Param{literal("header.video", "https://cdn.example/v.mp4")},
			`[{"type":"header","parameters":[{"type":"video","video":{"link":"https://cdn.example/v.mp4"}}]}]`,
		},
		"document with a name": {
			[]engine.Param{literal("header.document.filename", "bill.pdf"), literal("header.document", "99")},
			`[{"type":"header","parameters":[{"type":"document","document":{"id":"99","filename":"bill.pdf"}}]}]`,
		},
		"document whose name is empty": {
			[]engine.Param{literal("header.document.filename", ""), literal("header.document", "99")},
			`[{"type":"header","parameters":[{"type":"document","document":{"id":"99"}}]}]`,
		},
		"buttons in order": {
			[]engine.Param{literal("button.2.copy_code", "SAVE10"), literal("button.0.url", "A-77"), literal("button.1.quick_reply", "stop:c42")},
			`[{"type":"button","sub_type":"url","index":"0","parameters":[{"type":"text","text":"A-77"}]},
			{"type":"button","sub_type":"quick_reply","index":"1","parameters":[{"type":"payload","payload":"stop:c42"}]},
			{"type":"button","sub_type":"copy_code","index":"2","parameters":[{"type":"coupon_code","coupon_code":"SAVE10"}]}]`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rendersAs(t, tc.params, tc.want)
		})
	}
}

// rendersAs compares the components that literals make, and those of the same
// values from columns: where a value comes from makes no difference.
func rendersAs(t *testing.T, literals []engine.Param, components string) {
	t.Helper()
	want := `{"type":"template","template":{"name":"n","language":{"code":"pt_BR"}}}`
	if components != "" {
		want = strings.TrimSuffix(want, "}}") + `,"components":` + components + "}}"
	}
	sameJSON(t, want, render(t, &engine.Template{Name: "n", Language: "pt_BR", Params: literals}, nil))
	values := make([]string, len(literals))
	params := make([]engine.Param, len(literals))
	for i, p := range literals {
		values[i], params[i] = p.Literal, engine.Param{Target: p.Target, Column: i}
	}
	sameJSON(t, want, render(t, &engine.Template{Name: "n", Language: "pt_BR", Params: params}, values))
}

func render(t interface{ Fatal(...any) }, tm *engine.Template, values []string) string {
	p, err := compile(tm)
	if err != nil {
		t.Fatal(err)
	}
	return "{" + strings.TrimPrefix(string(p.append(nil, values)), ",")
}

func TestCheckParams(t *testing.T) {
	t.Parallel()
	for targets, hint := range map[string]string{
		"body.1 body.3":                         "body.2 is not",
		"body.2":                                "body.1 is not",
		"body.1 body.1":                         "given twice",
		"body.1 body.name":                      "mix names and positions",
		"header.1 header.image":                 "one header",
		"header.1 header.name":                  "one variable",
		"header.image header.video":             "one header",
		"header.document.filename":              "needs header.document",
		"header.image header.document.filename": "needs header.document",
		"button.0":                              "button.0.url",
		"button.0.url button.0.copy_code":       "same button",
		"nonsense":                              "start with body.",
	} {
		var params []engine.Param
		for _, target := range strings.Fields(targets) {
			params = append(params, literal(target, "x"))
		}
		if err := CheckParams(params); err == nil || !strings.Contains(err.Error(), hint) {
			t.Errorf("%s: got %v, want %q", targets, err, hint)
		}
	}
	if err := CheckParams(testTemplate().Params); err != nil {
		t.Error(err)
	}
}

func TestAnyTextSurvivesEncoding(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.OneOf(
			rapid.String(),
			rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }),
			rapid.StringOf(rapid.RuneFrom([]rune("\"\\\n\r\t\x00\x1f\x7f<>&\u2028é😀a"))),
		).Draw(t, "s")
		var got, want string
		if err := json.Unmarshal(appendJSON(nil, s), &got); err != nil {
			t.Fatal(err)
		}
		theirs, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(theirs, &want); err != nil {
			t.Fatal(err)
		}
		if got != want {
			t.Fatalf("got %q, want %q", got, want)
		}
	})
}

// Another system gave a whole batch the first contact's parameters: parameter
// k of row r must reach the phone of row r, also when calls run side by side.
func TestEachRowGetsItsOwnParameters(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	got := make(map[string][]string)
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		to, texts := readTexts(t, r.Body)
		mu.Lock()
		got[to] = texts
		mu.Unlock()
		_, _ = io.WriteString(w, acceptedBody)
	})
	c := newTestClient(t, s.URL, nil)
	rapid.Check(t, func(t *rapid.T) {
		rows := rapid.SliceOfN(rapid.SliceOfN(rapid.String(), 3, 3), 1, 12).Draw(t, "rows")
		columns := rapid.Permutation([]int{0, 1, 2}).Draw(t, "columns")
		tm := &engine.Template{Name: "n", Language: "en"}
		for i, column := range columns {
			tm.Params = append(tm.Params, engine.Param{Target: fmt.Sprintf("body.%d", i+1), Column: column})
		}
		want := make(map[string][]string)
		var calls sync.WaitGroup
		for r, values := range rows {
			m := engine.Message{Number: testNumber, Recipient: int64(r + 1), To: fmt.Sprintf("+1555%07d", r), Template: tm, Values: values}
			want[m.To] = []string{values[columns[0]], values[columns[1]], values[columns[2]]}
			calls.Go(func() { c.Send(t.Context(), m) })
		}
		calls.Wait()
		mu.Lock()
		defer mu.Unlock()
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatal(diff)
		}
		clear(got)
	})
}

func readTexts(t *testing.T, body io.Reader) (to string, texts []string) {
	var m struct {
		To       string
		Template struct {
			Components []struct{ Parameters []struct{ Text string } }
		}
	}
	if err := json.NewDecoder(body).Decode(&m); err != nil {
		t.Error(err)
		return "", nil
	}
	for _, p := range m.Template.Components[0].Parameters {
		texts = append(texts, p.Text)
	}
	return m.To, texts
}

func TestPlansAreBounded(t *testing.T) {
	t.Parallel()
	c := newTestClient(t, "http://localhost", nil)
	for range 3 * maxPlans {
		if _, err := c.plan(testTemplate()); err != nil {
			t.Fatal(err)
		}
	}
	n := 0
	c.plans.Range(func(any, any) bool { n++; return true })
	if n > maxPlans {
		t.Errorf("%d plans are kept", n)
	}
}

package cloudapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weirhq/weir/engine"
)

const orderTemplate = `{"name":"order_update","language":"en_US","status":"APPROVED","category":"UTILITY","parameter_format":"POSITIONAL","components":[
	{"type":"HEADER","format":"DOCUMENT"},
	{"type":"BODY","text":"Hi {{1}}, order {{2}} of {{1}} is ready."},
	{"type":"FOOTER","text":"Weir"},
	{"type":"BUTTONS","buttons":[{"type":"PHONE_NUMBER","phone_number":"+1555"},{"type":"URL","url":"https://x.example/{{1}}"},
		{"type":"QUICK_REPLY","text":"Stop"},{"type":"URL","url":"https://x.example/"},{"type":"COPY_CODE"}]}]}`

var orderInfo = TemplateInfo{
	Name: "order_update", Language: "en_US", Status: "APPROVED", Category: engine.Utility,
	Needs: []Target{
		{Part: "header", Kind: KindDocument},
		{Part: "body", Index: 1},
		{Part: "body", Index: 2},
		{Part: "button", Kind: KindURL, Index: 1},
		{Part: "button", Kind: KindCopyCode, Index: 4},
	},
	May: []Target{
		{Part: "header", Kind: KindFilename},
		{Part: "button", Kind: KindQuickReply, Index: 2},
	},
	Buttons: []Kind{KindButton, KindURL, KindQuickReply, KindButton, KindCopyCode},
}

var orderRef = TemplateRef{WABA: "1022", Number: testNumber, Name: "order_update", Language: "en_US"}

func answers(t *testing.T, status int, body string) *Client {
	t.Helper()
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	})
	return newTestClient(t, s.URL, nil)
}

func TestTemplateIsFound(t *testing.T) {
	t.Parallel()
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		if r.URL.Path != "/v25.0/1022/message_templates" || q.Get("name") != "order_update" || r.Header.Get("Authorization") != "Bearer "+testToken {
			t.Errorf("asked %s", r.URL)
		}
		if q.Get("after") == "" { // the name filter matches parts, and pages may end anywhere
			_, _ = io.WriteString(w, `{"data":[{"name":"order_update_2","language":"en_US"},{"name":"order_update","language":"pt_BR"}],
				"paging":{"next":"https://graph.facebook.com/?access_token=x","cursors":{"after":"c1"}}}`)
			return
		}
		_, _ = io.WriteString(w, `{"data":[`+orderTemplate+`]}`)
	})
	got, err := newTestClient(t, s.URL, nil).Template(t.Context(), orderRef)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(orderInfo, got); diff != "" {
		t.Error(diff)
	}
}

func TestTemplateShapes(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		template string
		want     TemplateInfo
	}{
		"named": {
			`{"parameter_format":"NAMED","components":[{"type":"header","format":"text","text":"{{city}}"},{"type":"body","text":"{{ first_name }} {{order_no}} {{broken"}]}`,
			TemplateInfo{Named: true, Needs: []Target{{Part: "header", Name: "city"}, {Part: "body", Name: "first_name"}, {Part: "body", Name: "order_no"}}},
		},
		"one-time password": {
			`{"category":"AUTHENTICATION","components":[{"type":"BODY","text":"{{1}} is your code"},{"type":"BUTTONS","buttons":[{"type":"OTP","otp_type":"COPY_CODE"}]}]}`,
			TemplateInfo{
				Category: engine.Authentication, Buttons: []Kind{KindURL},
				Needs: []Target{{Part: "body", Index: 1}, {Part: "button", Kind: KindURL}},
			},
		},
		"image": {
			`{"components":[{"type":"HEADER","format":"IMAGE"}]}`,
			TemplateInfo{Needs: []Target{{Part: "header", Kind: KindImage}}},
		},
		"video": {
			`{"components":[{"type":"HEADER","format":"VIDEO"}]}`,
			TemplateInfo{Needs: []Target{{Part: "header", Kind: KindVideo}}},
		},
		"not supported": {
			`{"components":[{"type":"HEADER","format":"LOCATION"},{"type":"CAROUSEL"},{"type":"BUTTONS","buttons":[{"type":"MPM"}]}]}`,
			TemplateInfo{Unsupported: []string{"location header", "carousel", "mpm button"}, Buttons: []Kind{KindButton}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			template := strings.Replace(tc.template, "{", `{"name":"order_update","language":"en_US","status":"APPROVED",`, 1)
			tc.want.Name, tc.want.Language, tc.want.Status = "order_update", "en_US", "APPROVED"
			got, err := answers(t, 200, `{"data":[`+template+`]}`).Template(t.Context(), orderRef)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestReadErrors(t *testing.T) {
	t.Parallel()
	graph := func(code, subcode int, message string) string {
		return fmt.Sprintf(`{"error":{"code":%d,"error_subcode":%d,"message":%q,"type":"OAuthException"}}`, code, subcode, message)
	}
	for name, tc := range map[string]struct {
		status int
		body   string
		want   error // nil: none of the three
		text   string
	}{
		"token expired":      {401, graph(190, 0, "for "+testToken), ErrNotPermitted, "new token"},
		"no permission":      {403, graph(10, 0, "x"), ErrNotPermitted, "system user"},
		"no such object":     {400, graph(100, 33, "x"), ErrNotFound, "WhatsApp Manager"},
		"not visible":        {404, graph(803, 0, "x"), ErrNotFound, "WhatsApp Manager"},
		"no such field":      {400, graph(100, 0, "(#100) Tried accessing nonexisting field"), ErrNoReads, ""},
		"no such edge":       {400, graph(2500, 0, "Unknown path components: /message_templates"), ErrNoReads, ""},
		"plain 404":          {404, "404 page not found", ErrNoReads, "404"},
		"plain 405":          {405, "", ErrNoReads, "405"},
		"plain 401":          {401, "", ErrNotPermitted, "401"},
		"HTML with 200":      {200, "<html>", ErrNoReads, ""},
		"JSON of no use":     {200, `{"ok":true}`, ErrNoReads, ""},
		"throttled":          {429, graph(80007, 0, "x"), nil, "call limit"},
		"down":               {503, graph(2, 0, "x"), nil, "down"},
		"gateway":            {502, "<html>", nil, "502"},
		"gateway's 404":      {404, `{"error":{"code":404,"message":"no route"}}`, ErrNoReads, "404"},
		"gateway's 401":      {401, `{"error":{"code":401,"message":"who?"}}`, ErrNotPermitted, "HTTP 401"},
		"redirect":           {307, "", nil, "307"},
		"unlisted and wordy": {400, graph(999999, 0, "no "+testPhone+" here"), nil, "999999"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := answers(t, tc.status, tc.body)
			_, templateErr := c.Template(t.Context(), orderRef)
			_, numberErr := c.Number(t.Context(), testNumber)
			for _, err := range []error{templateErr, numberErr} {
				if err == nil {
					t.Fatal("no error")
				}
				for _, kind := range []error{ErrNotFound, ErrNotPermitted, ErrNoReads} {
					if errors.Is(err, kind) != (kind == tc.want) {
						t.Errorf("%q is %v: %v", err, kind, errors.Is(err, kind))
					}
				}
				if !strings.Contains(err.Error(), tc.text) {
					t.Errorf("%q does not say %q", err, tc.text)
				}
				noSecrets(t, err.Error())
			}
		})
	}
}

func TestReadsThatGetNoAnswer(t *testing.T) {
	t.Parallel()
	_, err := newTestClient(t, nobody, nil).Number(t.Context(), testNumber)
	if err == nil || err.Error() != "read number "+testNumber+": connect: refused" {
		t.Errorf("got %v", err)
	}
	c := newTestClient(t, nobody, func(o *Options) { o.Token = func(context.Context, string) (string, error) { return "", ErrNoToken } })
	if _, err := c.Number(t.Context(), testNumber); !errors.Is(err, ErrNoToken) {
		t.Errorf("got %v", err)
	}
}

func TestTemplateInAnotherLanguage(t *testing.T) {
	t.Parallel()
	_, err := answers(t, 200, `{"data":[{"name":"order_update","language":"pt_BR"},{"name":"order_update","language":"es"}]}`).Template(t.Context(), orderRef)
	if !errors.Is(err, ErrNotFound) || !strings.Contains(err.Error(), "it exists in es, pt_BR, not in en_US") {
		t.Errorf("got %v", err)
	}
	_, err = answers(t, 200, `{"data":[]}`).Template(t.Context(), orderRef)
	if !errors.Is(err, ErrNotFound) || !strings.Contains(err.Error(), "business account 1022") {
		t.Errorf("got %v", err)
	}
}

func TestNumber(t *testing.T) {
	t.Parallel()
	const base = `"id":"` + testNumber + `","display_phone_number":"+1 555-078-3881","verified_name":"Weir","quality_rating":"GREEN","status":"CONNECTED"`
	want := NumberInfo{ID: testNumber, Display: "+1 555-078-3881", Name: "Weir", Quality: "GREEN", Status: "CONNECTED"}
	for name, tc := range map[string]struct {
		more string
		want func(*NumberInfo)
	}{
		"plain":    {``, func(*NumberInfo) {}},
		"standard": {`,"throughput":{"level":"STANDARD"}`, func(n *NumberInfo) { n.MPS = 80 }},
		"high": {
			`,"throughput":{"level":"HIGH"},"whatsapp_business_manager_messaging_limit":"TIER_UNLIMITED"`,
			func(n *NumberInfo) { n.MPS, n.Limit = 1000, "TIER_UNLIMITED" },
		},
		"coexistence": {`,"throughput":{"level":"HIGH"},"is_on_biz_app":true`, func(n *NumberInfo) { n.MPS, n.Coexistence = 20, true }},
		"webhook of the app": {
			`,"webhook_configuration":{"application":"https://a.example/hook"}`,
			func(n *NumberInfo) { n.WebhookURL = "https://a.example/hook" },
		},
		"webhook overridden": {
			`,"webhook_configuration":{"application":"https://a.example","whatsapp_business_account":"https://w.example","phone_number":"https://n.example"}`,
			func(n *NumberInfo) { n.WebhookURL = "https://n.example" },
		},
		"odd types": {`,"throughput":"HIGH","webhook_configuration":[]`, func(*NumberInfo) {}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := want
			tc.want(&want)
			got, err := answers(t, 200, "{"+base+tc.more+"}").Number(t.Context(), testNumber)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestNumberWithFewerFields(t *testing.T) {
	t.Parallel()
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Query().Get("fields"), "is_on_biz_app") {
			w.WriteHeader(400)
			_, _ = io.WriteString(w, `{"error":{"code":100,"message":"(#100) Tried accessing nonexisting field (is_on_biz_app)"}}`)
			return
		}
		_, _ = io.WriteString(w, `{"id":"1","throughput":{"level":"STANDARD"}}`)
	})
	got, err := newTestClient(t, s.URL, nil).Number(t.Context(), "1")
	if err != nil || got.MPS != 80 {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestReadsDoNotCarryTheTokenElsewhere(t *testing.T) {
	t.Parallel()
	elsewhere := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("a redirect was followed") })
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, elsewhere.URL, http.StatusFound)
	})
	if _, err := newTestClient(t, s.URL, nil).Number(t.Context(), testNumber); err == nil || !strings.Contains(err.Error(), "HTTP 302") {
		t.Errorf("got %v", err)
	}
}

package sim

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// catalog has one template of each kind that a check distinguishes.
var catalog = []Template{
	{Name: "plain", Language: "en_US", Components: []Component{{Type: "BODY", Text: "Hello."}}},
	{Name: "two", Language: "en_US", Category: "UTILITY", Components: []Component{{Type: "BODY", Text: "Hi {{1}}, order {{2}}."}}},
	{Name: "named", Language: "pt_BR", ParameterFormat: "named", Components: []Component{
		{Type: "HEADER", Format: "TEXT", Text: "For {{city}}"}, {Type: "BODY", Text: "Oi {{first_name}}, {{item}}."},
	}},
	{Name: "image", Language: "en_US", Components: []Component{{Type: "HEADER", Format: "IMAGE"}, {Type: "BODY", Text: "Look."}}},
	{Name: "buttons", Language: "en_US", Components: []Component{
		{Type: "BODY", Text: "Tap."},
		{Type: "BUTTONS", Buttons: []Button{
			{Type: "URL", Text: "Open", URL: "https://example.com/{{1}}"},
			{Type: "COPY_CODE", Text: "Copy", Example: textList{"A1"}},
			{Type: "QUICK_REPLY", Text: "Stop"},
			{Type: "URL", Text: "Fixed", URL: "https://example.com/"},
		}},
	}},
	{Name: "otp", Language: "en_US", Category: "AUTHENTICATION", Components: []Component{
		{Type: "BODY", Text: "{{1}} is your code."}, {Type: "BUTTONS", Buttons: []Button{{Type: "OTP", OTPType: "COPY_CODE"}}},
	}},
	{Name: "paused", Language: "en_US", Status: "PAUSED"},
	{Name: "disabled", Language: "en_US", Status: "DISABLED"},
	{Name: "rejected", Language: "en_US", Status: "REJECTED"},
}

func strict(t *testing.T) *Sim {
	return mustNew(t, Options{
		Tokens: []string{"token"},
		Numbers: []Number{
			{ID: number, WABA: "55", Display: "+15550001111"},
			{ID: "7", WABA: "55", Display: "+15550002222", Test: true, Allowed: []string{"+16505551234"}},
			{ID: "8", WABA: "56", Display: "+5511999990000"},
		},
		Templates: catalog,
	})
}

// msg builds a message around a template object and extra top-level fields.
func msg(template, extra string) string {
	return `{"messaging_product":"whatsapp","recipient_type":"individual","to":"+16505551234","type":"template"` +
		extra + `,"template":` + template + `}`
}

func tmpl(name, language, components string) string {
	return `{"name":"` + name + `","language":{"code":"` + language + `"},"components":[` + components + `]}`
}

func bodyOf(params string) string { return `{"type":"body","parameters":[` + params + `]}` }

const (
	textA   = `{"type":"text","text":"a"}`
	url0    = `{"type":"button","sub_type":"url","index":"0","parameters":[{"type":"text","text":"x"}]}`
	code1   = `{"type":"button","sub_type":"copy_code","index":1,"parameters":[{"type":"coupon_code","coupon_code":"A1"}]}`
	reply2  = `,{"type":"button","sub_type":"quick_reply","index":"2","parameters":[{"type":"payload","payload":"stop"}]}`
	picture = `{"type":"header","parameters":[{"type":"image","image":{"link":"https://example.com/a.png"}}]}`
)

type exchange struct {
	name, path, body string
	status, code     int
	details          string // part of message or details
}

// answer is either kind of body as a client would decode it.
type answer struct {
	Error *struct {
		Code    int
		Subcode int `json:"error_subcode"`
		Message string
		Type    string
		Trace   string `json:"fbtrace_id"`
		Data    struct {
			Product string `json:"messaging_product"`
			Details string
		} `json:"error_data"`
	}
	Messages []struct{ ID string }
}

func (x exchange) run(t *testing.T, s *Sim) {
	t.Helper()
	if x.path == "" {
		x.path = path
	}
	rec := post(s.Handler(), x.path, x.body)
	if rec.Code != x.status {
		t.Fatalf("HTTP %d, want %d: %s", rec.Code, x.status, rec.Body)
	}
	var got answer
	if err := json.Unmarshal(rec.Body.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if x.status == http.StatusOK {
		if got.Error != nil || len(got.Messages) != 1 || !strings.HasPrefix(got.Messages[0].ID, "wamid.") {
			t.Fatalf("body %s", rec.Body)
		}
		return
	}
	e := got.Error
	if e == nil || e.Code != x.code || e.Type == "" || e.Trace == "" {
		t.Fatalf("body %s, want code %d with type and trace", rec.Body, x.code)
	}
	if !strings.Contains(e.Message+" "+e.Data.Details, x.details) {
		t.Errorf("message %q, details %q: want %q", e.Message, e.Data.Details, x.details)
	}
	last := s.Ledger()[len(s.Ledger())-1]
	if last.Outcome != Refused || last.Code != x.code || last.HTTP != x.status || last.WAMID != "" {
		t.Errorf("ledger %+v", last)
	}
}

func envelopes() []exchange {
	plainT := tmpl("plain", "en_US", "")
	return []exchange{
		{"accepted", "", msg(plainT, ""), 200, 0, ""},
		{"no version", "/" + number + "/messages", msg(plainT, ""), 200, 0, ""},
		{"unknown keys outside are ignored", "", msg(plainT, `,"messaging_account_id":"1"`), 200, 0, ""},
		{"formatted number", "", strings.Replace(msg(plainT, ""), "+16505551234", "+1 (650) 555-1234", 1), 200, 0, ""},
		{"unknown number", "/v25.0/999/messages", msg(plainT, ""), 400, 100, "Object with ID '999' does not exist"},
		{"not JSON", "", "hello", 400, 100, "messaging_product is required"},
		{"no product", "", strings.Replace(msg(plainT, ""), "messaging_product", "x", 1), 400, 100, "messaging_product is required"},
		{"other product", "", strings.Replace(msg(plainT, ""), `:"whatsapp"`, `:"sms"`, 1), 400, 100, "must be one of"},
		{"recipient type", "", strings.Replace(msg(plainT, ""), "individual", "crowd", 1), 400, 100, "recipient_type"},
		{"group", "", strings.Replace(msg(plainT, ""), "individual", "group", 1), 400, 131051, ""},
		{"to is a number", "", strings.Replace(msg(plainT, ""), `"+16505551234"`, "1650", 1), 400, 100, "Param to must be a string"},
		{"no to", "", strings.Replace(msg(plainT, ""), "+16505551234", "", 1), 400, 100, "parameter to is required"},
		{"bad to", "", strings.Replace(msg(plainT, ""), "+16505551234", "+1650x", 1), 400, 131009, "E.164"},
		{"long to", "", strings.Replace(msg(plainT, ""), "+16505551234", "+1650555123412345", 1), 400, 131009, "E.164"},
		{"to oneself", "", strings.Replace(msg(plainT, ""), "+16505551234", "+15550001111", 1), 400, 131021, ""},
		{"test number, allowed", "/v25.0/7/messages", msg(plainT, ""), 200, 0, ""},
		{"test number, not allowed", "/v25.0/7/messages", strings.Replace(msg(plainT, ""), "+16505551234", "+16505551235", 1), 400, 131030, ""},
		{"callback of 512", "", msg(plainT, `,"biz_opaque_callback_data":"`+strings.Repeat("é", 512)+`"`), 200, 0, ""},
		{"callback of 513", "", msg(plainT, `,"biz_opaque_callback_data":"`+strings.Repeat("é", 513)+`"`), 400, 131009, "512"},
		{"text", "", strings.Replace(msg(plainT, ""), `"template","t`, `"text","t`, 1), 400, 131047, ""},
		{"unknown type", "", strings.Replace(msg(plainT, ""), `"type":"template"`, `"type":"fax"`, 1), 400, 100, "Param type must be one of"},
		{"no template", "", `{"messaging_product":"whatsapp","to":"+16505551234","type":"template"}`, 400, 100, "template is required"},
	}
}

func marketingRoute() []exchange {
	const route = "/v25.0/" + number + "/marketing_messages"
	plainT := tmpl("plain", "en_US", "")
	return []exchange{
		{"marketing route", route, msg(plainT, `,"product_policy":"STRICT"`), 200, 0, ""},
		{"marketing route, text", route, strings.Replace(msg(plainT, ""), `"type":"template"`, `"type":"text"`, 1), 400, 131055, ""},
		{"marketing route, utility", route, msg(tmpl("two", "en_US", bodyOf(textA+","+textA)), ""), 400, 134100, ""},
	}
}

func TestEnvelopeExchanges(t *testing.T) {
	t.Parallel()
	for _, x := range append(envelopes(), marketingRoute()...) {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			x.run(t, strict(t))
		})
	}
}

func texts() []exchange {
	return []exchange{
		{"no name", "", `{"language":{"code":"en_US"}}`, 400, 131008, "name"},
		{"no language", "", `{"name":"plain"}`, 400, 131008, "language"},
		{"policy", "", `{"name":"plain","language":{"code":"en_US","policy":"fallback"}}`, 400, 131009, "deterministic"},
		{"unknown key", "", `{"name":"plain","language":{"code":"en_US"},"params":[]}`, 400, 100, "Unexpected key"},
		{"wrong kind of value", "", `{"name":"plain","language":"en_US"}`, 400, 100, "Param template['language']"},
		{"missing", "", tmpl("nope", "en_US", ""), 404, 132001, "(nope) does not exist in en_US"},
		{"other language", "", tmpl("plain", "de", ""), 404, 132001, "(plain) does not exist in de"},
		{"paused", "", tmpl("paused", "en_US", ""), 400, 132015, ""},
		{"disabled", "", tmpl("disabled", "en_US", ""), 400, 132016, ""},
		{"rejected", "", tmpl("rejected", "en_US", ""), 404, 132001, "REJECTED"},
		{"two parameters", "", tmpl("two", "en_US", bodyOf(textA+","+textA)), 200, 0, ""},
		{"one of two", "", tmpl("two", "en_US", bodyOf(textA)), 400, 132000, "body: number of localizable_params (1) does not match the expected number of params (2)"},
		{"three of two", "", tmpl("two", "en_US", bodyOf(textA+","+textA+","+textA)), 400, 132000, "(3)"},
		{"none of two", "", tmpl("two", "en_US", ""), 400, 132000, "(0)"},
		{"parameter for a fixed body", "", tmpl("plain", "en_US", bodyOf(textA)), 400, 132000, "(0)"},
		{"header for no header", "", tmpl("plain", "en_US", `{"type":"header","parameters":[`+textA+`]}`), 400, 132000, "header"},
		{"body given twice", "", tmpl("two", "en_US", bodyOf(textA)+","+bodyOf(textA)), 400, 131009, "twice"},
		{"empty text", "", tmpl("two", "en_US", bodyOf(textA+`,{"type":"text","text":""}`)), 400, 131008, "missing text value"},
		{"no text", "", tmpl("two", "en_US", bodyOf(textA+`,{"type":"text"}`)), 400, 131008, "missing text value"},
		{"newline", "", tmpl("two", "en_US", bodyOf(textA+`,{"type":"text","text":"a\nb"}`)), 400, 132018, "new-line"},
		{"five spaces", "", tmpl("two", "en_US", bodyOf(textA+`,{"type":"text","text":"a     b"}`)), 400, 132018, "4 consecutive"},
		{"four spaces", "", tmpl("two", "en_US", bodyOf(textA+`,{"type":"text","text":"a    b"}`)), 200, 0, ""},
		{"too long", "", tmpl("two", "en_US", bodyOf(textA+`,{"type":"text","text":"`+strings.Repeat("x", 1024)+`"}`)), 400, 132005, "1024 allowed"},
		{"image in a body", "", tmpl("two", "en_US", bodyOf(textA+`,{"type":"image","image":{"id":"1"}}`)), 400, 132012, "expected TEXT, received IMAGE"},
		{"currency and date", "", tmpl("two", "en_US", bodyOf(`{"type":"currency","currency":{"fallback_value":"$1","code":"USD","amount_1000":1000}},{"type":"date_time","date_time":{"fallback_value":"today"}}`)), 200, 0, ""},
		{"unknown parameter type", "", tmpl("two", "en_US", bodyOf(textA+`,{"type":"emoji"}`)), 400, 131009, "emoji"},
		{"unknown component", "", tmpl("plain", "en_US", `{"type":"carousel"}`), 400, 131009, "carousel"},
		{"named", "", named("city", "item", "first_name"), 200, 0, ""},
		{"named, no name", "", named("city", "item", ""), 400, 100, "Parameter name is missing or empty"},
		{"named, other name", "", named("city", "item", "surname"), 400, 132000, "surname"},
		{"named, twice", "", named("city", "item", "item"), 400, 132000, "twice"},
	}
}

func TestTemplateExchanges(t *testing.T) {
	t.Parallel()
	for _, x := range append(texts(), mediaAndButtons()...) {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			x.body = msg(x.body, "")
			x.run(t, strict(t))
		})
	}
}

func named(header, body1, body2 string) string {
	p := func(name string) string { return `{"type":"text","parameter_name":"` + name + `","text":"v"}` }
	return tmpl("named", "pt_BR", `{"type":"header","parameters":[`+p(header)+`]},`+bodyOf(p(body1)+","+p(body2)))
}

func mediaAndButtons() []exchange {
	swap := func(in, old, to string) string { return strings.Replace(in, old, to, 1) }
	return []exchange{
		{"image", "", tmpl("image", "en_US", picture), 200, 0, ""},
		{"image by id", "", tmpl("image", "en_US", swap(picture, `"link":"https://example.com/a.png"`, `"id":"12"`)), 200, 0, ""},
		{"image missing", "", tmpl("image", "en_US", ""), 400, 132012, "header: Format mismatch, expected IMAGE, received UNKNOWN"},
		{"text for an image", "", tmpl("image", "en_US", `{"type":"header","parameters":[`+textA+`]}`), 400, 132012, "received TEXT"},
		{"image without source", "", tmpl("image", "en_US", swap(picture, `"link":"https://example.com/a.png"`, "")), 400, 131008, "id or link"},
		{"image with both", "", tmpl("image", "en_US", swap(picture, `"link"`, `"id":"1","link"`)), 400, 131009, "both"},
		{"image at a bad link", "", tmpl("image", "en_US", swap(picture, "https://example.com/", "ftp://")), 400, 131009, "link"},
		{"all buttons", "", tmpl("buttons", "en_US", url0+","+code1+reply2), 200, 0, ""},
		{"without the quick reply", "", tmpl("buttons", "en_US", url0+","+code1), 200, 0, ""},
		{"no url", "", tmpl("buttons", "en_US", code1), 400, 131008, "Button at index 0 of type Url requires a parameter"},
		{"no code", "", tmpl("buttons", "en_US", url0), 400, 131008, "Button at index 1 of type CopyCode requires a parameter"},
		{"wrong sub_type", "", tmpl("buttons", "en_US", swap(url0, `"0"`, `"1"`)), 400, 132012, "index 1"},
		{"index beyond", "", tmpl("buttons", "en_US", swap(url0, `"0"`, `"4"`)+","+code1), 400, 132018, "no button at index 4"},
		{"index far beyond", "", tmpl("buttons", "en_US", swap(url0, `"0"`, `"11"`)), 400, 131009, "0 to 9"},
		{"index missing", "", tmpl("buttons", "en_US", swap(url0, `"index":"0",`, "")), 400, 131008, "index"},
		{"index not a number", "", tmpl("buttons", "en_US", swap(url0, `"0"`, `"first"`)), 400, 100, "template"},
		{"fixed url", "", tmpl("buttons", "en_US", url0+","+code1+","+swap(url0, `"0"`, `"3"`)), 400, 132018, "does not require"},
		{"button twice", "", tmpl("buttons", "en_US", url0+","+url0), 400, 131009, "twice"},
		{"unknown sub_type", "", tmpl("buttons", "en_US", swap(url0, `"url"`, `"fax"`)), 400, 131009, "sub_type"},
		{"no sub_type", "", tmpl("buttons", "en_US", swap(url0, `"url"`, `""`)), 400, 131008, "sub_type"},
		{"url with a payload", "", tmpl("buttons", "en_US", swap(url0, `{"type":"text","text":"x"}`, `{"type":"payload","payload":"x"}`)), 400, 132012, "expected text"},
		{"url with two", "", tmpl("buttons", "en_US", swap(url0, `{"type":"text","text":"x"}`, textA+","+textA)), 400, 132000, "buttons"},
		{"code of 20", "", tmpl("buttons", "en_US", url0+","+swap(code1, `"A1"`, `"`+strings.Repeat("A", 20)+`"`)), 200, 0, ""},
		{"code of 21", "", tmpl("buttons", "en_US", url0+","+swap(code1, `"A1"`, `"`+strings.Repeat("A", 21)+`"`)), 400, 131009, "20"},
		{"upper case sub_type", "", tmpl("buttons", "en_US", url0+","+swap(code1, "copy_code", "COPY_CODE")), 200, 0, ""},
		{"one-time password", "", tmpl("otp", "en_US", bodyOf(textA)+","+url0), 200, 0, ""},
		{"one-time password, no button", "", tmpl("otp", "en_US", bodyOf(textA)), 400, 131008, "requires a parameter"},
	}
}

func TestAuthorization(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, header string
		code         int
	}{{"none", "", 0}, {"basic", "Basic dG9rZW4=", 0}, {"other", "Bearer other", 190}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := strict(t)
			r := httptestRequest(http.MethodPost, path, hello("+16505551234", ""))
			r.Header.Set("Authorization", c.header)
			rec := serve(s, r)
			if !strings.Contains(rec.Body.String(), `"code":`+itoa(c.code)) || rec.Code != 401 || rec.Header().Get("WWW-Authenticate") == "" {
				t.Errorf("HTTP %d %s, want 401 with code %d", rec.Code, rec.Body, c.code)
			}
		})
	}
}

func TestToWithoutPlusGetsTheSendersCountry(t *testing.T) {
	t.Parallel()
	s := strict(t)
	body := strings.Replace(msg(tmpl("plain", "en_US", ""), ""), "+16505551234", "11987654321", 1)
	s2 := mustNew(t, Options{Numbers: []Number{{ID: "8", Display: "+5511999990000"}}})
	if rec := post(s2.Handler(), "/8/messages", body); rec.Code != 200 {
		t.Fatal(rec.Body)
	}
	if got := s2.Phone(1); got != "+5511987654321" {
		t.Errorf("sent to %s", got)
	}
	if e := s2.Ledger()[0]; !e.Prefixed || e.To != HashPhone("+5511987654321") {
		t.Errorf("ledger %+v: want the surprise noted", e)
	}
	if rec := post(s.Handler(), path, msg(tmpl("plain", "en_US", ""), "")); rec.Code != 200 || s.Ledger()[0].Prefixed {
		t.Error("a + must be no surprise")
	}
}

func TestWaIDVariants(t *testing.T) {
	t.Parallel()
	got := []string{waID(5511987654321), waID(5531987654321), waID(525512345678), waID(16505551234)}
	want := []string{"5511987654321", "553187654321", "5215512345678", "16505551234"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestZeroOptionsAcceptAnything(t *testing.T) {
	t.Parallel()
	s := mustNew(t, Options{})
	exchange{body: msg(tmpl("whatever", "xx", bodyOf(textA)+","+url0), ""), status: 200}.run(t, s)
	exchange{body: msg(tmpl("whatever", "xx", bodyOf(`{"type":"text","text":"a\tb"}`)), ""), status: 400, code: 132018}.run(t, s)
	exchange{path: "/v25.0/not-an-id/messages", body: msg(tmpl("x", "en", ""), ""), status: 400, code: 100}.run(t, s)
}

func TestNewRefusesContradictions(t *testing.T) {
	t.Parallel()
	_, err := New(Options{
		ReadShare: 2, WebhookURL: "nonsense", Workers: -1, Numbers: []Number{{ID: "1"}, {ID: "1"}},
		Failures: []Failure{{131026, 0.6}, {131049, 0.6}},
	})
	if err == nil {
		t.Fatal("no error")
	}
	for _, part := range []string{"ReadShare", "nonsense", "workers", `number id "1"`, "sum of the failures"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error %q does not name %q", err, part)
		}
	}
}

package cloudapi

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weirhq/weir/engine"
)

func TestSendMakesTheDocumentedRequest(t *testing.T) {
	t.Parallel()
	var got *http.Request
	var body []byte
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		got = r
		body, _ = io.ReadAll(r.Body)
		_, _ = io.WriteString(w, acceptedBody)
	})
	c := newTestClient(t, s.URL, nil)
	a := c.Send(t.Context(), testSend())
	if diff := cmp.Diff(engine.Answer{Action: engine.Accept, MessageID: testMessage}, a); diff != "" {
		t.Error(diff)
	}
	if got.Method != http.MethodPost || got.URL.String() != "/v25.0/"+testNumber+"/messages" {
		t.Errorf("request line: %s %s", got.Method, got.URL)
	}
	want := http.Header{
		"Authorization": {"Bearer " + testToken}, "Content-Type": {"application/json"},
		"Accept": {"application/json"}, "User-Agent": {"weir"}, "Content-Length": got.Header["Content-Length"],
	}
	if diff := cmp.Diff(want, got.Header); diff != "" {
		t.Errorf("headers: %s", diff)
	}
	sameJSON(t, `{"messaging_product":"whatsapp","recipient_type":"individual","to":"+5511987654321","type":"template",
		"biz_opaque_callback_data":"`+CallbackID{Recipient: 42, Claim: 3}.Encode(testKey)+`",
		"template":{"name":"order_update","language":{"code":"en_US"},"components":[
		{"type":"body","parameters":[{"type":"text","text":"Ana"},{"type":"text","text":"A-77"}]}]}}`, string(body))
}

func sameJSON(t *testing.T, want, got string) {
	t.Helper()
	var w, g any
	if err := json.Unmarshal([]byte(want), &w); err != nil {
		t.Fatalf("wanted JSON: %v", err)
	}
	if err := json.Unmarshal([]byte(got), &g); err != nil {
		t.Fatalf("JSON: %v in %s", err, got)
	}
	if diff := cmp.Diff(w, g); diff != "" {
		t.Error(diff)
	}
}

// withoutACall is a message that must not reach the wire.
type withoutACall struct {
	options func(*Options)
	message func(*engine.Message)
	cancel  bool
	want    engine.Action
	scope   engine.Scope
	local   bool // it says nothing of the platform
}

func TestSendWithoutACall(t *testing.T) {
	t.Parallel()
	closed := func() error { return errors.New("lease lost") }
	phone := func(to string) func(*engine.Message) { return func(m *engine.Message) { m.To = to } }
	for name, tc := range map[string]withoutACall{
		"fence closed":     {message: func(m *engine.Message) { m.Fence = closed }, want: engine.Release},
		"already canceled": {cancel: true, want: engine.Release},
		// Never Fail: "failed" is the platform's word, and it has said nothing.
		"phone without +":   {message: phone("5511987654321"), want: engine.StopCampaign, scope: engine.ScopeCampaign, local: true},
		"no phone":          {message: phone(""), want: engine.StopCampaign, scope: engine.ScopeCampaign, local: true},
		"plus alone":        {message: phone("+"), want: engine.StopCampaign, scope: engine.ScopeCampaign, local: true},
		"unwritable target": {message: func(m *engine.Message) { m.Template.Params[0].Target = "body.7" }, want: engine.StopCampaign, scope: engine.ScopeCampaign, local: true},
	} {
		t.Run(name, func(t *testing.T) { t.Parallel(); tc.run(t) })
	}
}

func TestSendWithoutAToken(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		token string
		err   error
		want  engine.Action
		scope engine.Scope
	}{
		"none":              {err: ErrNoToken, want: engine.StopNumber, scope: engine.ScopeNumber},
		"with a line break": {token: testToken + "\n", want: engine.StopNumber, scope: engine.ScopeNumber},
		"empty":             {want: engine.StopNumber, scope: engine.ScopeNumber},
		"unreadable":        {err: errors.New("disk " + testPhone), want: engine.Release, scope: engine.ScopeNumber},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			withoutACall{want: tc.want, scope: tc.scope, local: true, options: func(o *Options) {
				o.Token = func(context.Context, string) (string, error) { return tc.token, tc.err }
			}}.run(t)
		})
	}
}

func (tc withoutACall) run(t *testing.T) {
	t.Helper()
	s := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("a call was made") })
	c := newTestClient(t, s.URL, tc.options)
	m := testSend()
	if tc.message != nil {
		tc.message(&m)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if tc.cancel {
		cancel()
	}
	a := c.Send(ctx, m)
	if a.Action != tc.want || a.Scope != tc.scope || a.Local != tc.local {
		t.Errorf("got %v %v local %v %q, want %v %v", a.Action, a.Scope, a.Local, a.Title, tc.want, tc.scope)
	}
	noSecrets(t, a.Title)
}

// noSecrets is the promise that a text names nobody and opens nothing.
func noSecrets(t *testing.T, text string) {
	t.Helper()
	for _, secret := range []string{testPhone[1:], testToken, testMessage, "wamid"} {
		if strings.Contains(text, secret) {
			t.Errorf("%q contains %q", text, secret)
		}
	}
}

func TestRenewedTokenGivesTheRowBack(t *testing.T) {
	t.Parallel()
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = io.WriteString(w, `{"error":{"code":190,"message":"expired"}}`)
	})
	for current, want := range map[string]engine.Action{testToken: engine.StopNumber, "": engine.StopNumber, "a newer one": engine.Release} {
		c := newTestClient(t, s.URL, func(o *Options) {
			o.Renew = func(_ context.Context, number, refused string) (string, error) {
				if number != testNumber || refused != testToken {
					t.Errorf("renew(%q, %q)", number, refused)
				}
				return current, nil
			}
		})
		if a := c.Send(t.Context(), testSend()); a.Action != want {
			t.Errorf("current %q: got %v, want %v", current, a.Action, want)
		}
	}
}

func TestNewRefusesBadOptions(t *testing.T) {
	t.Parallel()
	good := Options{Token: fixedToken, CallbackKey: testKey}
	for name, change := range map[string]func(*Options){
		"no token":          func(o *Options) { o.Token = nil },
		"short key":         func(o *Options) { o.CallbackKey = testKey[:15] },
		"not a URL":         func(o *Options) { o.BaseURL = "graph" },
		"secret in URL":     func(o *Options) { o.BaseURL = "https://user:" + testToken + "@graph.facebook.com" },
		"token in query":    func(o *Options) { o.BaseURL = "https://graph.facebook.com?access_token=" + testToken },
		"plain http abroad": func(o *Options) { o.BaseURL = "http://graph.facebook.com" },
	} {
		o := good
		change(&o)
		_, err := New(o)
		if err == nil {
			t.Errorf("%s: no error", name)
			continue
		}
		noSecrets(t, err.Error())
	}
	for _, url := range []string{"", "http://127.0.0.1:9400/", "http://localhost:9400", "http://[::1]:9400"} {
		o := good
		o.BaseURL = url
		if _, err := New(o); err != nil {
			t.Errorf("%q: %v", url, err)
		}
	}
	good.BaseURL, good.Plaintext = "http://sim:9400", true
	if _, err := New(good); err != nil {
		t.Error(err)
	}
}

package cloudapi

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestHandshake(t *testing.T) {
	t.Parallel()
	const good = "hub.mode=subscribe&hub.challenge=1158201444&hub.verify_token=" + testVerify
	for query, want := range map[string]int{
		good: 200,
		"":   403,
		"hub.mode=subscribe&hub.challenge=1&hub.verify_token=wrong":                                        403,
		"hub.mode=subscribe&hub.challenge=1&hub.verify_token=":                                             403,
		"hub.mode=unsubscribe&hub.challenge=1&hub.verify_token=" + testVerify:                              403,
		"hub.mode=subscribe&hub.verify_token=" + testVerify + "&hub.challenge=" + strings.Repeat("1", 300): 403,
	} {
		w := httptest.NewRecorder()
		newTestReceiver(t, &memory{}, nil).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/?"+query, nil))
		if w.Code != want {
			t.Errorf("%q: got %d, want %d", query, w.Code, want)
		}
		wantBody := ""
		if want == 200 {
			wantBody = "1158201444"
		}
		if w.Body.String() != wantBody {
			t.Errorf("%q: body %q", query, w.Body)
		}
	}
	none := newTestReceiver(t, &memory{}, func(o *ReceiverOptions) { o.VerifyToken = "" })
	w := httptest.NewRecorder()
	none.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/?hub.mode=subscribe&hub.challenge=1", nil))
	if w.Code != 403 {
		t.Errorf("no verify token: got %d", w.Code)
	}
}

func TestOtherMethodsAreRefused(t *testing.T) {
	t.Parallel()
	w := httptest.NewRecorder()
	newTestReceiver(t, &memory{}, nil).ServeHTTP(w, httptest.NewRequest(http.MethodPut, "/", nil))
	if w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") != "GET, POST" {
		t.Errorf("got %d, Allow %q", w.Code, w.Header().Get("Allow"))
	}
}

func TestNewReceiverRefusesBadOptions(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*ReceiverOptions){
		"no submit":     func(o *ReceiverOptions) { o.Submit = nil },
		"no secret":     func(o *ReceiverOptions) { o.AppSecrets = nil },
		"empty secret":  func(o *ReceiverOptions) { o.AppSecrets = []string{testSecret, ""} },
		"three secrets": func(o *ReceiverOptions) { o.AppSecrets = []string{"a", "b", "c"} },
		"short key":     func(o *ReceiverOptions) { o.CallbackKey = nil },
	} {
		o := ReceiverOptions{Submit: (&memory{}).Submit, AppSecrets: []string{testSecret}, CallbackKey: testKey}
		change(&o)
		if _, err := NewReceiver(o); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

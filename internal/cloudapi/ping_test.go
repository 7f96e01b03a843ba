package cloudapi

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// Any word of Graph's is an answer, a refusal too; nothing else is.
func TestPingHearsThePlatformAlone(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		status     int
		body, want string
	}{
		"no token":           {400, `{"error":{"message":"An active access token must be used","type":"OAuthException","code":2500}}`, ""},
		"the platform down":  {503, `{"error":{"message":"Service temporarily unavailable","code":2}}`, ""},
		"our gateway's page": {502, "<html>bad gateway</html>", "not the platform"},
		"a captive portal":   {200, "<html>log in</html>", "not the platform"},
		"somebody's JSON":    {200, `{"status":"ok"}`, "not the platform"},
		"a gateway's JSON":   {404, `{"error":{"code":404,"message":"no route"}}`, "not the platform"},
		"a redirect":         {302, "", "not the platform"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, func(w http.ResponseWriter, r *http.Request) {
				if r.Method != http.MethodGet || r.Header.Get("Authorization") != "" {
					t.Errorf("asked by %s with a token: %v", r.Method, r.Header.Get("Authorization") != "")
				}
				w.Header().Set("Location", "https://elsewhere.invalid/")
				w.WriteHeader(tc.status)
				_, _ = io.WriteString(w, tc.body)
			})
			err := newTestClient(t, s.URL, nil).Ping(t.Context())
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

func TestPingSaysWhatItMet(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		nobody:                   "connect: refused",
		"https://graph..invalid": "does not resolve",
	} {
		err := newTestClient(t, url, nil).Ping(t.Context())
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
		if err != nil && strings.Contains(err.Error(), "127.0.0.1") {
			t.Errorf("the error names an address: %v", err)
		}
	}
}

package sim

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// A person's message arrives as Meta would send it: signed, from their wa_id,
// and under the same id when it is delivered again.
func TestWrite(t *testing.T) {
	t.Parallel()
	var bodies, signatures []string
	hook := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body) // what broke off does not look right
		bodies, signatures = append(bodies, string(b)), append(signatures, r.Header.Get("X-Hub-Signature-256"))
		rw.WriteHeader(http.StatusAccepted)
	}))
	defer hook.Close()
	s, err := New(Options{WebhookURL: hook.URL, AppSecret: "secret", Numbers: []Number{{ID: "7", WABA: "1022"}}})
	if err != nil {
		t.Fatal(err)
	}
	in := Inbound{From: "+525512345678", Text: "stop", At: time.Unix(1750030073, 0)}
	id, status, err := s.Write(t.Context(), in)
	if err != nil || status != http.StatusAccepted || !strings.HasPrefix(id, "wamid.") {
		t.Fatalf("wrote %q: %d %v", id, status, err)
	}
	in.ID, in.Payload = id, "c42"
	if again, _, err := s.Write(t.Context(), in); err != nil || again != id {
		t.Errorf("wrote again as %q: %v", again, err)
	}
	for i, want := range []string{`"text":{"body":"stop"}`, `"button":{"payload":"c42","text":"stop"}`} {
		for _, part := range []string{want, `"from":"5215512345678"`, `"timestamp":"1750030073"`, `"id":"` + id + `"`, `"phone_number_id":"7"`, `"id":"1022"`} {
			if !strings.Contains(bodies[i], part) {
				t.Errorf("message %d lacks %s: %s", i, part, bodies[i])
			}
		}
		if signatures[i] != sign("secret", []byte(bodies[i])) {
			t.Errorf("message %d is not signed", i)
		}
	}
	for _, from := range []string{"", "0151", "525512345678", "+abc"} {
		if _, _, err := s.Write(t.Context(), Inbound{From: from, Text: "stop"}); err == nil {
			t.Errorf("wrote from %q", from)
		}
	}
}

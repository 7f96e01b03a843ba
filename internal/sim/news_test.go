package sim

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"
)

// News is signed, comes under its account with the time it was said, and is
// delivered until it is taken.
func TestNewsIsDeliveredUntilItIsTaken(t *testing.T) {
	o := Options{Numbers: []Number{{ID: number, WABA: "55", Display: "+15550001111"}}}
	bubble(t, o, func(t *testing.T, s *Sim, rx *receiver) {
		said := time.Now().Add(-time.Hour)
		for field, want := range map[string]string{
			"message_template_status_update": `"event":"PAUSED"`,
			"account_update":                 `"violation_type":"x"`,
			"phone_number_quality_update":    `"display_phone_number":"15550001111"`,
			"business_capability_update":     `"max_daily_conversations_per_business":250`,
			"user_preferences":               `"value":"PAUSED"`,
		} {
			event := "PAUSED"
			if field == "account_update" {
				event = "ACCOUNT_VIOLATION"
			}
			before := len(rx.deliveries())
			if err := s.Announce(News{Field: field, Event: event, Detail: "x", Limit: "250", To: "+4915112345678", At: said}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
			got := rx.deliveries()[before:]
			if len(got) == 0 || !strings.Contains(string(got[0].body), want) {
				t.Fatalf("%s: %d deliveries, want one with %s", field, len(got), want)
			}
			var hook struct {
				Entry []struct {
					ID      string
					Time    int64
					Changes []struct{ Field string }
				}
			}
			if err := json.Unmarshal(got[0].body, &hook); err != nil {
				t.Fatal(err)
			}
			if e := hook.Entry[0]; e.ID != "55" || e.Time != said.Unix() || e.Changes[0].Field != field {
				t.Errorf("%s: %+v", field, e)
			}
			if mac := got[0].head.Get("X-Hub-Signature-256"); mac != sign("secret", got[0].body) {
				t.Errorf("%s: signature %s", field, mac)
			}
		}
		if err := s.Announce(News{Field: "telepathy"}); err == nil {
			t.Error("a field of no known value needs one")
		}
		if code := post(s.Handler(), "/sim/news", `{"field":"telepathy","value":[1]}`).Code; code != http.StatusOK {
			t.Errorf("news over HTTP: %d", code)
		}
		if code := post(s.Handler(), "/sim/news", `{"fiel":"x"}`).Code; code != http.StatusBadRequest {
			t.Errorf("a misspelt field: %d", code)
		}
	})
	if err := mustNew(t, Options{}).Announce(News{Field: "account_update"}); err == nil {
		t.Error("news without a receiver")
	}
}

package cloudapi

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/weirhq/weir/engine"
)

func TestSeriesExistFromTheStart(t *testing.T) {
	t.Parallel()
	r := prometheus.NewRegistry()
	c := newTestClient(t, "http://localhost", func(o *Options) { o.Registerer = r })
	newTestReceiver(t, &memory{}, func(o *ReceiverOptions) { o.Registerer = r })
	c.Announce(testNumber)
	c.Announce(testNumber)
	onPath := 2 // other, none
	for i := range codes {
		if !codes[i].offPath {
			onPath++
		}
	}
	for name, want := range map[string]int{
		"weir_sends_total":            len(engine.Actions()),
		"weir_send_duration_seconds":  1,
		"weir_errors_total":           onPath,
		"weir_webhook_requests_total": len(results),
		"weir_webhook_statuses_total": len(statusWords),
		"weir_webhook_events_total":   len(eventFields),
		"weir_webhook_foreign_total":  1,
		"weir_webhook_lag_seconds":    1,
		"weir_webhook_seconds":        1,
	} {
		if n, err := testutil.GatherAndCount(r, name); err != nil || n != want {
			t.Errorf("%s: %d series, want %d (%v)", name, n, want, err)
		}
	}
	if problems, err := testutil.GatherAndLint(r); err != nil || len(problems) > 0 {
		t.Error(problems, err)
	}
}

// Replies of every kind that is counted apart.
var countedReplies = []string{
	acceptedBody,
	`{"error":{"code":130429}}`,
	`{"error":{"code":131201}}`,
	`{"error":{"code":999999,"type":"OAuthException"}}`,
	`<html>`,
	`{"error":{"code":0}}`,
	`{"error":{"code":250}}`,
}

func TestSendsAreCounted(t *testing.T) {
	t.Parallel()
	next := make(chan string, len(countedReplies))
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		reply := <-next
		if reply != acceptedBody {
			w.WriteHeader(400)
		}
		_, _ = io.WriteString(w, reply)
	})
	r := prometheus.NewRegistry()
	c := newTestClient(t, s.URL, func(o *Options) { o.Registerer = r })
	for _, reply := range countedReplies {
		next <- reply
		c.Send(t.Context(), testSend())
	}
	m := testSend()
	m.Fence = closesAfter(0)
	c.Send(t.Context(), m) // released: an outcome, but no call to time
	n := c.number(testNumber).metrics
	for action, want := range map[engine.Action]float64{
		engine.Accept: 1, engine.Pause: 1, engine.Fail: 2, engine.Reconcile: 1, engine.StopNumber: 2, engine.Release: 1,
	} {
		if got := testutil.ToFloat64(n.sends[action]); got != want {
			t.Errorf("%v: %v, want %v", action, got, want)
		}
	}
	for label, want := range map[string]float64{"130429": 1, "other": 2, "none": 1, "0": 1, "200-299": 1} {
		if got := testutil.ToFloat64(n.errors[label]); got != want {
			t.Errorf("code %s: %v, want %v", label, got, want)
		}
	}
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all, err := json.Marshal(families)
	if err != nil {
		t.Fatal(err)
	}
	noSecrets(t, string(all))
	if !strings.Contains(string(all), `"sample_count":7`) {
		t.Error("seven calls reached the wire and were not timed")
	}
}

func TestTwoClientsNeedTwoRegistries(t *testing.T) {
	t.Parallel()
	r := prometheus.NewRegistry()
	o := Options{Token: fixedToken, CallbackKey: testKey, Registerer: r}
	if _, err := New(o); err != nil {
		t.Fatal(err)
	}
	if _, err := New(o); err == nil {
		t.Error("the second client's metrics would be lost")
	}
}

// jsonMessage is the request as encoding/json would write it, to compare with.
type jsonMessage struct {
	Product       string       `json:"messaging_product"`
	RecipientType string       `json:"recipient_type"`
	To            string       `json:"to"`
	Callback      string       `json:"biz_opaque_callback_data"`
	Type          string       `json:"type"`
	Template      jsonTemplate `json:"template"`
}

type jsonTemplate struct {
	Name     string `json:"name"`
	Language struct {
		Code string `json:"code"`
	} `json:"language"`
	Components []jsonComponent `json:"components"`
}

type jsonComponent struct {
	Type       string     `json:"type"`
	Parameters []jsonText `json:"parameters"`
}

type jsonText struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

func BenchmarkEncode(b *testing.B) {
	c := newTestClient(b, "http://localhost", nil)
	m := testSend()
	b.Run("plan", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, refusal := c.encode(m); refusal != nil {
				b.Fatal(refusal)
			}
		}
	})
	b.Run("encoding/json", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			x := jsonMessage{
				Product: "whatsapp", RecipientType: "individual", To: m.To, Type: "template",
				Callback: string(c.signer.append(nil, CallbackID{Recipient: m.Recipient, Claim: m.Claim})),
				Template: jsonTemplate{Name: m.Template.Name, Components: []jsonComponent{{
					Type: "body", Parameters: []jsonText{{"text", m.Values[0]}, {"text", m.Values[1]}},
				}}},
			}
			x.Template.Language.Code = m.Template.Language
			if _, err := json.Marshal(x); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkClassify(b *testing.B) {
	for name, body := range map[string]string{
		"accepted": acceptedBody,
		"error":    `{"error":{"message":"(#130429) Rate limit hit","type":"OAuthException","code":130429,"error_data":{"messaging_product":"whatsapp","details":"Too many"},"fbtrace_id":"Az8or2yhqkZfEZ"}}`,
	} {
		b.Run(name, func(b *testing.B) {
			status := 200
			if name == "error" {
				status = 400
			}
			b.ReportAllocs()
			for b.Loop() {
				Classify(status, http.Header{}, []byte(body))
			}
		})
	}
}

func BenchmarkSend(b *testing.B) {
	s := serve(b, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, acceptedBody)
	})
	c := newTestClient(b, s.URL, nil)
	m := testSend()
	b.ReportAllocs()
	for b.Loop() {
		if a := c.Send(b.Context(), m); a.Action != engine.Accept {
			b.Fatal(a)
		}
	}
}

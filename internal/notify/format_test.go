package notify

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

const (
	vectorSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	otherSecret  = "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
)

// TestSignatureVector is the one that Standard Webhooks' own libraries test.
func TestSignatureVector(t *testing.T) {
	t.Parallel()
	key, err := secretKey(vectorSecret)
	if err != nil {
		t.Fatal(err)
	}
	got := signature([][]byte{key}, "msg_p5jXN8AQM9LWM0D4loKWxJek", time.Unix(1614265330, 0), []byte(`{"test": 2432232314}`))
	if want := "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="; got != want {
		t.Errorf("signature = %s, want %s", got, want)
	}
}

// verified does what a receiver does, in the words of the specification.
func verified(t *testing.T, d delivery, secret string) bool {
	t.Helper()
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	if err != nil {
		t.Fatal(err)
	}
	stamp := d.header.Get("webhook-timestamp")
	seconds, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil || time.Since(time.Unix(seconds, 0)).Abs() > 5*time.Minute {
		t.Errorf("timestamp %q is not now", stamp)
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(d.header.Get("webhook-id") + "." + stamp + "." + d.body))
	return slices.Contains(strings.Split(d.header.Get("webhook-signature"), " "), "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
}

func TestWebhook(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	e := must(t)(NewWebhook(r.URL+"/hook", []string{vectorSecret, otherSecret}, private))
	for range 2 {
		if status, err := e.Send(t.Context(), stopped); status != 200 || err != nil {
			t.Fatalf("sent: %d, %v", status, err)
		}
		d := r.last(t)
		if !verified(t, d, vectorSecret) || !verified(t, d, otherSecret) || verified(t, d, "whsec_"+strings.Repeat("B", 32)) {
			t.Error("each of the two secrets must prove it while one is being changed, and no other")
		}
		if d.path != "/hook" || d.header.Get("Content-Type") != "application/json" || d.header.Get("webhook-id") != stopped.ID {
			t.Errorf("%s %v", d.path, d.header)
		}
	}
	if r.got[0].body != r.got[1].body {
		t.Error("two attempts of one notice differ")
	}
	want := `{"type":"campaign.stopped","timestamp":"2026-12-01T08:30:00Z","data":{"origin":"here","seq":7,"subject":"campaign:12",` +
		`"title":"Campaign spring <!channel> & co stopped itself","text":"Reason: 132001: no such template.",` +
		`"advice":"Nothing more of it is sent. Mend what the reason says, then: weir campaign resume 12",` +
		`"facts":{"campaign":{"id":12,"name":"spring <!channel> & co"},"reason":"132001: no such template"}}}`
	if diff := cmp.Diff(want, r.last(t).body); diff != "" {
		t.Errorf("body (-want +got):\n%s", diff)
	}
}

func TestSlack(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	e := must(t)(NewSlack(r.URL, private))
	if _, err := e.Send(t.Context(), stopped); err != nil {
		t.Fatal(err)
	}
	var got map[string]string
	if err := json.Unmarshal([]byte(r.last(t).body), &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"text": ":warning: *Campaign spring &lt;!channel&gt; &amp; co stopped itself*\nReason: 132001: no such template.\n" +
		"Nothing more of it is sent. Mend what the reason says, then: weir campaign resume 12"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("message (-want +got):\n%s", diff)
	}
}

func TestPagerDuty(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	r.code = 202
	e := must(t)(NewPagerDuty(r.URL, " 0123456789abcdef0123456789abcdef\n", private))
	send := func(n Notice) (event map[string]any) {
		t.Helper()
		if status, err := e.Send(t.Context(), n); status != 202 || err != nil {
			t.Fatalf("sent: %d, %v", status, err)
		}
		if err := json.Unmarshal([]byte(r.last(t).body), &event); err != nil {
			t.Fatal(err)
		}
		return event
	}
	want := map[string]any{
		"routing_key": "0123456789abcdef0123456789abcdef", "event_action": "trigger", "dedup_key": "weir/here/campaign:12", "client": "Weir",
		"payload": map[string]any{
			"summary": "Campaign spring <!channel> & co stopped itself. Reason: 132001: no such template.", "source": "weir", "severity": "error",
			"timestamp": "2026-12-01T08:30:00Z", "component": "campaign:12", "class": "campaign.stopped",
			"custom_details": map[string]any{
				"text": "Reason: 132001: no such template.", "advice": "Nothing more of it is sent. Mend what the reason says, then: weir campaign resume 12",
				"facts": map[string]any{"reason": "132001: no such template", "campaign": map[string]any{"id": 12.0, "name": "spring <!channel> & co"}},
			},
		},
	}
	if diff := cmp.Diff(want, send(stopped)); diff != "" {
		t.Errorf("trigger (-want +got):\n%s", diff)
	}
	resumed := stopped
	resumed.Kind = CampaignResumed
	want = map[string]any{"routing_key": "0123456789abcdef0123456789abcdef", "event_action": "resolve", "dedup_key": "weir/here/campaign:12"}
	if diff := cmp.Diff(want, send(resumed)); diff != "" {
		t.Errorf("resolve (-want +got):\n%s", diff)
	}
	long := stopped
	long.Subject, long.Facts = strings.Repeat("ü", 999), []byte(`{"reason": "`+strings.Repeat("ü", 9999)+`"}`)
	event := send(long)
	summary := event["payload"].(map[string]any)["summary"].(string)
	if n := utf8.RuneCountInString(summary); n > 1024 || utf8.RuneCountInString(event["dedup_key"].(string)) > 255 {
		t.Errorf("a summary of %d characters and a key of %d", n, len(event["dedup_key"].(string)))
	}
	long.Subject = "campaign:12"
	if body := webhookBody(long); len(body) > 20_000 || !strings.Contains(string(body), "Reason: üüü") {
		t.Errorf("a webhook of %d bytes, want its words without its facts", len(body))
	}
}

// TestTest: one notice each, and nobody stays woken.
func TestTest(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	for _, tc := range []struct {
		endpoint *Endpoint
		want     []string
	}{
		{must(t)(NewSlack(r.URL, private)), []string{"This is a test"}},
		{must(t)(NewWebhook(r.URL, []string{vectorSecret}, private)), []string{`"type":"notify.test"`}},
		{must(t)(NewPagerDuty(r.URL, "key", private)), []string{`"trigger"`, `"resolve"`}},
	} {
		r.got = nil
		if status, err := tc.endpoint.Test(t.Context()); status != 200 || err != nil {
			t.Errorf("%s: %d, %v", tc.endpoint.Name(), status, err)
		}
		if len(r.got) != len(tc.want) {
			t.Fatalf("%s got %d requests, want %d", tc.endpoint.Name(), len(r.got), len(tc.want))
		}
		for i, want := range tc.want {
			if !strings.Contains(r.got[i].body, want) {
				t.Errorf("%s: request %d is %s, want %s in it", tc.endpoint.Name(), i, r.got[i].body, want)
			}
		}
	}
}

// TestWhoIsTold: programs of everything, people of what they can act on, and
// whoever was woken of its end.
func TestWhoIsTold(t *testing.T) {
	t.Parallel()
	webhook := must(t)(NewWebhook("https://example.org", []string{vectorSecret}, Options{}))
	slack := must(t)(NewSlack("https://example.org", Options{}))
	pager := must(t)(NewPagerDuty("", "key", Options{}))
	const reopened = `{"breaker": {"prev": "half_open"}}`
	for _, tc := range []struct {
		kind, facts     string
		slack, pager    bool
		action, urgency string
	}{
		{CampaignStopped, `{}`, true, true, "trigger", "error"},
		{CampaignResumed, `{}`, true, true, "resolve", ""},
		{CampaignFinished, `{}`, true, true, "resolve", ""},
		{CampaignExpired, `{}`, true, true, "trigger", "warning"},
		{CampaignCanceled, `{}`, true, true, "resolve", ""},
		{CampaignDead, `{}`, true, false, "trigger", "info"},
		{FallbackBegan, `{}`, true, false, "trigger", "info"},
		{FallbackEnded, `{}`, true, false, "trigger", "info"},
		{NumberStopped, `{}`, true, true, "trigger", "error"},
		{NumberEnabled, `{}`, true, true, "resolve", ""},
		{BreakerOpen, `{"breaker": {"prev": "closed"}}`, true, true, "trigger", "warning"},
		{BreakerOpen, reopened, false, false, "trigger", "info"},
		{BreakerHalfOpen, `{}`, false, false, "trigger", "info"},
		{BreakerStaysOpen, `{}`, true, true, "trigger", "critical"},
		{BreakerClosed, `{}`, true, true, "resolve", ""},
		{DatabaseUnconfirmed, `{}`, true, true, "trigger", "critical"},
		{DatabaseConfirmed, `{}`, true, true, "resolve", ""},
		{SendingStopped, `{"who": "ana", "reason": "wrong price"}`, true, true, "trigger", "critical"},
		{SendingReleased, `{}`, true, true, "resolve", ""},
		{Dropped, `{}`, true, true, "trigger", "warning"},
		{Test, `{}`, true, true, "trigger", "warning"},
		{TestOver, `{}`, true, true, "resolve", ""},
		{"from.the.future", `{}`, true, false, "trigger", "info"},
	} {
		n := Notice{Kind: tc.kind, Subject: "host", Facts: []byte(tc.facts)}
		if !webhook.Wants(n) || slack.Wants(n) != tc.slack || pager.Wants(n) != tc.pager {
			t.Errorf("%s %s is told to webhooks %v, to chats %v, to pagers %v", tc.kind, tc.facts, webhook.Wants(n), slack.Wants(n), pager.Wants(n))
		}
		event := pageEvent(n, wordsOf(n), "key")
		severity := ""
		if event.Payload != nil {
			severity = event.Payload.Severity
		}
		if event.Action != tc.action || severity != tc.urgency {
			t.Errorf("%s: %s %q, want %s %q", tc.kind, event.Action, severity, tc.action, tc.urgency)
		}
	}
	if status, err := slack.Send(t.Context(), Notice{Kind: BreakerHalfOpen}); status != 0 || err != nil {
		t.Errorf("what a chat is not told of: %d, %v", status, err)
	}
}

func TestWords(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ kind, subject, facts, want string }{
		{
			NumberStopped, "number:1", `{"numbers": ["1"], "reason": "190: token expired.", "campaigns": ["spring"]}`,
			"Number 1 stopped|Reason: 190: token expired. Running campaigns that use it: spring.|" +
				"Nothing more is sent from it. Mend what the reason says, then: weir number set 1 --enable",
		},
		{
			NumberStopped, "number:1", `{"numbers": ["1", "2", "3"], "reason": "r", "campaigns": ["a", "b", "c", "d", "e", "f", "g"]}`,
			"Number 1 and 2 more stopped|Reason: r. Running campaigns that use it: a, b, c, d, e and 2 more.|" +
				"Nothing more is sent from it. Mend what the reason says, then: weir number set 1 --enable, and the same for the others",
		},
		{
			CampaignFinished, "campaign:3", `{"campaign": {"name": "spring"}, "counts": {"read": 5, "failed": 1, "delivered": 5, "dead": 0}}`,
			"Campaign spring is finished|11 recipients: 5 delivered, 5 read, 1 failed.|",
		},
		{
			CampaignDead, "campaign:3", `{"campaign": {"name": "spring"}, "reason": "attempts_exhausted, code 503"}`,
			"Campaign spring has dead letters|Reason: attempts_exhausted, code 503.|Who was given up, why, and what to do: weir dead list --campaign 3",
		},
		{
			BreakerOpen, "host", `{"breaker": {"prev": "closed", "reason": "consecutive", "samples": 9, "failures": 7, "reporters": 3}}`,
			"The platform is in trouble: sending is held back|Reason: consecutive. 7 of 9 calls failed, as 3 of the nodes saw it.|" +
				"Nothing is lost and no attempt is spent. Weir probes, and goes on by itself.",
		},
		{
			BreakerStaysOpen, "number:5", `{"breaker": {"reason": "throttled"}, "seconds": 121.5}`,
			"Number 5 has been in trouble for 122 s|Reason: throttled.|Nothing is lost and no attempt is spent. Weir probes, and goes on by itself. " +
				"Look whether the platform says that it has an outage.",
		},
		{
			DatabaseUnconfirmed, "database", `{"cluster": "1.00000002", "vouched": "1.00000001"}`,
			"Nothing is sent: the database is not the one that was vouched for|After a fail-over or a restore commits may be missing in it.|" +
				"weir database status says what to look at first; then weir database confirm.",
		},
		{
			FallbackBegan, "campaign:3", `{"campaign": {"name": "spring"}, "numbers": ["2"], "reason": "1 stopped: 190: token expired"}`,
			"Campaign spring goes on with its fallback numbers: 2|No primary number can send. Reason: 1 stopped: 190: token expired.|" +
				"Whatever waits is theirs until a primary is able again: weir campaign status 3",
		},
		{FallbackEnded, "campaign:3", `{"campaign": {"name": "spring"}}`, "Campaign spring is sent by its primary numbers again||"},
		{Dropped, "notices", `{"dropped": 12}`, "12 notices were dropped|This endpoint did not take them for too long.|"},
		{CampaignStopped, "campaign:3", `broken`, "Campaign campaign:3 stopped itself||Nothing more of it is sent. Mend what the reason says, then: weir campaign resume 3"},
		{"from.the.future", "host", `{"reason": "why"}`, "from.the.future: host|Reason: why.|"},
	} {
		w := wordsOf(Notice{Kind: tc.kind, Subject: tc.subject, Facts: []byte(tc.facts)})
		if diff := cmp.Diff(tc.want, w.title+"|"+w.text+"|"+w.advice); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.kind, diff)
		}
	}
}

// FuzzFormat: whatever is in a notice, each format is JSON of a bounded size.
func FuzzFormat(f *testing.F) {
	f.Add(CampaignStopped, "campaign:1", []byte(`{"reason": "x"}`))
	f.Add(NumberStopped, "number:1", []byte(`{"numbers": ["1"], "counts": {"read": 1}}`))
	f.Add(BreakerOpen, "host", []byte(`{"breaker": {"samples": "many"}}`))
	f.Add("\xff", "\x00", []byte(`{"a":1}{`))
	f.Fuzz(func(t *testing.T, kind, subject string, facts []byte) {
		n := Notice{ID: "i", Kind: cut(kind, 100), Subject: cut(subject, 100), Facts: facts}
		w := wordsOf(n)
		for format, body := range map[string][]byte{
			"webhook": webhookBody(n), "slack": encode(map[string]string{"text": chatText(w)}), "pager": encode(pageEvent(n, w, "key")),
		} {
			if !json.Valid(body) || len(body) > 64<<10 {
				t.Errorf("%s: %d bytes, valid %v", format, len(body), json.Valid(body))
			}
		}
	})
}

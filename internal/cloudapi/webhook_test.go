package cloudapi

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"pgregory.net/rapid"

	"github.com/weirhq/weir/engine"
)

var arrival = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func decodeTest(t testing.TB, body string) delivery {
	t.Helper()
	return newTestReceiver(t, &memory{}, nil).decoder.decode([]byte(body), arrival)
}

// change wraps the value of a "messages" change.
func change(value string) string {
	return `{"entry":[{"id":"1022","changes":[{"field":"messages","value":{"metadata":{"phone_number_id":"7"},` + value + `}}]}]}`
}

func TestStatusesOfAllKinds(t *testing.T) {
	t.Parallel()
	id := CallbackID{Recipient: 9, Claim: 2}.Encode(testKey)
	at := time.Unix(1750030073, 0)
	for name, tc := range map[string]struct {
		status string
		want   engine.StatusUpdate
	}{
		"sent":            {`{"id":"m","status":"sent","timestamp":"1750030073"}`, engine.StatusUpdate{Status: engine.Sent, At: at}},
		"read":            {`{"id":"m","status":"read","timestamp":"1750030073"}`, engine.StatusUpdate{Status: engine.Read, At: at}},
		"played is read":  {`{"id":"m","status":"played","timestamp":"1750030073"}`, engine.StatusUpdate{Status: engine.Read, At: at}},
		"held":            {`{"id":"m","status":"held_for_quality_assessment","timestamp":"1750030073"}`, engine.StatusUpdate{Status: engine.Held, At: at}},
		"milliseconds":    {`{"id":"m","status":"sent","timestamp":"1750030073500"}`, engine.StatusUpdate{Status: engine.Sent, At: at.Add(500 * time.Millisecond)}},
		"a number":        {`{"id":"m","status":"sent","timestamp":1750030073}`, engine.StatusUpdate{Status: engine.Sent, At: at}},
		"no timestamp":    {`{"id":"m","status":"sent"}`, engine.StatusUpdate{Status: engine.Sent, At: arrival}},
		"odd timestamp":   {`{"id":"m","status":"sent","timestamp":"soon"}`, engine.StatusUpdate{Status: engine.Sent, At: arrival}},
		"null timestamp":  {`{"id":"m","status":"sent","timestamp":null}`, engine.StatusUpdate{Status: engine.Sent, At: arrival}},
		"time of no use":  {`{"id":"m","status":"sent","timestamp":"99999999999999999"}`, engine.StatusUpdate{Status: engine.Sent, At: arrival}},
		"phone with plus": {`{"id":"m","status":"sent","recipient_id":"+551199"}`, engine.StatusUpdate{Status: engine.Sent, At: arrival, Phone: "551199"}},
		"user id":         {`{"id":"m","status":"sent","recipient_id":"BR.1349"}`, engine.StatusUpdate{Status: engine.Sent, At: arrival}},
		"ours": {
			`{"id":"m","status":"sent","biz_opaque_callback_data":"` + id + `"}`,
			engine.StatusUpdate{Status: engine.Sent, At: arrival, Recipient: 9, Claim: 2},
		},
		"another program's": {
			`{"id":"m","status":"sent","biz_opaque_callback_data":"w1.9.2.AAAAAAAAAAA"}`,
			engine.StatusUpdate{Status: engine.Sent, At: arrival},
		},
		"failed with a listed code": {
			`{"id":"m","status":"failed","errors":[{"code":131026,"title":"Message undeliverable","error_data":{"details":"to +5511987654321"}}]}`,
			engine.StatusUpdate{Status: engine.Failed, At: arrival, Code: 131026, Title: Title(131026), Asks: ClassifyCode(131026)},
		},
		"failed with an unlisted code": {
			`{"id":"m","status":"failed","errors":[{"code":"139999","title":"Nobody at +55 11 98765-4321"}]}`,
			engine.StatusUpdate{Status: engine.Failed, At: arrival, Code: 139999, Title: "Nobody at*", Asks: ClassifyCode(139999)},
		},
		"failed without errors": {`{"id":"m","status":"failed"}`, engine.StatusUpdate{Status: engine.Failed, At: arrival}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tc.want.MessageID, tc.want.Number = "m", "7"
			saysOnly(t, tc.status, tc.want)
		})
	}
}

// saysOnly: a body with one status is one update and nothing else.
func saysOnly(t *testing.T, status string, want engine.StatusUpdate) {
	t.Helper()
	got := decodeTest(t, change(`"statuses":[`+status+`]`))
	if diff := cmp.Diff([]engine.StatusUpdate{want}, got.updates); diff != "" {
		t.Error(diff)
	}
	if len(got.events) != 0 || got.unreadable {
		t.Errorf("events %v, unreadable %v", got.events, got.unreadable)
	}
}

func TestWhatIsNoStatusIsKept(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		body    string
		updates int
		events  string // kinds
	}{
		"inbound message":         {change(`"messages":[{"from":"5511","id":"x","type":"text"}]`), 0, "inbound"},
		"messages of a new shape": {change(`"messages":[{"id":"x"},7]`), 0, "inbound messages"},
		"messages are no list":    {change(`"messages":{"id":"x"}`), 0, "messages"},
		"two messages":            {change(`"messages":[{"id":"x"},{"id":"y","from":7}]`), 0, "inbound inbound"},
		"error of the number":     {change(`"errors":[{"code":130429}]`), 0, "errors"},
		"status of the future":    {change(`"statuses":[{"id":"m","status":"levitated"},{"id":"n","status":"read"}]`), 1, "status"},
		"deleted and warning":     {change(`"statuses":[{"id":"m","status":"deleted"},{"id":"n","status":"warning"}]`), 0, "status"},
		"status without an id":    {change(`"statuses":[{"status":"read"},{"id":"n","status":"read"}]`), 1, "status"},
		"kind we do not know":     {change(`"calls":[{"id":"c"}]`), 0, "messages"},
		"messages and statuses":   {change(`"statuses":[{"id":"n","status":"read"}],"messages":[{"id":"x"}],"errors":[{"code":1}]`), 1, "inbound errors"},
		"empty lists":             {change(`"statuses":[{"id":"n","status":"read"}],"messages":[],"errors":null`), 1, ""},
		"another field":           {`{"entry":[{"id":"1","changes":[{"field":"account_update","value":{"event":"DISABLED_UPDATE"}}]}]}`, 0, "account_update"},
		"field of the future":     {`{"entry":[{"id":"1","changes":[{"field":"telepathy","value":[1,2]}]}]}`, 0, "unreadable telepathy"},
		"no field":                {`{"entry":[{"id":"1","changes":[{"value":{}}]}]}`, 0, "other"},
		"two entries":             {`{"entry":[{"changes":[{"field":"a","value":{}}]},{"changes":[{"field":"b","value":{}},{"field":"c","value":{}}]}]}`, 0, "a b c"},
		"one odd field":           {change(`"statuses":[{"id":"m","status":"read","recipient_id":5511},{"id":"n","status":"read"}]`), 2, "unreadable"},
		"statuses are no list":    {change(`"statuses":"none"`), 0, "unreadable messages"},
		"not JSON":                {`<html>`, 0, "unreadable"},
		"empty":                   {``, 0, "unreadable"},
		"a list":                  {`[]`, 0, "unreadable"},
		"null":                    {`null`, 0, ""},
		"deep":                    {strings.Repeat(`{"entry":[`, 20000), 0, "unreadable"},
		"null among the entries":  {`{"entry":[null,{"changes":[null]}]}`, 0, "other"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := decodeTest(t, tc.body)
			if len(got.updates) != tc.updates {
				t.Errorf("%d updates, want %d", len(got.updates), tc.updates)
			}
			var kinds []string
			for _, e := range got.events {
				kinds = append(kinds, e.Kind)
				if !json.Valid(e.Body) {
					t.Errorf("%s: %q is not JSON", e.Kind, e.Body)
				}
			}
			if k := strings.Join(kinds, " "); k != tc.events {
				t.Errorf("events %q, want %q", k, tc.events)
			}
			if got.unreadable != strings.Contains(tc.events, "unreadable") {
				t.Errorf("unreadable: %v", got.unreadable)
			}
		})
	}
}

func TestEventsKeepTheChange(t *testing.T) {
	t.Parallel()
	value := `{"metadata":{"phone_number_id":"7"},"messages":"none","errors":[{"code":1,"title":"é 😀"}]}`
	got := decodeTest(t, `{"entry":[{"id":"1022","changes":[{"field":"messages","value":`+value+`}]}]}`)
	want := []engine.Event{
		{Kind: "messages", Account: "1022", Number: "7", Body: []byte(value)},
		{Kind: "errors", Account: "1022", Number: "7", Body: []byte(value)},
	}
	if diff := cmp.Diff(want, got.events); diff != "" {
		t.Error(diff)
	}
}

// Postgres refuses NUL, half surrogates and invalid UTF-8, and with one such
// value the whole batch.
func TestEventsAreStorable(t *testing.T) {
	t.Parallel()
	for _, text := range []string{`a\u0000b`, `\ud800`, `\uDC00\uD83D`, "\xff\xfe", `\\u0000 is text`, `big`} {
		body := `{"entry":[{"id":"1","changes":[{"field":"x","value":{"k` + text + `":["` + text + `",12345678901234567890123,1.50]}}]}]}`
		got := decodeTest(t, body)
		for _, e := range got.events {
			if !json.Valid(e.Body) || !utf8.Valid(e.Body) || postgresRefuses(e.Body) {
				t.Errorf("%s: %q", text, e.Body)
			}
			if !bytes.Contains(e.Body, []byte("12345678901234567890123")) || !bytes.Contains(e.Body, []byte("1.50")) {
				t.Errorf("%s: numbers were rounded: %s", text, e.Body)
			}
		}
	}
}

// postgresRefuses reports escapes of NUL or of surrogates, which we never
// write: whole pairs are rewritten too.
func postgresRefuses(body []byte) bool {
	body = bytes.ToLower(bytes.ReplaceAll(body, []byte(`\\`), nil))
	return bytes.Contains(body, []byte(`\u0000`)) || bytes.Contains(body, []byte(`\ud`))
}

// One body may hold a thousand statuses of several numbers; others read only
// the first of them.
func TestAllStatusesOfABody(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		var want []engine.StatusUpdate
		var entries []string
		for e := range rapid.IntRange(0, 4).Draw(rt, "entries") {
			var changes []string
			for c := range rapid.IntRange(0, 4).Draw(rt, "changes") {
				number := fmt.Sprintf("%d%d", e+1, c)
				var statuses []string
				for range rapid.IntRange(1, 8).Draw(rt, "statuses") {
					id := CallbackID{Recipient: int64(len(want) + 1), Claim: 1}
					message := "wamid." + strconv.Itoa(len(want))
					statuses = append(statuses, fmt.Sprintf(`{"id":%q,"status":"read","timestamp":"17","biz_opaque_callback_data":%q}`, message, id.Encode(testKey)))
					want = append(want, engine.StatusUpdate{
						Recipient: id.Recipient, Claim: 1, Number: number, MessageID: message,
						Status: engine.Read, At: time.Unix(17, 0),
					})
				}
				changes = append(changes, `{"field":"messages","value":{"metadata":{"phone_number_id":"`+number+`"},"statuses":[`+strings.Join(statuses, ",")+`]}}`)
			}
			entries = append(entries, `{"id":"1","changes":[`+strings.Join(changes, ",")+`]}`)
		}
		got := decodeTest(t, `{"entry":[`+strings.Join(entries, ",")+`]}`)
		if diff := cmp.Diff(want, got.updates); diff != "" || len(got.events) != 0 {
			rt.Fatalf("%s, events %v", diff, got.events)
		}
	})
}

func TestWebhookMetrics(t *testing.T) {
	t.Parallel()
	rc := newTestReceiver(t, &memory{}, nil)
	for _, body := range []string{
		string(statusBody("sent", CallbackID{Recipient: 1})),
		change(`"statuses":[{"id":"m","status":"levitated"},{"id":"n","status":"played"}]`),
		`{"entry":[{"changes":[{"field":"telepathy","value":{}}]}]}`,
	} {
		rc.decoder.decode([]byte(body), arrival)
	}
	for label, want := range map[string]float64{"sent": 1, "played": 1, "other": 1, "read": 0} {
		if got := testutil.ToFloat64(rc.metrics.statuses[label]); got != want {
			t.Errorf("status %s: %v", label, got)
		}
	}
	if got := testutil.ToFloat64(rc.metrics.events["other"]); got != 1 {
		t.Errorf("events: %v", got)
	}
	if got := testutil.ToFloat64(rc.metrics.foreign); got != 1 {
		t.Errorf("foreign: %v", got)
	}
}

func FuzzWebhookBody(f *testing.F) {
	f.Add(statusBody("delivered", CallbackID{Recipient: 1}))
	f.Add([]byte(change(`"messages":[{"from":"\ud800\u0000"}]`)))
	f.Add([]byte(change(`"statuses":[{"id":"m","status":"failed","errors":[{"code":"131026","title":"+55 11 98765-4321"}]}]`)))
	f.Add([]byte(`{"entry":[{"changes":[{"field":"x","value":"y"},null]}]}`))
	f.Add([]byte("\xff{"))
	f.Fuzz(func(t *testing.T, body []byte) {
		d := newTestReceiver(t, &memory{}, nil).decoder.decode(body, arrival)
		if d.unreadable != (len(d.events) > 0 && d.events[0].Kind == "unreadable") {
			t.Error("an unreadable body was not kept")
		}
		for _, u := range d.updates {
			ok := u.Status == engine.Held || u.Status == engine.Sent || u.Status == engine.Failed || u.Status == engine.Delivered || u.Status == engine.Read
			if !ok || u.MessageID == "" || u.At.IsZero() || u.Recipient < 0 {
				t.Errorf("%+v", u)
			}
			for _, s := range []string{u.MessageID, u.Number, u.Phone, u.Title} {
				if strings.ContainsRune(s, 0) || !utf8.ValidString(s) {
					t.Errorf("%q cannot be stored", s)
				}
			}
			if looksLikePhone.MatchString(u.Title) {
				t.Errorf("title %q", u.Title)
			}
		}
		for _, e := range d.events {
			if e.Kind == "" || len(e.Kind) > maxKind || !json.Valid(e.Body) || !utf8.Valid(e.Body) || postgresRefuses(e.Body) {
				t.Errorf("%s: %q", e.Kind, e.Body)
			}
		}
	})
}

func BenchmarkWebhook(b *testing.B) {
	rc := newTestReceiver(b, &memory{}, nil)
	body := statusBody("delivered", CallbackID{Recipient: 123456789, Claim: 1})
	header := http.Header{"X-Hub-Signature-256": {sign(testSecret, body)}}
	sum, _ := signature(header)
	b.Run("decode", func(b *testing.B) {
		b.SetBytes(int64(len(body)))
		b.ReportAllocs()
		for b.Loop() {
			rc.decoder.decode(body, arrival)
		}
	})
	b.Run("verify", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if !rc.verifier.verify(sum, body) {
				b.Fatal("refused")
			}
		}
	})
	b.Run("handler", func(b *testing.B) {
		rc.options.Submit = func(context.Context, []engine.StatusUpdate, []engine.Event) error { return nil }
		b.ReportAllocs()
		for b.Loop() {
			r := httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(body))
			r.Header = header
			rc.ServeHTTP(httptest.NewRecorder(), r)
		}
	})
}

package cloudapi

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/weirhq/weir/engine"
)

// wished reads no and go on, wherever they stand.
func wished(texts ...string) engine.Wish {
	found := engine.WishNothing
	for _, text := range texts {
		switch text {
		case "no":
			return engine.WishStop
		case "go on":
			found = engine.WishStart
		}
	}
	return found
}

// Each message of a person is an event of its own, with what it asks for,
// however it was written.
func TestInboundMessages(t *testing.T) {
	t.Parallel()
	at := time.Unix(1750030073, 0)
	for name, tc := range map[string]struct {
		message string
		want    engine.Inbound
		label   string
	}{
		"a text":          {`{"from":"5511987654321","timestamp":"1750030073","type":"text","text":{"body":"no"}}`, engine.Inbound{From: "5511987654321", At: at, Wish: engine.WishStop}, "stop"},
		"another text":    {`{"from":"+5511987654321","timestamp":1750030073,"text":{"body":"no way"}}`, engine.Inbound{From: "5511987654321", At: at}, ""},
		"a label":         {`{"from":"1","timestamp":"1750030073","button":{"payload":"c42","text":"no"}}`, engine.Inbound{From: "1", At: at, Wish: engine.WishStop}, "stop"},
		"a payload":       {`{"from":"1","timestamp":"1750030073","button":{"payload":"go on","text":"?"}}`, engine.Inbound{From: "1", At: at, Wish: engine.WishStart}, "start"},
		"a reply":         {`{"from":"1","interactive":{"type":"button_reply","button_reply":{"id":"no","title":"?"}}}`, engine.Inbound{From: "1", At: arrival, Wish: engine.WishStop}, "stop"},
		"a list":          {`{"from":"1","interactive":{"list_reply":{"id":"x","title":"go on"}}}`, engine.Inbound{From: "1", At: arrival, Wish: engine.WishStart}, "start"},
		"no phone":        {`{"from_user_id":"BR.13","text":{"body":"no"}}`, engine.Inbound{At: arrival, Wish: engine.WishStop}, "unplaced"},
		"an odd field":    {`{"from":"1","timestamp":"soon","type":7,"context":[],"text":{"body":"no"}}`, engine.Inbound{From: "1", At: arrival, Wish: engine.WishStop}, "stop"},
		"an odd sender":   {`{"from":{},"text":{"body":"no"}}`, engine.Inbound{At: arrival, Wish: engine.WishStop}, "unplaced"},
		"a number":        {`{"from":4915110001413,"text":{"body":"no"}}`, engine.Inbound{From: "4915110001413", At: arrival, Wish: engine.WishStop}, "stop"},
		"no whole number": {`{"from":49151.5,"text":{"body":"no"}}`, engine.Inbound{At: arrival, Wish: engine.WishStop}, "unplaced"},
		"no sender":       {`{"from":null,"text":{"body":"no"}}`, engine.Inbound{At: arrival, Wish: engine.WishStop}, "unplaced"},
		"a picture":       {`{"from":"1","image":{"caption":"no"}}`, engine.Inbound{From: "1", At: arrival}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newTestReceiver(t, &memory{}, nil).decoder
			d.wish = wished
			got := d.decode([]byte(change(`"contacts":[{}],"messages":[`+tc.message+`]`)), arrival)
			want := []engine.Event{{Kind: "inbound", Account: "1022", Number: "7", Body: []byte(tc.message), Inbound: tc.want}}
			if diff := cmp.Diff(want, got.events); diff != "" {
				t.Error(diff)
			}
			for label, counter := range d.metrics.wishes {
				if n := testutil.ToFloat64(counter); (n == 1) != (label == tc.label) || n > 1 {
					t.Errorf("%s counted %v times", label, n)
				}
			}
		})
	}
}

// What is odd hides nobody's wish beside it, and the change is kept for it.
func TestOddMessagesHideNoOther(t *testing.T) {
	t.Parallel()
	const stop = `{"from":"4915110001413","text":{"body":"no"}}`
	for _, messages := range []string{`null,` + stop, `"x",` + stop, stop + `,7`, `[],` + stop + `,true`} {
		d := newTestReceiver(t, &memory{}, nil).decoder
		d.wish = wished
		got := d.decode([]byte(change(`"messages":[`+messages+`]`)), arrival).events
		want := []engine.Event{
			{Kind: "inbound", Account: "1022", Number: "7", Body: []byte(stop), Inbound: engine.Inbound{From: "4915110001413", At: arrival, Wish: engine.WishStop}},
			{Kind: "messages", Account: "1022", Number: "7", Body: []byte(`{"metadata":{"phone_number_id":"7"},"messages":[` + messages + `]}`)},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", messages, diff)
		}
		if n := testutil.ToFloat64(d.metrics.wishes["stop"]); n != 1 {
			t.Errorf("%s: %v stops counted, want 1", messages, n)
		}
	}
}

// One message has one key at its number, and its id is not in it.
func TestInboundKeys(t *testing.T) {
	t.Parallel()
	keys := func(messages string) (all []string) {
		for _, e := range decodeTest(t, change(`"messages":[`+messages+`]`)).events {
			all = append(all, e.Key)
		}
		return all
	}
	got := keys(`{"id":"wamid.a","text":{"body":"x"}},{"id":"wamid.b"},{"id":"wamid.a","text":{"body":"y"}},{}`)
	if len(got) != 4 || got[0] != got[2] || got[0] == got[1] || len(got[0]) != 32 || got[3] != "" {
		t.Errorf("keys %q, want the first and third alike, and none for a message without an id", got)
	}
}

// What is said to have been said in a time to come was said when it came, or no
// later word would ever count.
func TestTimesToComeAreNow(t *testing.T) {
	t.Parallel()
	news := func(field, value string) string {
		return `{"entry":[{"id":"1022","time":3976214400,"changes":[{"field":"` + field + `","value":` + value + `}]}]}`
	}
	for _, at := range []string{`"32472144000"`, `32472144000`, `32472144000000`, `1796040001`} {
		got := decodeTest(t, change(`"messages":[{"from":"1","timestamp":`+at+`}],"statuses":[{"id":"m","status":"sent","timestamp":`+at+`}]`))
		if in, status := got.events[0].Inbound.At, got.updates[0].At; !in.Equal(arrival) || !status.Equal(arrival) {
			t.Errorf("%s: message at %v, status at %v, want when they came", at, in, status)
		}
		opted := decodeTest(t, news("user_preferences", `{"user_preferences":[{"wa_id":"5511","category":"marketing_messages","value":"resume","timestamp":`+at+`}]}`))
		if n := opted.events[0].News; len(n) != 1 || !n[0].At.Equal(arrival) {
			t.Errorf("%s: preference %+v, want it said when it came", at, n)
		}
	}
	template := decodeTest(t, news("message_template_status_update", `{"event":"APPROVED","message_template_name":"hello","message_template_language":"en_US"}`))
	if n := template.events[0].News; len(n) != 1 || !n[0].At.Equal(arrival) {
		t.Errorf("template %+v, want it said when it came", n)
	}
}

// A change that the platform repeats has the key that it had; one that says the
// same at another time, or of another account, has not, and nothing can be read
// from it. A change without a time has none.
func TestChangeKeys(t *testing.T) {
	t.Parallel()
	key := func(id, when, field, value string) string {
		got := decodeTest(t, `{"entry":[{"id":"`+id+`",`+when+`"changes":[{"field":"`+field+`","value":`+value+`}]}]}`).events
		if len(got) != 1 {
			t.Fatalf("%d events", len(got))
		}
		return got[0].Key
	}
	const then = `"time":1750030073,`
	first := key("1", then, "account_update", `{"event":"x"}`)
	if first == "" || first != key("1", then, "account_update", `{"event":"x"}`) {
		t.Errorf("one change has the keys %q and another", first)
	}
	for name, other := range map[string]string{
		"time":    key("1", `"time":1750030074,`, "account_update", `{"event":"x"}`),
		"account": key("2", then, "account_update", `{"event":"x"}`),
		"field":   key("1", then, "other_update", `{"event":"x"}`),
		"value":   key("1", then, "account_update", `{"event":"y"}`),
	} {
		if other == first || other == "" {
			t.Errorf("another %s has the key %q", name, other)
		}
	}
	if got := key("1", "", "account_update", `{}`); got != "" {
		t.Errorf("a change without a time has the key %q", got)
	}
}

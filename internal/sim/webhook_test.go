package sim

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestStatusesAreSignedCompleteAndInTime(t *testing.T) {
	o := Options{
		Numbers:   []Number{{ID: number, WABA: "55", Display: "+15550001111"}},
		Templates: []Template{{Name: "hello", Language: "en_US", Category: "UTILITY"}},
		Sent:      Spread{Base: time.Second}, Delivered: Spread{Base: 2 * time.Second}, Read: Spread{Base: 4 * time.Second},
		ReadShare: 1, Latency: Spread{Base: 250 * time.Millisecond},
	}
	bubble(t, o, func(t *testing.T, s *Sim, rx *receiver) {
		began := time.Now()
		post(s.Handler(), path, hello("+5531987654321", `id/é"🌊`))
		if took := time.Since(began); took != 250*time.Millisecond {
			t.Errorf("answered after %v", took)
		}
		time.Sleep(time.Minute)
		var at []time.Duration
		for _, d := range rx.deliveries() {
			mac := hmac.New(sha256.New, []byte("secret"))
			mac.Write(d.body)
			if got := d.head.Get("X-Hub-Signature-256"); got != "sha256="+hex.EncodeToString(mac.Sum(nil)) {
				t.Errorf("signature %q does not fit the raw body", got)
			}
			if i := slices.IndexFunc(d.body, func(c byte) bool { return c >= 0x80 }); i >= 0 {
				t.Errorf("byte %d of %s is not ASCII", i, d.body)
			}
			at = append(at, d.at.Sub(began))
		}
		want := []time.Duration{1250 * time.Millisecond, 3250 * time.Millisecond, 7250 * time.Millisecond}
		for i := range at {
			at[i] = at[i].Round(2 * time.Millisecond) // the dispatcher wakes once a millisecond
		}
		if diff := cmp.Diff(want, at); diff != "" {
			t.Error(diff)
		}
		checkEnvelope(t, s, rx, began)
	})
}

func checkEnvelope(t *testing.T, s *Sim, rx *receiver, began time.Time) {
	t.Helper()
	hooks := rx.hooks(t)
	v := hooks[0].Entry[0].Changes[0].Value
	if h := hooks[0]; h.Object != "whatsapp_business_account" || h.Entry[0].ID != "55" || h.Entry[0].Changes[0].Field != "messages" ||
		v.Product != "whatsapp" || v.Metadata.ID != number || v.Metadata.Display != "15550001111" {
		t.Errorf("envelope %+v", h)
	}
	if len(v.Contacts) != 1 || v.Contacts[0].WaID != "553187654321" || v.Contacts[0].Profile.Name == "" {
		t.Errorf("contacts %+v", v.Contacts)
	}
	e := s.Ledger()[0]
	for i, st := range rx.statuses(t) {
		if st.ID != e.WAMID || st.Callback != `id/é"🌊` || st.Recipient != "553187654321" ||
			st.Status != []string{"sent", "delivered", "read"}[i] {
			t.Errorf("status %+v", st)
		}
		if (st.Pricing != nil) != (i < 2) || st.Pricing != nil && st.Pricing.Category != "utility" {
			t.Errorf("pricing of %s: %+v", st.Status, st.Pricing)
		}
		if st.Timestamp != fmt.Sprint(began.Unix()+[]int64{1, 3, 7}[i]) {
			t.Errorf("timestamp of %s: %s", st.Status, st.Timestamp)
		}
	}
	if diff := cmp.Diff([]string{"sent", "delivered", "read"}, e.Acked); diff != "" {
		t.Error(diff)
	}
}

func TestFailuresByWebhook(t *testing.T) {
	o := Options{Failures: []Failure{{131026, 0.5}, {999999, 0.5}}}
	bubble(t, o, func(t *testing.T, s *Sim, rx *receiver) {
		for i := range 40 {
			post(s.Handler(), path, hello(person(i), fmt.Sprint(i)))
		}
		time.Sleep(time.Minute)
		codes := map[int]int{}
		for _, st := range rx.statuses(t) {
			if st.Status != "failed" || len(st.Errors) != 1 || st.Errors[0].Title == "" || st.Errors[0].Data.Details == "" {
				t.Fatalf("%+v", st)
			}
			codes[st.Errors[0].Code]++
		}
		if codes[131026]+codes[999999] != 40 || codes[131026] < 8 || codes[999999] < 8 {
			t.Errorf("codes %v", codes)
		}
		for _, h := range rx.hooks(t) {
			if len(h.Entry[0].Changes[0].Value.Contacts) != 0 {
				t.Error("a failed status has no contacts")
			}
		}
		if e := s.Ledger()[0]; e.FailCode == 0 || e.Outcome != Accepted {
			t.Errorf("ledger %+v", e)
		}
	})
}

func TestSharesAreKept(t *testing.T) {
	o := Options{
		Numbers:       []Number{{ID: number, Throughput: 5000}},
		SentOnlyShare: 0.1, ReadShare: 0.5, ReorderShare: 0.2, DuplicateShare: 0.3, BatchSize: 100, BatchInterval: time.Second,
	}
	bubble(t, o, func(t *testing.T, s *Sim, rx *receiver) {
		const n = 1000
		for i := range n {
			post(s.Handler(), path, hello(person(i), fmt.Sprint(i)))
		}
		time.Sleep(time.Minute)
		share := map[string]float64{}
		disordered, doubled := 0.0, 0
		for _, words := range byCallback(rx.statuses(t)) {
			for _, w := range []string{"sent", "delivered", "read"} {
				if c := strings.Count(words, w); c > 0 {
					share[w] += 1.0 / n
					doubled += c - 1
				}
			}
			if strings.Contains(words, "delivered") && strings.Index(words, "delivered") < strings.Index(words, "sent") {
				disordered += 1.0 / n
			}
		}
		near := func(what string, got, want float64) {
			if got < want-0.04 || got > want+0.04 {
				t.Errorf("%s: %.3f, want about %.3f", what, got, want)
			}
		}
		near("sent", share["sent"], 1)
		near("delivered", share["delivered"], 0.9)
		near("read", share["read"], 0.45)
		near("disordered", disordered, 0.18)
		c := s.Summary(SummaryQuery{}).Webhooks
		if c.Pending != 0 || c.Planned != c.Acked || int64(doubled) != c.Duplicates {
			t.Errorf("counts %+v, %d doubled", c, doubled)
		}
		near("doubled", float64(c.Duplicates)/float64(c.Acked), 0.3)
	})
}

func TestBatchesFillUpOrTimeOut(t *testing.T) {
	o := Options{BatchSize: 10, BatchInterval: 5 * time.Second, SentOnlyShare: 1, Sent: Spread{Base: time.Second}, Numbers: []Number{
		{ID: "1", WABA: "55"}, {ID: "2", WABA: "56"},
	}}
	bubble(t, o, func(t *testing.T, s *Sim, rx *receiver) {
		began := time.Now()
		for i := range 25 {
			post(s.Handler(), fmt.Sprintf("/v25.0/%d/messages", 1+i%2), hello(person(i), fmt.Sprint(i)))
		}
		time.Sleep(3 * time.Second)
		if n := len(rx.deliveries()); n != 2 {
			t.Fatalf("%d full batches after 3 s, want 2", n)
		}
		time.Sleep(time.Minute)
		hooks, got := rx.hooks(t), rx.deliveries()
		if last := got[len(got)-1].at.Sub(began); len(got) != 3 || last.Round(time.Second) != 6*time.Second {
			t.Errorf("%d batches, the last after %v", len(got), last)
		}
		wabas := map[string]bool{}
		for _, e := range hooks[0].Entry {
			wabas[e.ID] = true
		}
		if len(rx.statuses(t)) != 25 || !wabas["55"] || !wabas["56"] {
			t.Errorf("%d statuses, accounts %v", len(rx.statuses(t)), wabas)
		}
	})
}

func TestRefusedWebhooksAreRetriedInOrder(t *testing.T) {
	bubble(t, Options{RetryBase: time.Second, RetryMost: 3 * time.Second}, func(t *testing.T, s *Sim, rx *receiver) {
		began := time.Now()
		rx.answer = func(n int, _ delivery) int {
			return []int{500, 503, 204, 307, 200, 200, 200}[n-1] // only 200 will do
		}
		post(s.Handler(), path, hello(person(1), "a"))
		time.Sleep(time.Minute)
		var at []time.Duration
		for _, d := range rx.deliveries() {
			at = append(at, d.at.Sub(began).Round(time.Second))
		}
		if diff := cmp.Diff([]time.Duration{0, 0, time.Second, 3 * time.Second, 6 * time.Second, 6 * time.Second}, at); diff != "" {
			t.Error(diff)
		}
		if got := byCallback(rx.statuses(t))["a"]; got != "sent sent sent sent sent delivered" {
			t.Error(got)
		}
		if c := s.Summary(SummaryQuery{}).Webhooks; c.Refusals != 4 || c.Acked != 2 || c.Posts != 6 {
			t.Errorf("counts %+v", c)
		}
	})
}

func TestWebhooksAreGivenUpInTheEnd(t *testing.T) {
	bubble(t, Options{RetryFor: time.Hour}, func(t *testing.T, s *Sim, rx *receiver) {
		rx.answer = func(int, delivery) int { return 500 }
		post(s.Handler(), path, hello(person(1), "a"))
		time.Sleep(3 * time.Hour)
		if c := s.Summary(SummaryQuery{}).Webhooks; c.GivenUp != 2 || c.Pending != 0 || c.Acked != 0 {
			t.Errorf("counts %+v", c)
		}
	})
}

func TestEarlyStatusOvertakesTheAnswer(t *testing.T) {
	o := Options{EarlyShare: 1, Latency: Spread{Base: time.Second}, Sent: Spread{Base: time.Minute}}
	bubble(t, o, func(t *testing.T, s *Sim, rx *receiver) {
		done := make(chan struct{})
		go func() {
			post(s.Handler(), path, hello(person(1), "a"))
			close(done)
		}()
		time.Sleep(500 * time.Millisecond)
		if n := len(rx.statuses(t)); n == 0 {
			t.Error("no status before the answer")
		}
		if e := s.Ledger()[0]; e.Answered != 0 {
			t.Error("answered already")
		}
		<-done
		if e := s.Ledger()[0]; e.Answered-e.Received != int64(time.Second) {
			t.Errorf("answered after %d ns", e.Answered-e.Received)
		}
	})
}

// What overtakes sent does not change when it was sent.
func TestTimestampsOfReorderedStatuses(t *testing.T) {
	o := Options{ReorderShare: 1, ReadShare: 1, Sent: Spread{Base: time.Minute}, Delivered: Spread{Base: time.Minute}, Read: Spread{Base: time.Minute}}
	bubble(t, o, func(t *testing.T, s *Sim, rx *receiver) {
		post(s.Handler(), path, hello(person(1), "a"))
		time.Sleep(time.Hour)
		list := rx.statuses(t)
		sent := slices.IndexFunc(list, func(st hookStatus) bool { return st.Status == "sent" })
		if len(list) != 3 || sent == 0 || list[sent].Timestamp >= list[0].Timestamp {
			t.Errorf("%+v: want sent late, with the earliest timestamp", list)
		}
	})
}

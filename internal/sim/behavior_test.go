package sim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func misbehave(t *testing.T, s *Sim, b Behavior) int {
	t.Helper()
	id, err := s.Misbehave(b)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

type badAnswer struct {
	b       Behavior
	status  int
	body    string
	outcome Outcome
}

func badAnswers() []badAnswer {
	return []badAnswer{
		{Behavior{Kind: Outage}, 503, `"is_transient":true`, Refused},
		{Behavior{Kind: Outage, Code: 131016}, 500, `"code":131016`, Refused},
		{Behavior{Kind: Outage, Body: "html"}, 502, "<html>", Refused},
		{Behavior{Kind: Fault, Code: 131048}, 400, `"code":131048`, Refused},
		{Behavior{Kind: Fault, Code: 130429, HTTP: 429}, 429, `"code":130429`, Refused},
		{Behavior{Kind: Fault, HTTP: 504}, 504, "<html>", Refused},
		{Behavior{Kind: Fault, Code: 131000, Accept: true}, 500, `"code":131000`, RefusedAccepted},
		{Behavior{Kind: Throttle}, 400, `"code":130429`, Refused},
		{Behavior{Kind: Redirect, Body: "http://elsewhere"}, 307, "", Redirected},
		{Behavior{Kind: Garbage}, 200, `"input":`, Garbled},
		{Behavior{Kind: Garbage, Accept: true}, 200, `"input":`, GarbledAccepted},
		{Behavior{Kind: Huge, Size: 100_000, Accept: true}, 200, `"aaaa`, GarbledAccepted},
		{Behavior{Kind: TokenRevoked}, 401, `"code":190`, Refused},
		{Behavior{Kind: TemplateStatus, Template: "hello", Status: "paused"}, 400, `"code":132015`, Refused},
		{Behavior{Kind: TemplateStatus, Status: "DISABLED"}, 400, `"code":132016`, Refused},
		{Behavior{Kind: PauseAnswer}, 200, `"message_status":"paused"`, Accepted},
		{Behavior{Kind: Hold}, 200, `"message_status":"held_for_quality_assessment"`, Accepted},
		{Behavior{Kind: FailLater, Code: 131026}, 200, `"message_status":"accepted"`, Accepted},
	}
}

func TestAnswersThatMisbehave(t *testing.T) {
	t.Parallel()
	for _, c := range badAnswers() {
		t.Run(fmt.Sprintf("%s %d %v", c.b.Kind, c.b.Code, c.b.Accept), func(t *testing.T) {
			t.Parallel()
			s := mustNew(t, Options{})
			id := misbehave(t, s, c.b)
			rec := post(s.Handler(), path, hello(person(1), "a"))
			e := s.Ledger()[0]
			if rec.Code != c.status || !strings.Contains(rec.Body.String(), c.body) || e.Outcome != c.outcome || e.HTTP != c.status {
				t.Errorf("HTTP %d %.200s, ledger %+v", rec.Code, rec.Body, e)
			}
			if accepted := e.WAMID != ""; accepted != (c.b.Accept || c.outcome == Accepted) || e.Answered == 0 {
				t.Errorf("ledger %+v", e)
			}
			if s.Behave(id) != 1 || post(s.Handler(), path, hello(person(1), "b")).Code != 200 {
				t.Error("still misbehaving after the end")
			}
		})
	}
}

func TestScopesCountsAndShares(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := mustNew(t, Options{Numbers: []Number{{ID: "1", Throughput: 1000}, {ID: "2"}}})
		send := func(number, to string) int { return post(s.Handler(), "/"+number+"/messages", hello(to, to)).Code }
		misbehave(t, s, Behavior{Kind: Outage, Number: "1", To: "+55", Count: 2, Duration: Duration(time.Minute)})
		got := []int{send("1", "+4479000001"), send("2", "+5511987654321"), send("1", "+5511987654321"), send("1", "+5511987654322"), send("1", "+5511987654323")}
		if diff := cmp.Diff([]int{200, 200, 503, 503, 200}, got); diff != "" {
			t.Error(diff)
		}
		misbehave(t, s, Behavior{Kind: Outage, Number: "1", Duration: Duration(time.Minute)})
		time.Sleep(time.Minute - 1)
		before := send("1", person(1))
		time.Sleep(time.Nanosecond)
		if after := send("1", person(2)); before != 503 || after != 200 {
			t.Errorf("in its minute %d, after it %d", before, after)
		}
		s.Behave(0)
		misbehave(t, s, Behavior{Kind: Outage, Probability: 0.25})
		down := 0
		for i := range 400 {
			if send("1", person(i)) == 503 {
				down++
			}
		}
		if down < 70 || down > 130 {
			t.Errorf("%d of 400 for a share of 0.25", down)
		}
	})
}

func TestMisbehaveRefusesWhatItCannotDo(t *testing.T) {
	t.Parallel()
	s := mustNew(t, Options{})
	for _, b := range []Behavior{
		{Kind: "explode"},
		{Kind: Fault},
		{Kind: FailLater},
		{Kind: TemplateStatus},
		{Kind: Slow},
		{Kind: Outage, Probability: 1.5},
		{Kind: WebhookBlackout, Count: 1},
	} {
		if _, err := s.Misbehave(b); err == nil {
			t.Errorf("%+v was taken", b)
		}
	}
}

// sender returns a function that sends a message as a client with a timeout.
func sender(t *testing.T, s *Sim, timeout time.Duration) func(callback string) error {
	client := &http.Client{Transport: inProcess{s.Handler()}, Timeout: timeout}
	return func(callback string) error {
		r, err := http.NewRequest(http.MethodPost, "http://graph"+path, strings.NewReader(hello(person(1), callback)))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer token")
		resp, err := client.Do(r)
		if err == nil {
			_ = resp.Body.Close()
		}
		return err
	}
}

func TestSlowAndHanging(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := mustNew(t, Options{})
		stop := start(t, s)
		send := sender(t, s, 10*time.Second)
		began := time.Now()
		misbehave(t, s, Behavior{Kind: Slow, Delay: Duration(3 * time.Second), Count: 1})
		if err := send("slow"); err != nil || time.Since(began) != 3*time.Second {
			t.Errorf("slow: %v after %v", err, time.Since(began))
		}
		for _, b := range []Behavior{{Kind: Slow, Delay: Duration(time.Minute)}, {Kind: Hang}} {
			b.Count = 1
			misbehave(t, s, b)
			if err := send(string(b.Kind) + ", too long"); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: %v", b.Kind, err)
			}
		}
		misbehave(t, s, Behavior{Kind: Hang, Accept: true, Count: 1})
		time.AfterFunc(time.Second, stop) // which lets go of senders
		if err := send("accepted"); !errors.Is(err, errCut) {
			t.Errorf("accepted hang at the end of Run: %v", err)
		}
		var got []string
		for _, e := range s.Ledger() {
			got = append(got, fmt.Sprint(e.Callback, " ", e.Outcome, " ", e.Answered != 0, " ", e.WAMID != ""))
		}
		want := []string{
			"slow accept true true", "slow, too long accept false true", "hang, too long hang false false",
			"accepted hang_after_accept false true",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	})
}

func TestResetsOnARealConnection(t *testing.T) {
	t.Parallel()
	s := mustNew(t, Options{})
	server := httptest.NewServer(s.Handler())
	defer server.Close()
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	for _, b := range []Behavior{{Kind: ResetEarly}, {Kind: Reset}, {Kind: Reset, Accept: true}} {
		b.Count = 1
		misbehave(t, s, b)
		r, err := http.NewRequest(http.MethodPost, server.URL+path, strings.NewReader(hello(person(1), string(b.Kind))))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer token")
		if resp, err := client.Do(r); err == nil {
			_ = resp.Body.Close()
			t.Errorf("%s: answered %d", b.Kind, resp.StatusCode)
		} else if !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, syscall.EPIPE) {
			t.Errorf("%s: %v, want a reset", b.Kind, err)
		}
	}
	var got []string
	for _, e := range s.Ledger() {
		got = append(got, fmt.Sprint(e.Outcome, " ", e.To != "", " ", e.WAMID != "", " ", e.Answered))
	}
	want := []string{"reset_unread false false 0", "reset_before true false 0", "reset_after_accept true true 0"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestHeldMessages(t *testing.T) {
	bubble(t, Options{EarlyShare: 1}, func(t *testing.T, s *Sim, rx *receiver) {
		misbehave(t, s, Behavior{Kind: Hold, To: "+44", Delay: Duration(time.Hour)})
		misbehave(t, s, Behavior{Kind: Hold, To: "+55", Delay: Duration(time.Hour), Drop: true})
		post(s.Handler(), path, hello("+447900000001", "released"))
		post(s.Handler(), path, hello("+5511987654321", "dropped"))
		for _, e := range s.Ledger() {
			if !e.Held || e.Answered == 0 {
				t.Errorf("ledger %+v: want it held, and answered at once", e)
			}
		}
		time.Sleep(59 * time.Minute)
		if n := len(rx.statuses(t)); n != 0 {
			t.Errorf("%d statuses while held", n)
		}
		time.Sleep(2 * time.Minute)
		list := rx.statuses(t)
		if diff := cmp.Diff(map[string]string{"released": "sent delivered", "dropped": "failed"}, byCallback(list)); diff != "" {
			t.Error(diff)
		}
		for _, st := range list {
			if st.Status == "failed" && st.Errors[0].Code != 132015 {
				t.Errorf("dropped with %d", st.Errors[0].Code)
			}
		}
	})
}

func TestWebhookFaults(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, s *Sim, rx *receiver) {
		h := s.Handler()
		rx.answer = func(_ int, d delivery) int {
			if d.head.Get("X-Hub-Signature-256") != sign("secret", d.body) {
				return http.StatusUnauthorized
			}
			return http.StatusOK
		}
		misbehave(t, s, Behavior{Kind: WebhookBlackout, Number: "1", Duration: Duration(time.Minute)})
		other := misbehave(t, s, Behavior{Kind: WebhookBlackout, Number: "2"})
		misbehave(t, s, Behavior{Kind: WebhookDrop, To: "+55"})
		misbehave(t, s, Behavior{Kind: WebhookForged, Number: "3", Count: 1})
		for n, to := range map[string]string{"1": person(1), "2": person(2), "3": person(3), "4": "+5511987654321"} {
			post(h, "/"+n+"/messages", hello(to, n))
		}
		time.Sleep(59 * time.Second)
		steps := func(want map[string]string) {
			t.Helper()
			if diff := cmp.Diff(want, byCallback(rx.statuses(t))); diff != "" {
				t.Error(diff)
			}
		}
		steps(map[string]string{"3": "sent sent delivered"}) // the first one was forged
		time.Sleep(2 * time.Second)
		steps(map[string]string{"1": "sent delivered", "3": "sent sent delivered"})
		s.Behave(other)
		time.Sleep(time.Second)
		steps(map[string]string{"1": "sent delivered", "2": "sent delivered", "3": "sent sent delivered"})
		if c := s.Summary(SummaryQuery{}).Webhooks; c.Dropped != 2 || c.Refusals != 1 || c.Pending != 0 {
			t.Errorf("counts %+v", c)
		}
	})
}

func TestReadsFailWithTheHost(t *testing.T) {
	t.Parallel()
	s := mustNew(t, Options{Templates: catalog})
	misbehave(t, s, Behavior{Kind: Outage, Number: "1"})
	misbehave(t, s, Behavior{Kind: TemplateStatus, Template: "plain", Status: "paused"})
	if rec := get(s.Handler(), "/v25.0/1"); rec.Code != 503 {
		t.Errorf("HTTP %d", rec.Code)
	}
	if rec := get(s.Handler(), "/v25.0/2/message_templates?name=plain&fields=status"); !strings.Contains(rec.Body.String(), `"PAUSED"`) {
		t.Error(rec.Body)
	}
}

func TestRequestsCutShortHaveNoLine(t *testing.T) {
	t.Parallel()
	s := mustNew(t, Options{})
	defer func() {
		if v := recover(); v != http.ErrAbortHandler || len(s.Ledger()) != 0 { // the value itself
			t.Errorf("panic %v, ledger %v", v, s.Ledger())
		}
	}()
	r := httptestRequest(http.MethodPost, path, "")
	r.Body = io.NopCloser(io.MultiReader(strings.NewReader("{"), failing{}))
	serve(s, r)
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

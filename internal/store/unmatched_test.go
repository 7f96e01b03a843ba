package store

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirhq/weir/engine"
)

// strange is a status that carries no callback id of ours.
func strange(phone, message string, s engine.Status) engine.StatusUpdate {
	return engine.Fold([]engine.StatusUpdate{{Number: labNumber, Phone: phone, MessageID: message, Status: s, At: time.Now().Truncate(time.Millisecond)}})[0]
}

func (l *lab) apply1(u engine.StatusUpdate) engine.Applied {
	l.t.Helper()
	applied, err := l.ApplyStatuses(l.t.Context(), []engine.StatusUpdate{u}, nil)
	l.must(err)
	return applied
}

var (
	matched   = engine.Applied{Matched: 1}
	unmatched = engine.Applied{Unmatched: 1}
)

func TestStatusesFoundByPhone(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	for _, c := range []struct{ file, says string }{
		{"+5511987654321", "5511987654321"},
		{"+5511987654322", "551187654322"},
		{"+551187654323", "5511987654323"},
		{"+525512345678", "5215512345678"},
		{"+5215512345679", "525512345679"},
		{"+14155550100", "+14155550100"},
	} {
		r := l.one()
		l.exec(`UPDATE recipient_params SET phone = $1 WHERE id = $2`, c.file, r.ID)
		l.record(r, accept("wamid."+c.file))
		if got := l.apply1(strange(c.says, "wamid."+c.file, engine.Delivered)); got != matched {
			t.Errorf("file says %s, the platform %s: %+v", c.file, c.says, got)
		}
		l.want(r.ID, look{Status: "delivered", Claim: 1, Attempt: 1, Message: "wamid." + c.file})
	}
	r := l.one()
	l.exec(`UPDATE recipient_params SET phone = '+5511900000000' WHERE id = $1`, r.ID)
	l.record(r, accept("wamid.a"))
	for _, u := range []engine.StatusUpdate{
		strange("5511900000000", "wamid.b", engine.Read),
		strange("5511900000001", "wamid.a", engine.Read),
		strange("", "wamid.a", engine.Read),
		strange("5511900000000", "", engine.Read),
	} {
		if got := l.apply1(u); got != unmatched {
			t.Errorf("%+v: %+v, want it unmatched", u, got)
		}
	}
	l.want(r.ID, look{Status: "accepted", Claim: 1, Attempt: 1, Message: "wamid.a"})
}

// Message ids that only attempts remembers count too, and each finds its claim.
func TestRule16_StatusesFindTheMessagesOfAttempts(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	first, second := l.twice()
	l.record(second, accept("wamid.2"))
	l.record(first, accept("wamid.1")) // a duplicate: only attempts has its id
	phone := first.Phone[1:]
	if got := l.apply1(strange(phone, "wamid.1", engine.Failed)); got != matched {
		t.Errorf("a duplicate's status: %+v", got)
	}
	l.want(first.ID, look{Status: "accepted", Claim: 2, Attempt: 2, Message: "wamid.2"})
	l.wantAttempts(first.ID, attempt{Claim: 1, Message: "wamid.1", Failed: true})
	l.apply1(strange(phone, "wamid.2", engine.Delivered))
	l.want(first.ID, look{Status: "delivered", Claim: 2, Attempt: 2, Message: "wamid.2"})
}

// A row may show the message of an older claim while its current one is a
// duplicate: neither may be taken for the other.
func TestRule16_AnOlderClaimsMessageFindsItsClaim(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	first, second := l.twice()
	l.record(first, accept("wamid.1"))
	l.record(second, accept("wamid.2"))
	l.apply1(strange(first.Phone[1:], "wamid.1", engine.Failed))
	l.want(first.ID, look{Status: "accepted", Claim: 2, Attempt: 2, Message: "wamid.2"})
	l.wantAttempts(first.ID, attempt{Claim: 1, Message: "wamid.1", Failed: true}, attempt{Claim: 2, Message: "wamid.2"})
}

// A row may come after its status: an id of ours that is not there is kept too.
func TestRule16_AnUnknownIDIsKept(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	u := engine.Fold([]engine.StatusUpdate{{Recipient: 99, Claim: 1, MessageID: "wamid.a", Status: engine.Sent, At: time.Now()}})[0]
	failed := engine.Fold([]engine.StatusUpdate{{Recipient: 98, Claim: 1, MessageID: "wamid.b", Status: engine.Failed, At: time.Now()}})[0]
	applied, err := l.ApplyStatuses(t.Context(), []engine.StatusUpdate{failed, u}, nil)
	l.must(err)
	if want := (engine.Applied{Unmatched: 2}); applied != want {
		t.Errorf("applied = %+v, want %+v", applied, want)
	}
}

func TestLostStatusRoundTrip(t *testing.T) {
	t.Parallel()
	want := strange("5511", "wamid.a", engine.Failed)
	want.Recipient, want.Claim, want.Code, want.Title = 7, 3, 131026, "no \"such\" person"
	want.SentAt, want.ReadAt, want.DeliveredAt = want.At.Add(1), want.At.Add(2), want.At.Add(3)
	body, err := json.Marshal(newLostStatus(want))
	if err != nil {
		t.Fatal(err)
	}
	var lost lostStatus
	if err := json.Unmarshal(body, &lost); err != nil {
		t.Fatal(err)
	}
	got, err := lost.update()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestEventsAreKept(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	bodies := []string{"{\"text\": \"\xff\"}", `{"text": "STOP"}`, `{"text": "\u0000 and \ud83d and \\u0000 and \u00e9"}`, `{"n": 12345678901234567890}`}
	var events []engine.Event
	for _, b := range bodies {
		events = append(events, engine.Event{Kind: "messages", Account: labWABA, Number: labNumber, Body: []byte(b)})
	}
	_, err := l.ApplyStatuses(t.Context(), nil, events)
	l.must(err)
	got := scalar[[]string](l, `SELECT array_agg(body::text ORDER BY id) FROM webhook_events WHERE kind = 'messages' AND waba_id = $1 AND number_id = $2`, labWABA, labNumber)
	want := []string{"{\"text\": \"\uFFFD\"}", `{"text": "STOP"}`, "{\"text\": \"\uFFFD and \uFFFD and \\\\ufffd and \u00e9\"}", `{"n": 12345678901234567890}`}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("bodies (-want +got):\n%s", diff)
	}
}

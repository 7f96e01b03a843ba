package store

import (
	"testing"
	"time"

	"github.com/weirhq/weir/engine"
)

// retry is one run, with pages of 2.
func (l *lab) retry(want int) {
	l.t.Helper()
	if n, err := l.RetryUnmatched(l.t.Context(), 2); n != want || err != nil {
		l.t.Errorf("placed %d, %v, want %d", n, err, want)
	}
}

func (l *lab) retryNow() int64 {
	l.t.Helper()
	return l.exec(`UPDATE webhook_events SET retry_at = now() WHERE retry_at IS NOT NULL`)
}

func TestRule16_AStatusThatFindsNoRowIsKeptAndRetried(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	r := l.one()
	early := strange(r.Phone[1:], "wamid.a", engine.Failed)
	early.Code, early.Title = 131049, "ecosystem \x00"
	for range 5 { // what nothing will ever place must not stand in the way of what can be
		l.apply1(strange("49123", "wamid.z", engine.Sent))
	}
	if got := l.apply1(early); got != unmatched {
		t.Fatalf("applied = %+v", got)
	}
	l.retry(0)
	l.record(r, accept("wamid.a"))
	l.retry(0) // it has just been tried
	l.retryNow()
	l.retry(1)
	l.want(r.ID, look{Status: "failed", Claim: 1, Attempt: 1, Message: "wamid.a", Code: 131049})
	if at := scalar[time.Time](l, `SELECT failed_at FROM recipients`); !at.Equal(early.At) {
		t.Errorf("failed at %v, want %v", at, early.At)
	}
	if n := l.retryNow(); n != 5 {
		t.Errorf("%d statuses are kept, want the 5 that are not placed", n)
	}
	l.retry(0)
}

// A status is tried often while it is young, and seldom later.
func TestRetriesBackOff(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.apply1(strange("49123", "wamid.z", engine.Sent))
	tries := 0
	for {
		l.retry(0)
		tries++
		wait := scalar[float64](l, `SELECT extract(epoch FROM retry_at - now())::float8 FROM webhook_events`)
		if tries == 1 && (wait < 50 || wait > 60) {
			t.Errorf("the second try is in %.0f s, want a minute", wait)
		}
		// As if that time had passed.
		l.exec(`UPDATE webhook_events SET at = at - make_interval(secs => $1), retry_at = now()`, wait)
		if scalar[bool](l, `SELECT at <= now() - interval '7 days' FROM webhook_events`) {
			break
		}
	}
	if tries < 6 || tries > 10 {
		t.Errorf("%d tries in 7 days, want about 8", tries)
	}
}

// One run tries so many and no more, and nothing that cannot be read, or that
// fails, keeps it from the rest.
func TestRetriesAreBounded(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	r := l.one()
	l.record(r, accept("wamid.a"))
	l.exec(`INSERT INTO webhook_events (kind, body, retry_at, keep_until)
		SELECT 'unmatched', '{"message_id": "wamid.z", "phone": "49123", "status": "sent"}', now() - interval '1 min', 'infinity' FROM generate_series(1, 2 * $1 - 1)`, retryPages)
	l.exec(`INSERT INTO webhook_events (kind, body, retry_at, keep_until) VALUES
		('unmatched', '{"status": "a status of a later version"}', now() - interval '1 h', 'infinity'),
		('unmatched', '[]', now() - interval '1 h', 'infinity')`)
	l.exec(`INSERT INTO webhook_events (kind, body, retry_at, keep_until) VALUES
		('unmatched', jsonb_build_object('message_id', 'wamid.a', 'phone', $1::text, 'status', 'sent', 'sent_at', now()), now(), 'infinity')`, r.Phone[1:])
	l.retry(0) // two that cannot be read, and all but one of the strange ones
	if n := scalar[int](l, `SELECT count(*) FROM webhook_events WHERE retry_at <= now()`); n != 2 {
		t.Errorf("%d statuses are left over, want 2", n)
	}
	l.retry(1)
	l.want(r.ID, look{Status: "sent", Claim: 1, Attempt: 1, Message: "wamid.a"})
	if n := scalar[int](l, `SELECT count(*) FROM webhook_events WHERE kind = 'unreadable' AND retry_at IS NULL`); n != 2 {
		t.Errorf("%d events are marked unreadable, want 2", n)
	}
}

func TestRetriesGoOnPastAPageThatFails(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	r := l.one()
	l.record(r, accept("wamid.a"))
	l.exec(`ALTER TABLE attempts ADD CONSTRAINT boom CHECK (code <> 13)`)
	bad := engine.Fold([]engine.StatusUpdate{{Recipient: r.ID, Claim: 1, MessageID: "wamid.b", Status: engine.Failed, Code: 13, At: time.Now()}})
	good := engine.Fold([]engine.StatusUpdate{{Recipient: r.ID, Claim: 1, MessageID: "wamid.a", Status: engine.Read, At: time.Now()}})
	l.must(l.keep(t.Context(), bad, nil))
	l.must(l.keep(t.Context(), good, nil))
	if n, err := l.RetryUnmatched(t.Context(), 1); n != 1 || err == nil {
		t.Errorf("placed %d, %v, want 1 and what went wrong with the other", n, err)
	}
	l.want(r.ID, look{Status: "read", Claim: 1, Attempt: 1, Message: "wamid.a"})
}

func TestEventsAreDroppedInTheirTime(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	_, err := l.ApplyStatuses(t.Context(), []engine.StatusUpdate{strange("49123", "wamid.z", engine.Sent)},
		[]engine.Event{{Kind: "messages", Body: []byte(`{}`)}, {Kind: "account_update", Body: []byte(`{}`)}})
	l.must(err)
	got := scalar[string](l, `SELECT string_agg(kind || ' ' || round(extract(epoch FROM keep_until - at) / 86400), ', ' ORDER BY kind) FROM webhook_events`)
	if want := "account_update 30, messages 30, unmatched 7"; got != want {
		t.Errorf("kept for days: %s, want %s", got, want)
	}
	l.exec(`INSERT INTO webhook_events (kind, body, keep_until) SELECT 'messages', '{}', now() FROM generate_series(1, 10001)`) // more than a piece
	l.exec(`UPDATE webhook_events SET keep_until = now() WHERE kind = 'unmatched'`)
	l.must(l.DropEvents(t.Context()))
	if n := scalar[int](l, `SELECT count(*) FROM webhook_events`); n != 2 {
		t.Errorf("%d events are left, want 2", n)
	}
}

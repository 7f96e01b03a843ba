package store

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirhq/weir/engine"
)

// attempt is an attempts row about a message.
type attempt struct {
	Claim   int
	Message string
	Code    int
	Failed  bool
}

func (l *lab) attempts(id int64) []attempt {
	l.t.Helper()
	rows, err := l.pool.Query(l.t.Context(), `SELECT claim, coalesce(message_id, ''), coalesce(code, 0), failed FROM attempts WHERE recipient_id = $1 ORDER BY claim`, id)
	l.must(err)
	defer rows.Close()
	var all []attempt
	for rows.Next() {
		var a attempt
		l.must(rows.Scan(&a.Claim, &a.Message, &a.Code, &a.Failed))
		all = append(all, a)
	}
	l.must(rows.Err())
	return all
}

func (l *lab) wantAttempts(id int64, want ...attempt) {
	l.t.Helper()
	if diff := cmp.Diff(want, l.attempts(id)); diff != "" {
		l.t.Errorf("attempts of recipient %d (-want +got):\n%s", id, diff)
	}
}

// twice is a recipient whose first call is unknown and was resent, so that its
// row is sending under claim 2; it returns both claims' words.
func (l *lab) twice() (first, second engine.Recipient) {
	l.t.Helper()
	first = l.one()
	l.record(first, engine.Result{Status: engine.Unknown})
	l.exec(`DELETE FROM unknowns`)
	l.exec(`UPDATE recipients SET status = 'pending', due_at = now() - interval '1 s' WHERE id = $1`, first.ID)
	l.exec(`INSERT INTO campaign_counts SELECT campaign_id, 'pending', 1 FROM recipients WHERE id = $1`, first.ID)
	l.exec(`INSERT INTO campaign_counts SELECT campaign_id, 'unknown', -1 FROM recipients WHERE id = $1`, first.ID)
	return first, l.claim(1, first.Campaign)[0]
}

func TestStatusesGoForward(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	r := l.one()
	l.record(r, accept("wamid.a"))
	for _, step := range []struct{ say, show engine.Status }{
		{engine.Held, engine.Held},
		{engine.Sent, engine.Sent},
		{engine.Held, engine.Sent},
		{engine.Delivered, engine.Delivered},
		{engine.Sent, engine.Delivered},
		{engine.Failed, engine.Delivered},
		{engine.Read, engine.Read},
		{engine.Delivered, engine.Read},
	} {
		l.hear(r.ID, r.Claim, "wamid.a", step.say)
		l.want(r.ID, look{Status: step.show.String(), Claim: 1, Attempt: 1, Message: "wamid.a"})
	}
	l.wantAttempts(r.ID, attempt{Claim: 1, Message: "wamid.a"}) // failed after delivered is noted, not applied
	l.recounted()
}

// A status may come before the result, and reach a row that waits again.
func TestStatusBeatsTheResult(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	r := l.one()
	l.hear(r.ID, r.Claim, "wamid.a", engine.Delivered)
	l.want(r.ID, look{Status: "delivered", Claim: 1, Attempt: 1, Message: "wamid.a"})
	l.record(r, accept("wamid.a"))
	l.record(r, engine.Result{Status: engine.Unknown})
	l.want(r.ID, look{Status: "delivered", Claim: 1, Attempt: 1, Message: "wamid.a"})
	if scalar[*time.Time](l, `SELECT accepted_at FROM recipients`) == nil {
		t.Error("the result's acceptance time is lost")
	}
	waiting := l.one()
	l.record(waiting, engine.Result{Status: engine.Pending, Code: 503})
	l.hear(waiting.ID, waiting.Claim, "wamid.b", engine.Sent)
	l.want(waiting.ID, look{Status: "sent", Claim: 1, Attempt: 1, Message: "wamid.b"})
	if rows := l.claim(1, waiting.Campaign); len(rows) != 0 {
		t.Error("a row that a status had reached was claimed again")
	}
	l.recounted()
}

func TestStatusTimesAreTheFirst(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	r := l.one()
	l.record(r, accept("wamid.a"))
	at := time.Now().Truncate(time.Millisecond)
	for _, u := range []engine.StatusUpdate{
		{Status: engine.Read, At: at.Add(3 * time.Second)},
		{Status: engine.Delivered, At: at.Add(2 * time.Second)},
		{Status: engine.Sent, At: at.Add(time.Second)},
		{Status: engine.Sent, At: at},
		{Status: engine.Sent, At: at.Add(9 * time.Second)},
	} {
		u.Recipient, u.Claim, u.MessageID = r.ID, r.Claim, "wamid.a"
		if _, err := l.ApplyStatuses(t.Context(), engine.Fold([]engine.StatusUpdate{u}), nil); err != nil {
			t.Fatal(err)
		}
	}
	var sent, delivered, read time.Time
	l.must(l.pool.QueryRow(t.Context(), `SELECT sent_at, delivered_at, read_at FROM recipients`).Scan(&sent, &delivered, &read))
	if !sent.Equal(at) || !delivered.Equal(at.Add(2*time.Second)) || !read.Equal(at.Add(3*time.Second)) {
		t.Errorf("sent %v, delivered %v, read %v, want %v and 2 s, 3 s later", sent, delivered, read, at)
	}
}

func TestRule14_PermanentAnswerFailsOnlyItsOwnClaim(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	first, second := l.twice()
	reject := engine.Result{Status: engine.Failed, Code: 131026, Title: "undeliverable"}
	l.record(first, reject)
	l.want(first.ID, look{Status: "sending", Claim: 2, Attempt: 2})
	l.record(second, reject)
	l.want(first.ID, look{Status: "failed", Claim: 2, Attempt: 2, Code: 131026})
}

func TestRule14_FailedWebhookOfAnotherMessageIsANote(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	first, second := l.twice()
	l.hear(first.ID, first.Claim, "wamid.1", engine.Failed)
	l.want(first.ID, look{Status: "sending", Claim: 2, Attempt: 2})
	l.record(second, accept("wamid.2"))
	l.hear(first.ID, first.Claim, "wamid.1", engine.Failed)
	l.want(first.ID, look{Status: "accepted", Claim: 2, Attempt: 2, Message: "wamid.2"})
	l.wantAttempts(first.ID, attempt{Claim: 1, Message: "wamid.1", Failed: true})
	l.hear(first.ID, first.Claim, "wamid.1", engine.Sent) // noted failed: only delivered and read count
	l.want(first.ID, look{Status: "accepted", Claim: 2, Attempt: 2, Message: "wamid.2"})
	l.hear(first.ID, first.Claim, "wamid.1", engine.Delivered)
	l.want(first.ID, look{Status: "delivered", Claim: 2, Attempt: 2, Message: "wamid.2"})
	l.wantAttempts(first.ID, attempt{Claim: 1, Message: "wamid.1"})
	l.recounted()
}

func TestRule14_AFailedMessageYieldsToALivingOne(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	first, second := l.twice()
	l.record(second, accept("wamid.2"))
	l.record(first, accept("wamid.1"))
	l.hear(first.ID, second.Claim, "wamid.2", engine.Failed)
	l.want(first.ID, look{Status: "accepted", Claim: 2, Attempt: 2, Message: "wamid.1"})
	l.hear(first.ID, first.Claim, "wamid.1", engine.Failed)
	l.want(first.ID, look{Status: "failed", Claim: 2, Attempt: 2, Message: "wamid.1"})
	l.recounted()
}

func TestRule14_ALivingWordReplacesFailed(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	first, second := l.twice()
	l.hear(first.ID, second.Claim, "wamid.2", engine.Failed)
	l.want(first.ID, look{Status: "failed", Claim: 2, Attempt: 2, Message: "wamid.2"})
	l.hear(first.ID, second.Claim, "wamid.2", engine.Sent)
	l.want(first.ID, look{Status: "failed", Claim: 2, Attempt: 2, Message: "wamid.2"})
	l.hear(first.ID, first.Claim, "wamid.1", engine.Sent)
	l.want(first.ID, look{Status: "sent", Claim: 2, Attempt: 2, Message: "wamid.1"})
	l.recounted()
}

func TestRule15_TheSecondAcceptanceIsADuplicateInEitherOrder(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	for _, late := range []bool{false, true} {
		first, second := l.twice()
		words := []func(){
			func() { l.record(first, accept("wamid.1")) },
			func() { l.record(second, accept("wamid.2")) },
		}
		want, other := look{Status: "accepted", Claim: 2, Attempt: 2, Message: "wamid.1"}, attempt{Claim: 2, Message: "wamid.2"}
		if late {
			slices.Reverse(words)
			want.Message, other = "wamid.2", attempt{Claim: 1, Message: "wamid.1"}
		}
		for _, say := range append(words, words...) {
			say()
		}
		l.want(first.ID, want)
		marked := slices.DeleteFunc(l.attempts(first.ID), func(a attempt) bool { return a.Message == "" })
		if diff := cmp.Diff([]attempt{other}, marked); diff != "" {
			t.Errorf("duplicates (-want +got):\n%s", diff)
		}
	}
	l.recounted()
}

func TestRule15_AWebhookOfASecondMessageIsADuplicateToo(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	first, second := l.twice()
	l.hear(first.ID, first.Claim, "wamid.1", engine.Sent)
	l.hear(first.ID, second.Claim, "wamid.2", engine.Delivered)
	l.want(first.ID, look{Status: "delivered", Claim: 2, Attempt: 2, Message: "wamid.1"})
	l.wantAttempts(first.ID, attempt{Claim: 1}, attempt{Claim: 2, Message: "wamid.2"})
	l.recounted()
}

func TestRule17_FailedIsFinalForItsMessage(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	r := l.one()
	l.record(r, accept("wamid.a"))
	_, err := l.ApplyStatuses(t.Context(), engine.Fold([]engine.StatusUpdate{
		{Recipient: r.ID, Claim: 1, MessageID: "wamid.a", Status: engine.Failed, At: time.Now(), Code: 131049, Title: "healthy ecosystem"},
	}), nil)
	l.must(err)
	failed := look{Status: "failed", Claim: 1, Attempt: 1, Message: "wamid.a", Code: 131049}
	l.want(r.ID, failed)
	l.record(r, accept("wamid.a"))
	l.hear(r.ID, 1, "wamid.a", engine.Sent)
	l.record(r, engine.Result{Status: engine.Pending})
	l.want(r.ID, failed)
	if rows := l.claim(1, r.Campaign); len(rows) != 0 {
		t.Error("a failed row was claimed")
	}
	l.wantAttempts(r.ID, attempt{Claim: 1, Message: "wamid.a", Code: 131049, Failed: true})
	l.recounted()
}

// One batch may hold two words about one row, and what Fold made of several.
func TestStatusesOfOneBatch(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	first, second := l.twice()
	say := func(claim int32, message string, s engine.Status) engine.StatusUpdate {
		return engine.StatusUpdate{Recipient: first.ID, Claim: claim, MessageID: message, Status: s, At: time.Now(), Code: map[bool]int{true: 131049}[s == engine.Failed]}
	}
	applied, err := l.ApplyStatuses(t.Context(), engine.Fold([]engine.StatusUpdate{
		say(second.Claim, "wamid.2", engine.Delivered), say(first.Claim, "wamid.1", engine.Sent),
		say(second.Claim, "wamid.2", engine.Failed), say(second.Claim, "wamid.2", engine.Sent),
	}), nil)
	l.must(err)
	if want := (engine.Applied{Matched: 2}); applied != want {
		t.Errorf("applied = %+v, want %+v", applied, want)
	}
	l.want(first.ID, look{Status: "delivered", Claim: 2, Attempt: 2, Message: "wamid.1"})
	l.wantAttempts(first.ID, attempt{Claim: 1}, attempt{Claim: 2, Message: "wamid.2", Code: 131049})
	l.recounted()
}

func TestApplyStatusesOfNothing(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	if applied, err := l.ApplyStatuses(context.Background(), nil, nil); err != nil || applied != (engine.Applied{}) {
		t.Errorf("%+v, %v", applied, err)
	}
}

package store

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weirhq/weir/engine"
)

// fact is a word about the message of a claim: the recorded answer when its
// status is Accepted, else a webhook's.
type fact struct {
	claim  int32
	status engine.Status
	at     time.Duration
}

var webhookStatuses = []engine.Status{engine.Held, engine.Sent, engine.Failed, engine.Delivered, engine.Read}

// drawFacts draws distinct words: one a message and status, each with its time.
func drawFacts(t *rapid.T, claims ...int32) []fact {
	var all []fact
	for _, c := range claims {
		for i, s := range append([]engine.Status{engine.Accepted}, webhookStatuses...) {
			all = append(all, fact{c, s, time.Duration(10*int(c)+i) * time.Second})
		}
	}
	return rapid.SliceOfNDistinct(rapid.SampledFrom(all), 1, len(all), rapid.ID).Draw(t, "facts")
}

// shuffled is facts in another order, some of them twice.
func shuffled(t *rapid.T, facts []fact) []fact {
	twice := append(rapid.SliceOf(rapid.SampledFrom(facts)).Draw(t, "again"), facts...)
	return rapid.Permutation(twice).Draw(t, "order")
}

// tell applies facts to a recipient in order, in batches of random size.
func (l *lab) tell(t *rapid.T, r engine.Recipient, facts []fact) {
	var batch []engine.StatusUpdate
	flush := func() {
		_, err := l.ApplyStatuses(t.Context(), engine.Fold(batch), nil)
		l.must(err)
		batch = nil
	}
	for _, f := range facts {
		id := message(0, f.claim)
		if f.status == engine.Accepted {
			flush()
			l.must(l.Record(t.Context(), l.lease, []engine.Result{{Recipient: r.ID, Campaign: r.Campaign, Claim: f.claim, Status: engine.Accepted, MessageID: id}}, nil))
			continue
		}
		u := engine.StatusUpdate{Recipient: r.ID, Claim: f.claim, MessageID: id, Status: f.status, At: time.Unix(1e9, 0).Add(f.at)}
		if f.status == engine.Failed {
			u.Code, u.Title = 131026, "undeliverable"
		}
		batch = append(batch, u)
		if rapid.Bool().Draw(t, "commit") {
			flush()
		}
	}
	flush()
}

// told is all that a recipient's row and its attempts say.
func (l *lab) told(id int64) string {
	return scalar[string](l, `SELECT format('%s %s code %s accepted %s sent %s delivered %s read %s failed %s; ', status, message_id, error_code,
			accepted_at IS NOT NULL, sent_at, delivered_at, read_at, failed_at)
		|| coalesce((SELECT string_agg(format('%s %s %s %s %s', claim, message_id, code, title, failed), '; ' ORDER BY claim) FROM attempts WHERE recipient_id = id), '')
		FROM recipients WHERE id = $1`, id)
}

// What was said about one message is a join: neither order, nor repetition,
// nor batching of words and answers can matter, to any column.
func TestStatusesAreAFold(t *testing.T) {
	t.Parallel()
	on := newLab(t)
	rapid.Check(t, func(t *rapid.T) {
		l := on.under(t)
		defer func() { on.seq = l.seq }()
		facts := drawFacts(t, 1)
		var told []string
		for range 3 {
			r := l.one()
			l.tell(t, r, shuffled(t, facts))
			told = append(told, l.told(r.ID))
		}
		if told[0] != told[1] || told[1] != told[2] {
			t.Fatalf("three orders of %v:\n%s\n%s\n%s", facts, told[0], told[1], told[2])
		}
	})
	on.recounted()
}

// Of two messages, in any order: delivered is never hidden, a living one is
// never shown as failed or unsent, and what nobody accepted is never shown so.
func TestTwoMessagesInAnyOrder(t *testing.T) {
	t.Parallel()
	on := newLab(t)
	rapid.Check(t, func(t *rapid.T) {
		l := on.under(t)
		defer func() { on.seq = l.seq }()
		facts := drawFacts(t, 1, 2)
		r, _ := l.twice()
		l.tell(t, r, shuffled(t, facts))
		got, err := engine.ParseStatus(l.look(r.ID).Status)
		l.must(err)
		if want, why := twoMessages(facts); !want(got) {
			t.Fatalf("the row is %v after %v, want %s", got, facts, why)
		}
	})
	on.recounted()
}

// twoMessages says what a row may show after words about claims 1 and 2, of
// which 2 is its own.
func twoMessages(facts []fact) (allowed func(engine.Status) bool, why string) {
	top, failed, living := engine.Pending, map[int32]bool{}, map[int32]bool{}
	for _, f := range facts {
		if f.status == engine.Failed {
			failed[f.claim] = true
		} else {
			top = max(top, f.status)
			living[f.claim] = true
		}
	}
	alive := living[1] && !failed[1] || living[2] && !failed[2]
	switch {
	case top >= engine.Delivered:
		return func(s engine.Status) bool { return s == top }, fmt.Sprint(top)
	case alive:
		return func(s engine.Status) bool { return s >= engine.Accepted && s <= engine.Sent }, "accepted, held or sent"
	case failed[2]:
		return func(s engine.Status) bool { return s == engine.Failed }, "failed"
	default:
		return func(s engine.Status) bool { return s == engine.Failed || s == engine.Sending }, "failed, or sending still"
	}
}

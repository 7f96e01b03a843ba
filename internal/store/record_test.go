package store

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/weirhq/weir/engine"
)

func TestRule01_ClaimSpendsProofRefunds(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	r := l.one()
	l.want(r.ID, look{Status: "sending", Claim: 1, Attempt: 1})
	throttled := engine.Result{Status: engine.Pending, Code: 130429, Refund: true}
	for range 2 { // the second is a repeat after a lost acknowledgement
		l.record(r, throttled)
		l.want(r.ID, look{Status: "pending", Claim: 1, Code: 130429, Due: true})
	}
	l.exec(`UPDATE recipients SET due_at = now()`)
	second := l.claim(1, r.Campaign)[0]
	l.record(second, engine.Result{Status: engine.Pending, Code: 503, Delay: time.Minute})
	l.want(r.ID, look{Status: "pending", Claim: 2, Attempt: 1, Code: 503, Due: true})
	if rows := l.claim(1, r.Campaign); len(rows) != 0 {
		t.Error("claimed a row before its delay was over")
	}
	l.record(r, throttled) // a stale refund
	l.want(r.ID, look{Status: "pending", Claim: 2, Attempt: 1, Code: 503, Due: true})
	l.recounted()
}

func TestRule03_BurnedSeqGoesBack(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	c, first := l.campaign(3)
	l.claim(1, c) // its reply came
	kept := l.seq
	burned := l.ask(1, c)
	l.claimed(burned) // its reply is lost
	other := engine.LeaseID{Number: labNumber, ID: otherToken}
	for _, stale := range []struct {
		lease engine.LeaseID
		seq   int64
	}{{other, burned.Seq}, {l.lease, burned.Seq + 1}} {
		if n, err := l.GiveBack(t.Context(), stale.lease, []int64{stale.seq}); n != 0 || err != nil {
			t.Errorf("gave back %d rows of seq %d of lease %v (%v), want none", n, stale.seq, stale.lease, err)
		}
	}
	for _, want := range []int{1, 0} {
		if n, err := l.GiveBack(t.Context(), l.lease, []int64{burned.Seq}); n != want || err != nil {
			t.Errorf("gave back %d rows, %v, want %d", n, err, want)
		}
	}
	l.want(first, look{Status: "sending", Claim: 1, Attempt: 1})
	l.want(first+1, look{Status: "pending", Claim: 1, Due: true})
	if left := scalar[[]int64](l, `SELECT array_agg(seq) FROM claims`); !slices.Equal(left, []int64{kept}) {
		t.Errorf("claims rows left: %v, want %d", left, kept)
	}
	l.recounted()
}

// A row whose fate has been told meanwhile stays where the word put it.
func TestRule03_GiveBackLeavesWhatMovedOn(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	r := l.one()
	l.hear(r.ID, r.Claim, "wamid.a", engine.Sent)
	if n, err := l.GiveBack(t.Context(), l.lease, []int64{l.seq}); n != 0 || err != nil {
		t.Errorf("gave back %d rows, %v", n, err)
	}
	l.want(r.ID, look{Status: "sent", Claim: 1, Attempt: 1, Message: "wamid.a"})
}

func TestRule05_GiveBackKeepsTheDueTime(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	due := func(id int64) time.Time {
		return scalar[time.Time](l, `SELECT due_at FROM recipients WHERE id = $1`, id)
	}
	c, first := l.campaign(2)
	was := due(first)
	l.claim(1, c)
	if _, err := l.GiveBack(t.Context(), l.lease, []int64{l.seq}); err != nil {
		t.Fatal(err)
	}
	if got := due(first); !got.Equal(was) {
		t.Errorf("by seq: due %v, was %v", got, was)
	}
	r := l.claim(1, c)[0]
	l.record(r, engine.Result{Status: engine.Pending, Refund: true, KeepDue: true, Due: r.Due})
	if got := due(first); !got.Equal(was) {
		t.Errorf("by the lane: due %v, was %v", got, was)
	}
	if n := scalar[int](l, `SELECT count(*) FROM attempts`); n != 0 {
		t.Errorf("a give-back left %d attempts rows", n)
	}
}

// What a node knows of its calls counts without a lease, by the row's claim
// alone, on rows that are sending or unknown; nothing else moves them.
func TestRule06_AnswersNeedOnlyTheRowsClaim(t *testing.T) {
	t.Parallel()
	l := newLab(t).under(t) // its 130 rows outlast a lease on a busy machine
	answers := []engine.Result{
		{Status: engine.Failed, Code: 131026},
		{Status: engine.Dead, Title: "attempts"},
		{Status: engine.Pending, Code: 503},
		{Status: engine.Pending, Refund: true},
		{Status: engine.Unknown},
	}
	moved := func(state string, bump int, a engine.Result) bool {
		r := l.one()
		l.exec(`UPDATE recipients SET status = $1::text::recipient_status, claim = claim + $2,
			due_at = CASE WHEN $1::text = 'pending' THEN now() END WHERE id = $3`, state, bump, r.ID)
		before := l.look(r.ID)
		stranger := engine.LeaseID{Number: labNumber, ID: otherToken}
		a.Recipient, a.Claim = r.ID, r.Claim
		l.must(l.Record(t.Context(), stranger, []engine.Result{a}, nil))
		return l.look(r.ID) != before
	}
	for _, a := range answers {
		for _, status := range engine.Statuses() {
			want := status == engine.Sending || status == engine.Unknown && a.Status != engine.Unknown
			if moved(status.String(), 0, a) != want {
				t.Errorf("%v over %v: moved %v, want %v", a.Status, status, !want, want)
			}
			if moved(status.String(), 1, a) {
				t.Errorf("%v moved a row of another claim that is %v", a.Status, status)
			}
		}
	}
}

// A fact is never fenced: it stands over whatever we believed.
func TestRule06_FactsAreNeverFenced(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	for _, status := range engine.Statuses() {
		r := l.one()
		l.exec(`UPDATE recipients SET status = $1::text::recipient_status, claim = claim + 1,
			due_at = CASE WHEN $1::text = 'pending' THEN now() END WHERE id = $2`, status.String(), r.ID)
		l.must(l.Record(t.Context(), engine.LeaseID{Number: labNumber, ID: otherToken},
			[]engine.Result{{Recipient: r.ID, Claim: r.Claim, Status: engine.Accepted, MessageID: "wamid.a"}}, nil))
		want := max(status, engine.Accepted)
		if status == engine.Failed { // rejected by an answer to another claim: the living message beats it
			want = engine.Accepted
		}
		if got := l.look(r.ID); got.Status != want.String() || got.Message != "wamid.a" || got.Due {
			t.Errorf("accepted over %v: %+v, want %v", status, got, want)
		}
	}
}

func TestRule06_StaleLeaseClaimsReclaimsAndForgetsNothing(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	c, first := l.campaign(2)
	r := l.claim(1, c)[0]
	seq, stale := l.seq, l.lease
	successor := l.bid(l.expired(labNumber)).Lease
	l.exec(`UPDATE number_leases SET ready_at = now()`)
	if rows := l.claim(1, c); len(rows) != 0 {
		t.Error("a stale lease claimed")
	}
	l.lease = successor
	l.claim(1, c) // what a stale reclaim would take
	if n, err := l.Reclaim(t.Context(), stale); n != 0 || !errors.Is(err, engine.ErrNotReady) {
		t.Errorf("a stale lease reclaimed %d rows, %v", n, err)
	}
	l.must(l.Record(t.Context(), stale, nil, []int64{seq}))
	if n, err := l.GiveBack(t.Context(), stale, []int64{seq}); n != 0 || err != nil {
		t.Errorf("a stale lease gave back %d rows, %v", n, err)
	}
	if n := scalar[int](l, `SELECT count(*) FROM claims`); n != 2 {
		t.Errorf("%d claims rows, want the stale one still there for its successor", n)
	}
	l.want(first, look{Status: "sending", Claim: int(r.Claim), Attempt: 1})
}

// A shut fence is not "nothing to reclaim": a lane that took it for that would
// leave its predecessor's rows sending for as long as it holds the lease.
func TestReclaimSaysThatItIsNotReady(t *testing.T) {
	t.Parallel()
	for name, shut := range map[string]string{
		"in quarantine": `UPDATE number_leases SET ready_at = now() + interval '1 min'`,
		"run out":       `UPDATE number_leases SET ready_at = now(), expires_at = now()`,
		"released":      `UPDATE number_leases SET ready_at = now(), released = true`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			r := l.one()
			l.lease = l.bid(l.expired(labNumber)).Lease
			l.exec(shut)
			if n, err := l.Reclaim(t.Context(), l.lease); n != 0 || !errors.Is(err, engine.ErrNotReady) {
				t.Errorf("reclaimed %d rows, %v, want engine.ErrNotReady", n, err)
			}
			l.want(r.ID, look{Status: "sending", Claim: 1, Attempt: 1})
			l.exec(`UPDATE number_leases SET ready_at = now(), released = false, expires_at = now() + interval '1 min'`)
			if n, err := l.Reclaim(t.Context(), l.lease); n != 1 || err != nil {
				t.Errorf("when ready: %d, %v, want the row", n, err)
			}
		})
	}
}

func TestRule09_ForgetIsFencedAndNamed(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	c, _ := l.campaign(2)
	r := l.claim(1, c)[0]
	first := l.seq
	l.claim(1, c)
	result := accept("wamid.a")
	result.Recipient, result.Claim = r.ID, r.Claim
	l.must(l.Record(t.Context(), l.lease, []engine.Result{result}, []int64{first}))
	if left := scalar[[]int64](l, `SELECT array_agg(seq) FROM claims`); !slices.Equal(left, []int64{l.seq}) {
		t.Errorf("claims rows left: %v, want %d", left, l.seq)
	}
}

func TestRecordAccept(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	r := l.one()
	want := look{Status: "accepted", Claim: 1, Attempt: 1, Message: "wamid.a"}
	var at time.Time
	for range 2 {
		l.record(r, accept("wamid.a"))
		l.want(r.ID, want)
		first := scalar[time.Time](l, `SELECT accepted_at FROM recipients`)
		if !at.IsZero() && !at.Equal(first) {
			t.Error("a repeated result moved accepted_at")
		}
		at = first
	}
	l.record(r, engine.Result{Status: engine.Held, MessageID: "wamid.a"})
	want.Status = "held"
	l.want(r.ID, want)
	if n := scalar[int](l, `SELECT count(*) FROM attempts`); n != 0 {
		t.Errorf("a plain acceptance left %d attempts rows", n)
	}
	l.recounted()
}

// Words that Postgres cannot store must not stop a batch; values that it
// refuses are told apart, so that the batch can be halved.
func TestRecordOddWords(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	r := l.one()
	l.record(r, engine.Result{Status: engine.Failed, Code: 1, Title: "bad\x00 \xff words"})
	if got := scalar[string](l, `SELECT title FROM attempts`); got != "bad\uFFFD \uFFFD words" {
		t.Errorf("title = %q", got)
	}
	s := l.one()
	err := l.Record(t.Context(), l.lease, []engine.Result{{Recipient: s.ID, Claim: s.Claim, Status: engine.Pending, KeepDue: true, Due: time.Time{}.AddDate(400000, 0, 0)}}, nil)
	if !errors.Is(err, engine.ErrRefused) {
		t.Errorf("a value out of range: %v, want engine.ErrRefused", err)
	}
	l.want(s.ID, look{Status: "sending", Claim: 1, Attempt: 1})
}

func TestRecordTwoResultsOfOneRow(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	r := l.one()
	l.must(l.Record(t.Context(), l.lease, []engine.Result{
		{Recipient: r.ID, Claim: r.Claim, Status: engine.Unknown},
		{Recipient: r.ID, Claim: r.Claim, Status: engine.Accepted, MessageID: "wamid.a"},
	}, nil))
	l.want(r.ID, look{Status: "accepted", Claim: 1, Attempt: 1, Message: "wamid.a"})
	l.recounted()
}

package main

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirhq/weir/engine"
	"github.com/weirhq/weir/internal/store"
)

// Every gate of a claim has its words, and one number that sends is enough.
func TestStanding(t *testing.T) {
	t.Parallel()
	now := time.Date(2030, 1, 2, 3, 0, 0, 0, time.UTC)
	later, stamped := now.Add(time.Hour), "2030-01-02T04:00:00Z"
	ready := store.Sender{ID: "n1", WABA: "w", Enabled: true, Owned: true, Breaker: "closed", Host: "closed"}
	with := func(change func(*store.Sender)) []store.Sender {
		n := ready
		change(&n)
		return []store.Sender{n}
	}
	fallback := func(floor int) store.Sender {
		return store.Sender{ID: "n2", Fallback: true, Floor: floor, Wait: time.Minute, Enabled: true, Owned: true, Breaker: "closed", Host: "closed"}
	}
	optOut := func(scope string) []store.Suppression { return []store.Suppression{{Scope: scope, Holds: true}} }
	for name, tc := range map[string]struct {
		row  func(*store.PersonRow)
		outs []store.Suppression
		want string // "" for nothing
	}{
		"nothing": {func(*store.PersonRow) {}, nil, "nothing holds it: number n1 takes it in its turn"},
		"a retry": {func(r *store.PersonRow) {
			r.DueAt = later
			r.Attempt = 2
			r.Attempts = []store.Attempt{{Code: 503, Title: "down"}}
		}, nil, "not due before " + stamped + ", after attempt 2 of 5: 503 down"},
		"a replay":           {func(r *store.PersonRow) { r.DueAt = later; r.Replay = &store.Replay{} }, nil, "not due before " + stamped + ", its turn in the replay"},
		"campaign paused":    {func(r *store.PersonRow) { r.State, r.StateReason = store.Paused, "by the operator" }, nil, "the campaign is paused: by the operator (then weir campaign resume c)"},
		"campaign scheduled": {func(r *store.PersonRow) { r.State, r.StartAt = store.Scheduled, later }, nil, "the campaign starts at " + stamped},
		"campaign expired":   {func(r *store.PersonRow) { r.ExpireAt = now }, nil, "the campaign expired at 2030-01-02T03:00:00Z"},
		"zone closed":        {func(r *store.PersonRow) { r.ZoneOpens = later }, nil, "its window opens at " + stamped},
		"zone over":          {func(r *store.PersonRow) { r.ZoneCloses = now }, nil, "its window closed at 2030-01-02T03:00:00Z; weir serve looks up when it opens next"},
		"zone shut":          {func(r *store.PersonRow) { r.ZoneShut, r.TZ, r.Senders[0].Owned = true, "Asia/Tokyo", false }, nil, "its window is closed (Asia/Tokyo): no opening is known within a month; is weir serve running?"},
		"opted out":          {func(*store.PersonRow) {}, optOut("marketing"), "opted out (marketing): it will be suppressed, not sent"},
		"left in peace": {
			func(*store.PersonRow) {},
			[]store.Suppression{{Scope: "waba:w:marketing", Kind: store.Wait, Reason: "131049", Until: later, Holds: true}},
			"left in peace until " + stamped + " (waba:w:marketing, 131049 recipient has had enough marketing messages)",
		},
		"left in peace, other kind": {
			func(r *store.PersonRow) { r.Category = engine.Utility },
			[]store.Suppression{{Scope: "waba:w:marketing", Kind: store.Wait, Until: later, Holds: true}},
			"nothing holds it: number n1 takes it in its turn",
		},
		"of this account": {func(*store.PersonRow) {}, optOut("waba:w"), "opted out (waba:w): it will be suppressed, not sent"},
		"of another":      {func(*store.PersonRow) {}, optOut("waba:x"), "nothing holds it: number n1 takes it in its turn"},
		"number stopped": {func(r *store.PersonRow) {
			r.Senders = with(func(n *store.Sender) { n.Enabled, n.StopReason = false, "190" })
		}, nil, "number n1 is stopped: 190 (then weir number set n1 --enable)"},
		"number pauses": {func(r *store.PersonRow) { r.Senders = with(func(n *store.Sender) { n.PausedUntil = later }) }, nil, "number n1 pauses until " + stamped},
		"number open": {func(r *store.PersonRow) {
			r.Senders = with(func(n *store.Sender) { n.Breaker, n.OpenUntil = "open", later })
		}, nil, "number n1's breaker is open, until " + stamped + " at least"},
		"host open": {func(r *store.PersonRow) { r.Senders = with(func(n *store.Sender) { n.Host = "half_open" }) }, nil, "the platform's breaker is half open: one message at a time is tried"},
		"held open by hand": {func(r *store.PersonRow) {
			r.Senders = with(func(n *store.Sender) { n.Breaker, n.OpenUntil, n.Forced = "open", later, "maintenance" })
		}, nil, "number n1's breaker is held open until " + stamped + ": maintenance"},
		"one breaker of all": {func(r *store.PersonRow) {
			r.Senders = append(with(func(n *store.Sender) { n.Host, n.HostOpenUntil = "open", later }),
				store.Sender{ID: "n2", Fallback: true, Enabled: true, Owned: true, Breaker: "closed", Host: "open", HostOpenUntil: later})
		}, nil, "the platform's breaker is open, until " + stamped + " at least"},
		"nobody owns it": {func(r *store.PersonRow) { r.Senders = with(func(n *store.Sender) { n.Owned = false }) }, nil, "no node owns number n1: is weir serve running? (a restart after a kill waits about 14 s)"},
		"quarantine":     {func(r *store.PersonRow) { r.Senders = with(func(n *store.Sender) { n.ReadyAt = later }) }, nil, "number n1's new node may send from " + stamped},
		"one of two sends": {func(r *store.PersonRow) {
			r.Senders = append(with(func(n *store.Sender) { n.Enabled = false }), store.Sender{ID: "n2", Enabled: true, Owned: true, Breaker: "closed", Host: "closed"})
		}, nil, "nothing holds it: number n2 takes it in its turn"},
		"a fallback stands by": {func(r *store.PersonRow) {
			r.Senders = append(with(func(n *store.Sender) { n.Breaker = "half_open" }), fallback(-1))
		}, nil, "number n1's breaker is half open: one message at a time is tried; fallback number n2 stands by: it takes over once no primary has been able to send for 1m0s"},
		"a fallback stands in": {func(r *store.PersonRow) { r.Senders = []store.Sender{fallback(0)} }, nil, "nothing holds it: number n2 takes it in its turn"},
		"a fallback after another attempt": {
			func(r *store.PersonRow) { r.Attempt, r.Senders = 1, []store.Sender{fallback(2)} }, nil,
			"fallback number n2 stands by: it takes over once no primary has been able to send for 1m0s, and tries whom 2 attempts did not reach",
		},
		"a fallback after so many": {func(r *store.PersonRow) { r.Attempt, r.Senders = 2, []store.Sender{fallback(2)} }, nil, "nothing holds it: number n2 takes it in its turn"},
		"held by hand":             {func(r *store.PersonRow) { r.Status, r.OnUnknown = engine.Unknown, engine.UnknownHolds }, nil, "waits for its status webhook, or for weir dead close"},
		"decided by policy":        {func(r *store.PersonRow) { r.Status, r.OnUnknown = engine.Unknown, engine.UnknownFails }, nil, "waits for its status webhook; without one --on-unknown fail decides"},
		"dead":                     {func(r *store.PersonRow) { r.Status = engine.Dead }, nil, "over, unless it is replayed: weir dead replay"},
		"read":                     {func(r *store.PersonRow) { r.Status = engine.Read }, nil, ""},
	} {
		row := store.PersonRow{Campaign: "c", State: store.Running, Category: engine.Marketing, MaxAttempts: 5, DueAt: now, Senders: []store.Sender{ready}}
		tc.row(&row)
		got := standing(store.Person{Now: now, Confirmed: true, Rows: []store.PersonRow{row}, Suppressions: tc.outs})[0].Waits
		if strings.Join(got, "; ") != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
	unvouched := store.Person{Now: now, Rows: []store.PersonRow{{State: store.Running, Senders: []store.Sender{ready}}}}
	if got := standing(unvouched)[0].Waits; len(got) != 1 || got[0] != notConfirmed {
		t.Errorf("on a database that nobody vouches for: %q", got)
	}
}

func TestTimeline(t *testing.T) {
	t.Parallel()
	at := func(minute int) time.Time { return time.Date(2030, 1, 2, 3, minute, 0, 0, time.UTC) }
	p := store.Person{
		Rows: []store.PersonRow{
			{
				Campaign: "new", Line: 2, File: "f.csv", CreatedAt: at(1), StartedAt: at(2), Number: "n1", MessageID: "m2", Replays: 1,
				Attempts: []store.Attempt{
					{Claim: 1, Number: "n1", At: at(3), Code: 503, Title: "down"},
					{Claim: 2, Number: "n1", At: at(4), Title: store.ReasonUnknown},
					{Claim: 4, Number: "n1", At: at(8), MessageID: "m1"},
				},
				Replay: &store.Replay{ID: "id", Who: "ana", Forced: true, At: at(5)}, AcceptedAt: at(6), DeliveredAt: at(7),
			},
			{Campaign: "old", Line: 9, File: "g.csv", CreatedAt: at(0), Attempts: []store.Attempt{{Claim: 1, Number: "n2", At: at(0), Code: 131026, Title: "no", Failed: true}}},
		},
		Suppressions: []store.Suppression{
			{Scope: "all", Kind: store.OptOut, Reason: "STOP", At: at(9), Holds: true},
			{Scope: "marketing", Kind: store.SaidStop, Reason: "message", At: at(12), LiftedAt: at(13), LiftedBy: "ana"},
			{Scope: "all", Kind: store.SaidStop, LiftedAt: at(14)}, // nothing but a start was heard
			{Scope: "waba:w:marketing", Kind: store.OptOut, Reason: "131050", At: at(15), LiftedAt: at(16)},
		},
		Unmatched: []store.Unmatched{{At: at(10), RetryAt: at(11), Number: "n1", Status: "sent", MessageID: "m9"}},
	}
	var got []string
	for _, e := range happened(p) {
		got = append(got, strings.TrimPrefix(e.At, "2030-01-02T03:")+" "+e.Campaign+" "+e.What)
	}
	want := []string{
		"00:00Z old in the audience: line 9 of g.csv", "00:00Z old claim 1 from number n2: failed: 131026 no; leave the phone out of the next audience",
		"01:00Z new in the audience: line 2 of f.csv", "02:00Z new campaign started", "03:00Z new claim 1 from number n1: answered 503 down",
		"04:00Z new claim 2 from number n1: no word of it came; the campaign's policy decided (unknown_outcome)",
		"05:00Z new replayed by ana (id), time 1, forced", "06:00Z new accepted from number n1", "07:00Z new delivered",
		"08:00Z new claim 4 from number n1: DUPLICATE: this message was accepted too, beside the one that is shown",
		"09:00Z  opted out: all, STOP", "10:00Z  webhook that matched nothing: sent, to number n1; next tried 2030-01-02T03:11:00Z",
		"12:00Z  said stop: marketing, message (lifted since)", "13:00Z  lifted by ana: said stop: marketing, message",
		"14:00Z  said start: all",
		"15:00Z  opted out: waba:w:marketing, 131050 recipient stopped marketing messages from you (lifted since)", "16:00Z  wants marketing again, as Meta says: waba:w:marketing",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

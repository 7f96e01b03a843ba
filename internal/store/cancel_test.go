package store

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirhq/weir/engine"
)

func TestCancelCampaign(t *testing.T) {
	t.Parallel()
	s := openOperator(t)
	ordered(t, s, s.CancelCampaign, []orderCase{
		{state: "draft", want: "canceling 1 t"},
		{state: "scheduled", want: "canceling 1 t"},
		{state: "paused", want: "canceling 1 t"},
		{state: "running", want: "canceling 1 f"},
		{state: "pausing", want: "canceling 1 f"},
		{state: "canceling", want: "canceling 0 f"},
		{state: "canceled", want: "canceled 0 f"},
		{state: "importing", says: "drop it"},
		{state: "finished", says: "it is finished"},
	})
}

// A cancel touches no row before it is confirmed. Then what waits is canceled,
// again and again until no row can come back: what a lane or a policy gives back
// later too. Only then is the campaign canceled, and nothing moves it any more.
func TestRule20_ACanceledCampaignEnds(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	other, _ := l.campaign(3)
	c, _ := l.campaign(10_005) // more than a piece
	taken := l.claim(4, c)
	l.record(taken[0], accept("wamid.a"))
	l.record(taken[1], engine.Result{Status: engine.Unknown, Title: "reset"})
	expect := func(name string, over bool, want map[string]int) {
		t.Helper()
		l.finish(name, c, over)
		if diff := cmp.Diff(want, l.statuses(c)); diff != "" {
			t.Fatalf("%s (-want +got):\n%s", name, diff)
		}
		l.recounted()
	}
	l.must(l.CancelCampaign(t.Context(), c))
	expect("not confirmed", false, map[string]int{"pending": 10_001, "accepted": 1, "unknown": 1, "sending": 2})
	l.exec(`UPDATE number_leases SET expires_at = now() + interval '1 h'`)
	l.acknowledge(l.lease, engine.Control{Campaign: c, Version: 1})
	expect("calls are under way", false, map[string]int{"canceled": 10_001, "accepted": 1, "unknown": 1, "sending": 2})
	l.record(taken[2], engine.Result{Status: engine.Pending, Code: 131049, Title: "not now", Delay: time.Hour})
	l.record(taken[3], engine.Result{Status: engine.Pending, Refund: true, KeepDue: true, Due: taken[3].Due})
	expect("an outcome is unknown", false, map[string]int{"canceled": 10_003, "accepted": 1, "unknown": 1})
	l.exec(`UPDATE campaigns SET on_unknown = 'resend', max_attempts = 9`)
	l.exec(`UPDATE number_traffic SET heard_at = 'infinity'`)
	if _, err := l.ResolveUnknowns(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	expect("all are settled; resend was fail", true, map[string]int{"canceled": 10_003, "accepted": 1, "dead": 1})
	l.over(c)
	if diff := cmp.Diff(map[string]int{"pending": 3}, l.statuses(other)); diff != "" {
		t.Errorf("another campaign's rows (-want +got):\n%s", diff)
	}
	var titles []string
	for row, err := range l.Export(t.Context(), c, engine.Canceled, engine.Dead) {
		if l.must(err); row.Status == engine.Canceled {
			titles = append(titles, row.ErrorTitle)
		}
	}
	if diff := cmp.Diff([]string{"the campaign was canceled; not now", "the campaign was canceled"}, slices.Compact(titles)); diff != "" || len(titles) != 10_003 {
		t.Errorf("what an export says of %d canceled rows (-want +got):\n%s", len(titles), diff)
	}
}

// over holds a canceled campaign to its end: nothing takes it up again.
func (l *lab) over(c int64) {
	l.t.Helper()
	ctx := l.t.Context()
	l.finish("twice", c, false)
	if got := scalar[string](l, `SELECT state || ' ' || (finished_at >= confirmed_at)::text FROM campaigns WHERE id = $1`, c); got != "canceled true" {
		l.t.Errorf("it is %s", got)
	}
	l.must(l.CancelCampaign(ctx, c))
	_, started := l.StartCampaign(ctx, c, true)
	_, resumed := l.ResumeCampaign(ctx, c)
	for name, err := range map[string]error{"pause": l.PauseCampaign(ctx, c), "start": started, "resume": resumed} {
		if !errors.Is(err, ErrRefused) {
			l.t.Errorf("%s of a canceled campaign: %v", name, err)
		}
	}
	if rows := l.claim(5, c); len(rows) > 0 || l.state(c) != "canceled" {
		l.t.Errorf("%d rows claimed, and it is %s", len(rows), l.state(c))
	}
}

// Whoever is first: pieces of a cancel that two nodes carry on at the same time,
// and a lane that gives back meanwhile, lose and double nobody.
func TestCancelRacers(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	c, _ := l.campaign(2000)
	taken := l.claim(400, c)
	l.must(l.CancelCampaign(t.Context(), c))
	l.acknowledge(l.lease, engine.Control{Campaign: c, Version: 1})
	race(8, func(i int) {
		if i%2 == 0 {
			for range 3 {
				if _, err := l.FinishCampaign(t.Context(), c); err != nil {
					t.Error(err)
				}
			}
			return
		}
		var back []engine.Result
		for _, r := range taken[i/2*100 : i/2*100+100] {
			back = append(back, engine.Result{Recipient: r.ID, Campaign: c, Claim: r.Claim, Status: engine.Pending, Refund: true, KeepDue: true, Due: r.Due})
		}
		if err := l.Record(t.Context(), l.lease, back, nil); err != nil {
			t.Error(err)
		}
	})
	for range 2 { // who was last may have been a lane; who was first may have ended it
		if _, err := l.FinishCampaign(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(map[string]int{"canceled": 2000}, l.statuses(c)); diff != "" || l.state(c) != "canceled" {
		t.Errorf("it is %s (-want +got):\n%s", l.state(c), diff)
	}
	l.recounted()
}

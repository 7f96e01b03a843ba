package store

import (
	"fmt"
	"testing"
	"time"

	"github.com/weirhq/weir/engine"
)

func TestForcedBreakers(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	c, _ := l.campaign(3)
	l.force(labScope, engine.BreakerOpen)
	l.report("a", host(9, 0, 0), l.ours(9, 0, 0))
	l.later(30 * time.Second)
	if token := l.permit(labScope); token != "" || len(l.claim(3, c)) != 0 {
		t.Errorf("a breaker that is forced open lets through: permit %q", token)
	}
	l.later(31 * time.Second)
	if n := len(l.claim(3, c)); n != 0 {
		t.Errorf("%d rows claimed when the force was over, before a probe", n)
	}
	token := l.permit(labScope)
	ask := l.ask(3, c)
	ask.Probe = token
	if n := len(l.claimed(ask)); n != 1 {
		t.Errorf("the probe after a force claimed %d rows", n)
	}
	l.force(labScope, engine.BreakerOpen)
	l.probed(labScope, token, engine.ProbeAnswered) // too late
	l.force(labScope, engine.BreakerClosed)
	if n := len(l.claim(3, c)); n != 2 {
		t.Errorf("%d rows claimed while it is forced closed, want 2", n)
	}
	const want = "open forced 0/0 of 0, half_open probe 0/0 of 0, open forced 0/0 of 0, closed forced 0/0 of 0"
	if got := l.moves(labScope); got != want {
		t.Errorf("moves %s, want %s", got, want)
	}
	for _, bad := range []Force{
		{Scope: "host", State: engine.BreakerHalfOpen, For: time.Minute, Note: "x"},
		{Scope: "host", State: engine.BreakerOpen, Note: "x"},
		{Scope: "host", State: engine.BreakerOpen, For: MaxForce + 1, Note: "x"},
		{Scope: "host", State: engine.BreakerOpen, For: time.Minute, Note: " "},
		{Scope: "number:9", State: engine.BreakerOpen, For: time.Minute, Note: "x"},
	} {
		if err := l.ForceBreaker(t.Context(), bad); err == nil {
			t.Errorf("%+v was accepted", bad)
		}
	}
	if got := l.moves("host"); got != "" {
		t.Errorf("a refused force moved the host: %s", got)
	}
}

func TestBreakerListAndMoves(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.campaign(1)
	tally := host(100, 9, 0)
	tally.Times[4], tally.Times[5] = 94, 6 // 150–250 ms, 250–350 ms
	l.report("a", tally)
	l.report("b", host(5, 5, 5)) // one of two
	l.later(26 * time.Second)
	l.report("b", host(5, 5, 10)) // alone: opens
	l.later(5 * time.Second)
	l.probed("host", l.permit("host"), engine.ProbeAnswered)
	list, err := l.BreakerList(t.Context())
	l.must(err)
	if len(list) != 2 || list[0].Scope != "host" || list[1].Scope != labScope {
		t.Fatalf("list %+v", list)
	}
	got := list[0]
	if got.State != engine.BreakerClosed || got.Cause != "consecutive" || got.Reason != "probe_answered" || got.Seq != 3 ||
		got.Openings != 1 || got.MeanOpen.Round(time.Second) < 5*time.Second || got.MeanOpen > 30*time.Second {
		t.Errorf("host %+v", got)
	}
	if got.Samples != 110 || got.Failures != 19 || got.P95 < 250*time.Millisecond || got.P95 > 270*time.Millisecond || got.P99 > 350*time.Millisecond {
		t.Errorf("host's calls %+v", got)
	}
	if n := list[1]; n.Openings != 0 || n.MeanOpen != 0 || n.Samples != 0 || n.P95 != 0 {
		t.Errorf("a number that did nothing: %+v", n)
	}
	moves, err := l.BreakerMoves(t.Context())
	l.must(err)
	want := map[engine.BreakerState]int64{engine.BreakerClosed: 1, engine.BreakerHalfOpen: 1, engine.BreakerOpen: 1}
	if len(moves) != 2 || fmt.Sprint(moves[0].To) != fmt.Sprint(want) || moves[0].State != engine.BreakerClosed {
		t.Errorf("moves %+v", moves)
	}
	l.later(89 * 24 * time.Hour)
	l.must(l.ForgetBreakerEvents(t.Context()))
	kept := scalar[int](l, `SELECT count(*) FROM breaker_events`)
	l.later(2 * 24 * time.Hour)
	l.must(l.ForgetBreakerEvents(t.Context()))
	if left := scalar[int](l, `SELECT count(*) FROM breaker_events`); kept != 3 || left != 0 {
		t.Errorf("%d events after 89 days, %d after 91", kept, left)
	}
}

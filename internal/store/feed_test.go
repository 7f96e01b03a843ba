package store

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weirhq/weir/engine"
)

// follow reads a scope's feed to its end, in pages of most.
func (l *lab) follow(scope string, after Mark, most int) (events []BreakerEvent, next Mark) {
	l.t.Helper()
	for next = after; ; {
		page, mark, err := l.BreakerEvents(l.t.Context(), scope, next, most)
		l.must(err)
		if next = mark; len(page) == 0 {
			return events, next
		}
		events = append(events, page...)
	}
}

func (l *lab) now(scope string) (m Mark) {
	l.t.Helper()
	l.must(l.pool.QueryRow(l.t.Context(), `SELECT epoch::text, seq FROM breakers WHERE scope = $1`, scope).Scan(&m.Epoch, &m.Seq))
	return m
}

// A follower gets what the table holds, whatever the pages; where its mark leads
// nowhere it is told why.
func TestFollowingABreaker(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	first := l.now("host")
	if events, next := l.follow("host", Mark{}, 10); len(events) > 0 || next != first {
		t.Errorf("nothing has happened yet: %v, next %v, want %v", events, next, first)
	}
	for range 7 {
		l.force("host", engine.BreakerOpen)
	}
	l.force(labScope, engine.BreakerOpen)
	all, next := l.follow("host", Mark{}, 100)
	if len(all) != 7 || next != l.now("host") || all[0].Seq != 1 || all[0].Prev != "closed" || all[6].Prev != "open" || all[6].Note == "" || all[6].At.IsZero() {
		t.Fatalf("7 moves: %+v, next %v", all, next)
	}
	for most := -1; most < 9; most++ {
		paged, _ := l.follow("host", Mark{}, most)
		rest, _ := l.follow("host", all[2].Mark, most)
		if diff := cmp.Diff([][]BreakerEvent{all, all[3:]}, [][]BreakerEvent{paged, rest}); diff != "" {
			t.Errorf("in pages of %d (-all at once +paged):\n%s", most, diff)
		}
	}
	ahead := Mark{next.Epoch, 8}
	l.wontFollow("ahead", ahead, ErrAhead)
	l.wontFollow("another epoch", Mark{"00000000-0000-4000-8000-000000000000", 7}, ErrRestarted)
	if _, _, err := l.BreakerEvents(t.Context(), "number:7", Mark{}, 1); !errors.Is(err, ErrNotFound) {
		t.Errorf("no such breaker: %v", err)
	}
	l.exec(`DELETE FROM breaker_events WHERE scope = 'host' AND seq <= 2`)
	if rest, _ := l.follow("host", Mark{}, 100); cmp.Diff(all[2:], rest) != "" {
		t.Errorf("from the oldest that is kept: %v", rest)
	}
	l.wontFollow("forgotten", all[0].Mark, ErrForgotten)
	l.wontFollow("forgotten, from the beginning", first, ErrForgotten)
	l.exec(`DELETE FROM breaker_events WHERE scope = 'host' AND seq = 5`) // by a hand
	if page, at, err := l.BreakerEvents(t.Context(), "host", all[2].Mark, 100); err != nil || cmp.Diff(all[3:4], page) != "" || at.Seq != 4 {
		t.Errorf("up to the hole: %v, next %v, %v", page, at, err)
	}
	l.wontFollow("a hole", all[3].Mark, ErrForgotten)
	l.exec(`DELETE FROM breaker_events WHERE scope = 'host'`)
	l.wontFollow("all forgotten", all[3].Mark, ErrForgotten)
}

func (l *lab) wontFollow(what string, after Mark, want error) {
	l.t.Helper()
	events, next, err := l.BreakerEvents(l.t.Context(), "host", after, 100)
	if !errors.Is(err, want) || len(events) > 0 || next != after {
		l.t.Errorf("%s: %v, next %v, %v, want %v", what, events, next, err, want)
	}
}

// After a fail-over that has forgotten moves a follower is told that the numbers
// began anew, before the first move there already; what both servers know of the
// old epoch it still gets.
func TestFollowingABreakerOverAFailOver(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	for range 3 {
		l.force("host", engine.BreakerOpen)
	}
	all, next := l.follow("host", Mark{}, 100)
	lost := Mark{next.Epoch, 5} // of two more moves, which the standby had not got
	l.wontFollow("on the same server", lost, ErrAhead)
	l.exec(`UPDATE breakers SET cluster = 'the one before'`)
	l.wontFollow("before its first move there", lost, ErrRestarted)
	if events, at := l.follow("host", next, 100); len(events) > 0 || at != next {
		t.Errorf("nothing was lost for this one: %v, next %v", events, at)
	}
	l.force("host", engine.BreakerClosed)
	l.wontFollow("who had seen what was lost", lost, ErrRestarted)
	l.wontFollow("who had seen all that was not", next, ErrRestarted)
	if page, _, err := l.BreakerEvents(t.Context(), "host", all[0].Mark, 100); err != nil || cmp.Diff(all[1:], page) != "" {
		t.Errorf("the old epoch's end: %v, %v", page, err)
	}
	if anew, _ := l.follow("host", Mark{}, 100); len(anew) != 1 || anew[0].Seq != 1 || anew[0].Epoch == next.Epoch || anew[0].Prev != "open" {
		t.Errorf("the new epoch: %+v", anew)
	}
}

// Whoever reads while breakers move gets every event, in order.
func TestFollowingWhileBreakersMove(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	var over atomic.Bool
	read := make(chan []int64, 1)
	go func() {
		var seqs []int64
		defer func() { read <- seqs }()
		for next := (Mark{}); ; {
			last := over.Load()
			events, mark, err := l.BreakerEvents(context.Background(), "host", next, 3)
			if err != nil {
				t.Error(err)
				return
			}
			for _, e := range events {
				seqs = append(seqs, e.Seq)
			}
			if next = mark; last && len(events) == 0 {
				return
			}
		}
	}()
	l.racers(4, func(ctx context.Context, i int) error {
		for n := range 25 {
			state := engine.BreakerState(2 * (n % 2))
			if err := l.ForceBreaker(ctx, Force{Scope: "host", State: state, For: MaxForce, Note: fmt.Sprint(i)}); err != nil {
				return err
			}
		}
		return nil
	})
	over.Store(true)
	seqs := <-read
	for i, seq := range seqs {
		if seq != int64(i+1) {
			t.Fatalf("event %d came as the %d.", seq, i+1)
		}
	}
	if last := l.now("host").Seq; int64(len(seqs)) != last {
		t.Errorf("%d events, want %d", len(seqs), last)
	}
}

func TestParseMark(t *testing.T) {
	t.Parallel()
	const epoch = "0f3bd1c2-9a5e-4d6f-8b7a-112233445566"
	for text, want := range map[string]string{
		epoch + ".0": epoch + ".0", epoch + ".9223372036854775807": epoch + ".9223372036854775807",
		"0F3BD1C29A5E4D6F8B7A112233445566.7": epoch + ".7",
		"7":                                  "", "." + "7": "", epoch: "", epoch + ".": "", epoch + ".-1": "", epoch + ".7.8": "", epoch + ".9223372036854775808": "",
		"host.7": "", " ": "", epoch + "'.7": "",
	} {
		m, err := ParseMark(text)
		if got := m.String(); err == nil && got != want || (err != nil) != (want == "") || err != nil && !errors.Is(err, ErrRefused) {
			t.Errorf("ParseMark(%q) = %v, %v; want %q", text, m, err, want)
		}
	}
	if m, err := ParseMark(""); m != (Mark{}) || err != nil {
		t.Errorf("no mark: %v, %v", m, err)
	}
}

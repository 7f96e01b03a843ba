package store

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weirhq/weir/engine"
)

// wish is an inbound message that asks for something.
func wish(from string, w engine.Wish, at time.Time) engine.Event {
	return engine.Event{Kind: "inbound", Account: labWABA, Number: labNumber, Body: []byte(`{}`), Inbound: engine.Inbound{From: from, At: at, Wish: w}}
}

func (l *lab) hearWishes(events ...engine.Event) {
	l.t.Helper()
	_, err := l.ApplyStatuses(l.t.Context(), nil, events)
	l.must(err)
}

// A stop holds for the next claim of every campaign it is about, in every way
// of writing the person's phone; a start takes back that and nothing else.
func TestWishes(t *testing.T) {
	t.Parallel()
	t0 := time.Now().Add(-time.Hour)
	for name, tc := range map[string]struct {
		wishes   []engine.Wish // a second apart
		category string
		sql      string // before them
		why      string
	}{
		"stop":                     {wishes: []engine.Wish{engine.WishStop}, category: "marketing", why: ReasonSaidStop},
		"stop, utility":            {wishes: []engine.Wish{engine.WishStop}, category: "utility"},
		"stop all, utility":        {wishes: []engine.Wish{engine.WishStopAll}, category: "utility", why: ReasonSaidStop},
		"nothing":                  {wishes: []engine.Wish{engine.WishNothing}, category: "marketing"},
		"started again":            {wishes: []engine.Wish{engine.WishStop, engine.WishStart}, category: "marketing"},
		"started again after all":  {wishes: []engine.Wish{engine.WishStopAll, engine.WishStop, engine.WishStart}, category: "marketing"},
		"stopped again":            {wishes: []engine.Wish{engine.WishStop, engine.WishStart, engine.WishStop}, category: "marketing", why: ReasonSaidStop},
		"start is not the list's":  {wishes: []engine.Wish{engine.WishStart}, category: "marketing", sql: `kind = 'suppress', scope = 'marketing'`, why: ReasonOptedOut},
		"stop and start, the list": {wishes: []engine.Wish{engine.WishStop, engine.WishStart}, category: "marketing", sql: `kind = 'suppress', scope = 'all'`, why: ReasonOptedOut},
	} {
		for _, from := range []string{"5511987654321", "551187654321"} {
			t.Run(name+" "+from, func(t *testing.T) {
				t.Parallel()
				l := newLab(t)
				c, first := l.campaign(1)
				l.exec(`UPDATE campaigns SET category = $1`, tc.category)
				l.exec(`UPDATE recipient_params SET phone = '+5511987654321'`)
				if tc.sql != "" {
					l.exec(`INSERT INTO suppressions (phone, scope) VALUES ('+5511987654321', '')`)
					l.exec(`UPDATE suppressions SET ` + tc.sql)
				}
				for i, w := range tc.wishes {
					l.hearWishes(wish(from, w, t0.Add(time.Duration(i)*time.Second)))
				}
				rows := l.claim(1, c)
				if len(rows) != 1 || rows[0].Suppressed != (tc.why != "") || l.reason(first) != tc.why {
					t.Errorf("claim = %+v, reason %q, want %q", rows, l.reason(first), tc.why)
				}
			})
		}
	}
}

// Who lets a number write that is not ours has said nothing to us; a stop counts
// wherever it was said.
func TestAStartCountsAtOurNumbersAlone(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	c, _ := l.campaign(1)
	l.exec(`UPDATE campaigns SET category = 'marketing'`)
	l.exec(`UPDATE recipient_params SET phone = '+4915112345678'`)
	at := time.Now().Add(-time.Hour)
	stop, start := wish("4915112345678", engine.WishStop, at), wish("4915112345678", engine.WishStart, at.Add(time.Minute))
	stop.Number, start.Number = "of another", "of another"
	l.hearWishes(stop, start)
	if rows := l.claim(1, c); len(rows) != 1 || !rows[0].Suppressed {
		t.Errorf("claim = %+v, want it suppressed", rows)
	}
}

// Whatever is heard, in whatever order and however often, the latest word of
// those heard so far decides, and of two of one second the stop.
func TestTheLaterWordStands(t *testing.T) {
	t.Parallel()
	base := newLab(t)
	t0 := time.Now().Add(-24 * time.Hour).Truncate(time.Second)
	person := 0
	rapid.Check(t, func(rt *rapid.T) {
		l := base.under(t)
		person++
		phone := fmt.Sprintf("49151%08d", person)
		words := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) engine.Event {
			w := rapid.SampledFrom([]engine.Wish{engine.WishStop, engine.WishStart}).Draw(rt, "wish")
			return wish(phone, w, t0.Add(time.Duration(rapid.IntRange(0, 4).Draw(rt, "second"))*time.Second))
		}), 1, 12).Draw(rt, "words")
		last, stopped := time.Time{}, false
		for len(words) > 0 {
			n := rapid.IntRange(1, len(words)).Draw(rt, "batch")
			l.hearWishes(words[:n]...)
			for _, e := range words[:n] {
				if e.At.After(last) || (e.At.Equal(last) && e.Wish == engine.WishStop) {
					last, stopped = e.At, e.Wish == engine.WishStop
				}
			}
			words = words[n:]
			if got := scalar[bool](l, `SELECT EXISTS (SELECT FROM suppressions WHERE phone = $1 AND scope = 'marketing' AND kind = 'stop' AND until > now())`, "+"+phone); got != stopped {
				rt.Fatalf("stopped: %v, want %v", got, stopped)
			}
		}
	})
}

// A message that comes again is kept once, in one batch and in two; what has no
// key is always kept.
func TestInboundMessagesAreKeptOnce(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	one, other := wish("1", engine.WishNothing, time.Now()), wish("1", engine.WishNothing, time.Now())
	one.Key, other.Key = "a", "b"
	none := wish("1", engine.WishNothing, time.Now())
	for range 2 {
		l.hearWishes(one, other, one, none)
	}
	if n := scalar[int](l, `SELECT count(*) FROM webhook_events WHERE key IN ('a', 'b')`); n != 2 {
		t.Errorf("%d of two messages are kept", n)
	}
	if n := scalar[int](l, `SELECT count(*) FROM webhook_events WHERE kind = 'inbound'`); n != 4 {
		t.Errorf("%d events are kept, want 2 and 2 without a key", n)
	}
	if days := scalar[float64](l, `SELECT extract(epoch FROM max(keep_until) - now())::float8 / 86400 FROM webhook_events`); days < 29.9 || days > 30.1 {
		t.Errorf("kept for %v days, want 30", days)
	}
}

// Racers who say both in every order leave the later word.
func TestWishesRace(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	t0 := time.Now().Add(-time.Hour)
	race(8, func(i int) {
		for k := range 20 {
			n := (i*7 + k*3) % 20
			w := engine.WishStart
			if n%2 == 1 {
				w = engine.WishStop
			}
			if _, err := l.ApplyStatuses(l.t.Context(), nil, []engine.Event{wish("4915112345678", w, t0.Add(time.Duration(n)*time.Second))}); err != nil {
				t.Error(err)
			}
		}
	})
	if !scalar[bool](l, `SELECT until > now() FROM suppressions WHERE scope = 'marketing' AND kind = 'stop'`) { // the latest, 19, is a stop
		t.Error("an earlier start has taken the stop back")
	}
}

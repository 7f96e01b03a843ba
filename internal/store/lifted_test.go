package store

import (
	"errors"
	"testing"
	"time"

	"github.com/weirhq/weir/engine"
)

// said is the one record of a kind and a scope about a phone.
func (l *lab) said(phone string, kind SuppressionKind, scope string) (one Suppression) {
	l.t.Helper()
	p, err := l.Explain(l.t.Context(), phone)
	l.must(err)
	n := 0
	for _, o := range p.Suppressions {
		if o.Kind == kind && o.Scope == scope {
			one = o
			n++
		}
	}
	if n != 1 {
		l.t.Fatalf("%d records of %s %s, want one: %+v", n, kind, scope, p.Suppressions)
	}
	return one
}

// What the person said, in a message or to Meta, is lifted by force alone, and all
// that was asked for or nothing; an operator's entry needs no force.
func TestAPersonsOwnWordIsLiftedByForceAlone(t *testing.T) {
	t.Parallel()
	const phone = "+5511987654321" // stands there in two forms
	for name, own := range map[string]func(*lab){
		"a message": func(l *lab) { l.hearWishes(wish(phone[1:], engine.WishStop, time.Now().Add(-time.Hour))) },
		"to Meta": func(l *lab) {
			l.exec(`INSERT INTO suppressions (phone, scope, reason) SELECT p, 'waba:9001:marketing', '131050' FROM unnest($1::text[]) p`, phones(phone))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			own(l)
			_, err := l.Suppress(t.Context(), phone, SuppressionOrder{Scope: "utility", Who: "ana"})
			l.must(err)
			before := len(l.listed(""))
			words, err := l.Unsuppress(t.Context(), phone, SuppressionOrder{Who: "ana"})
			if !errors.Is(err, ErrRefused) || len(words) != 1 || words[0].Scope == "utility" || words[0].At.IsZero() || len(l.listed("")) != before {
				t.Fatalf("without force: %+v, %v, listed %q of %d", words, err, l.listed(""), before)
			}
			for i, o := range []SuppressionOrder{{Scope: "utility", Who: "ana", Force: true}, {Who: "bo", Force: true}} {
				if lifted, err := l.Unsuppress(t.Context(), phone, o); err != nil || len(lifted) != 1 || len(l.listed("")) != 2*(1-i) {
					t.Errorf("%+v lifted %+v, %v, left %q", o, lifted, err, l.listed(""))
				}
			}
			if got := scalar[string](l, `SELECT string_agg(concat(who, ' ', body ->> 'forced'), ', ' ORDER BY id) FROM audit WHERE what = 'suppression_removed'`); got != "ana false, bo true" {
				t.Errorf("on record: %s", got)
			}
		})
	}
}

// What is lifted keeps the time at which it was said, and says who lifted it and
// when; the same word coming again does not bring it back, and a later one does.
func TestWhatIsLiftedKeepsItsTime(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	const phone = "+5511987654321"
	at := time.Now().Add(-time.Hour).Truncate(time.Second)
	_, err := l.Suppress(t.Context(), phone, SuppressionOrder{Scope: "utility", Who: "ana"})
	l.must(err)
	l.exec(`UPDATE suppressions SET at = $1`, at)
	l.hearWishes(wish(phone[1:], engine.WishStop, at))
	_, err = l.Unsuppress(t.Context(), phone, SuppressionOrder{Who: "bo", Force: true})
	l.must(err)
	l.hearWishes(wish(phone[1:], engine.WishStop, at)) // delivered again
	l.hearWishes(wish(phone[1:], engine.WishStop, at.Add(time.Minute)))
	for kind, scope := range map[SuppressionKind]string{OptOut: "utility", SaidStop: "marketing"} {
		if o := l.said(phone, kind, scope); o.Holds || !o.At.Equal(at) || !o.LiftedAt.After(at) || o.LiftedBy != "bo" {
			t.Errorf("lifted: %+v, want it said at %v and lifted by bo after that", o, at)
		}
	}
	again := time.Now().Add(time.Hour).Truncate(time.Second)
	l.hearWishes(wish(phone[1:], engine.WishStop, again))
	_, err = l.Suppress(t.Context(), phone, SuppressionOrder{Scope: "utility", Who: "ana"})
	l.must(err)
	for kind, scope := range map[SuppressionKind]string{OptOut: "utility", SaidStop: "marketing"} {
		if o := l.said(phone, kind, scope); !o.Holds || !o.At.After(at) || !o.LiftedAt.IsZero() || o.LiftedBy != "" {
			t.Errorf("said again: %+v, want it to hold", o)
		}
	}
}

// A start of the person's and Meta's word that they want it again lift alike, and
// where there was nothing to lift they are no opt-out.
func TestWhatAPersonTakesBackKeepsItsTime(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	at := time.Now().Add(-time.Hour).Truncate(time.Second)
	back := at.Add(time.Minute)
	const phone, scope = "+4915112345678", "waba:" + labWABA + ":marketing"
	word := func(spare engine.Spare, at time.Time) engine.News {
		return engine.News{About: engine.AboutPerson, Phone: phone[1:], Account: labWABA, Spare: spare, At: at}
	}
	l.hearWishes(wish(phone[1:], engine.WishStop, at), wish(phone[1:], engine.WishNothing, at))
	l.hearWishes(wish(phone[1:], engine.WishStart, back))
	l.exec(`INSERT INTO suppressions (phone, scope, reason, at) VALUES ($1, $2, '131050', $3)`, phone, scope, at)
	l.hears(word(engine.SpareNoLonger, back))
	for kind, scope := range map[SuppressionKind]string{SaidStop: "marketing", OptOut: scope} {
		if o := l.said(phone, kind, scope); o.Holds || !o.At.Equal(at) || !o.LiftedAt.Equal(back) || o.LiftedBy != "" || o.Reason == "" {
			t.Errorf("taken back: %+v, want it said at %v and taken back at %v", o, at, back)
		}
	}
	if o := l.said(phone, SaidStop, "all"); o.Holds || !o.At.IsZero() || !o.LiftedAt.Equal(back) {
		t.Errorf("a start alone: %+v", o)
	}
}

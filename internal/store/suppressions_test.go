package store

import (
	"errors"
	"fmt"
	"iter"
	"testing"
	"time"
)

// listed are the phones of the list that hold, with scope and kind.
func (l *lab) listed(scope string) (all []string) {
	l.t.Helper()
	for row, err := range l.Suppressions(l.t.Context(), scope) {
		l.must(err)
		all = append(all, fmt.Sprint(row.Phone, " ", row.Scope, " ", row.Kind))
	}
	return all
}

func importOf(phones ...string) iter.Seq2[ImportRow, error] {
	return func(yield func(ImportRow, error) bool) {
		for i, phone := range phones {
			row := ImportRow{Line: int64(i + 2), Phone: phone, Rejected: phone == ""}
			if phone == "broken" {
				yield(row, errors.New("the file broke off"))
				return
			}
			if !yield(row, nil) {
				return
			}
		}
	}
}

// Who is put on the list is left out by the next claim of a running campaign,
// and who is taken off it is not.
func TestTheListHoldsFromTheNextClaim(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	c, first := l.campaign(3)
	l.exec(`UPDATE recipient_params SET phone = '+551187654321' WHERE id = $1`, first+1) // as the platform writes it
	order := SuppressionOrder{Scope: "utility", Who: "ana", Reason: "called us"}
	for _, want := range []bool{true, false} { // twice is once
		if added, err := l.Suppress(t.Context(), "+5511987654321", order); err != nil || added != want {
			t.Fatalf("added: %v %v, want %v", added, err, want)
		}
	}
	rows := l.claim(2, c)
	if len(rows) != 2 || rows[0].Suppressed || !rows[1].Suppressed {
		t.Fatalf("claim = %+v, want the second left out", rows)
	}
	at := time.Now().Add(-time.Hour)
	l.hearWishes(wish("5511900000003", 1, at))
	l.exec(`UPDATE recipient_params SET phone = '+5511900000003' WHERE id = $1`, first+2)
	l.exec(`UPDATE campaigns SET category = 'marketing'`)
	lifted, err := l.Unsuppress(t.Context(), "+5511900000003", SuppressionOrder{Who: "ana", Force: true})
	if err != nil || len(lifted) != 1 || lifted[0].Kind != SaidStop {
		t.Fatalf("lifted %+v, %v", lifted, err)
	}
	l.hearWishes(wish("5511900000003", 1, at)) // delivered again, after it was lifted
	if rows := l.claim(1, c); len(rows) != 1 || rows[0].Suppressed {
		t.Errorf("claim = %+v, want the row: the opt-out was lifted", rows)
	}
	if got := scalar[string](l, `SELECT string_agg(what || ' ' || who || ' ' || (body ->> 'phone'), ', ' ORDER BY id) FROM audit`); got !=
		"suppression_added ana +5511987654321, suppression_removed ana +5511900000003" {
		t.Errorf("on record: %s", got)
	}
}

// A removal takes back one scope or all, never a wait of Meta's, and nothing twice.
func TestRemovals(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.exec(`INSERT INTO suppressions (phone, scope, kind, until) SELECT '+4915112345678', s, k, now() + interval '1 h'
		FROM unnest(ARRAY['all', 'marketing']) s, unnest(ARRAY['suppress', 'stop', 'absent', 'wait']) k`)
	for _, tc := range []struct {
		scope string
		n     int
	}{{"number:1", 0}, {"marketing", 3}, {"marketing", 0}, {"", 3}, {"", 0}} {
		lifted, err := l.Unsuppress(t.Context(), "+4915112345678", SuppressionOrder{Scope: tc.scope, Who: "ana", Force: true})
		if err != nil || len(lifted) != tc.n {
			t.Errorf("of scope %q lifted %+v %v, want %d", tc.scope, lifted, err, tc.n)
		}
	}
	if n := scalar[int](l, `SELECT count(*) FROM suppressions WHERE until > now()`); n != 2 {
		t.Errorf("%d still hold, want the two waits", n)
	}
	if n := scalar[int](l, `SELECT count(*) FROM audit`); n != 2 {
		t.Errorf("%d removals on record, want 2", n)
	}
}

func TestScopesMustBeKnown(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	for scope, ok := range map[string]bool{
		"all": true, "marketing": true, "number:" + labNumber: true, "waba:" + labWABA: true,
		"": false, "promotions": false, "number:1": false, "waba:1": false, "waba:" + labWABA + ":marketing": false,
	} {
		_, err := l.Suppress(t.Context(), "+4915112345678", SuppressionOrder{Scope: scope})
		if _, other := l.ImportSuppressions(t.Context(), "f", importOf("+4915112345678"), SuppressionOrder{Scope: scope}); (err == nil) != ok || (other == nil) != ok || (!ok && !errors.Is(err, ErrRefused)) {
			t.Errorf("scope %q: %v, %v", scope, err, other)
		}
	}
}

// Rows read = added + already + rejected; a person counts once, in whatever form.
func TestImportSuppressions(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.exec(`INSERT INTO suppressions (phone, scope, until) VALUES ('+4915100000001', 'all', 'infinity'), ('+4915100000002', 'all', '-infinity'),
		('+4915100000003', 'all', now() + interval '1 h'), ('+4915100000004', 'marketing', 'infinity')`)
	file := []string{"+4915100000001", "+4915100000002", "+4915100000003", "+4915100000004", "", "+4915100000005", "+4915100000005", "+5511987654321"}
	n, err := l.ImportSuppressions(t.Context(), "f.csv", importOf(file...), SuppressionOrder{Scope: "all", Who: "ana"})
	if want := (ImportedSuppressions{Read: 8, Added: 5, Already: 2, Rejected: 1}); err != nil || n != want {
		t.Errorf("imported %+v, %v, want %+v", n, err, want)
	}
	if got := l.listed("all"); len(got) != 7 { // 5 Germans, and a Brazilian in two forms
		t.Errorf("listed %q", got)
	}
	n, err = l.ImportSuppressions(t.Context(), "f.csv", importOf(file...), SuppressionOrder{Scope: "all", Who: "ana"})
	if want := (ImportedSuppressions{Read: 8, Already: 7, Rejected: 1}); err != nil || n != want {
		t.Errorf("again: %+v, %v, want %+v", n, err, want)
	}
	if got := scalar[string](l, `SELECT string_agg(concat(body ->> 'read', '/', body ->> 'added'), ' ' ORDER BY id) FROM audit WHERE what = 'suppressions_imported'`); got != "8/5 8/0" {
		t.Errorf("on record: %s", got)
	}
	before := len(l.listed(""))
	if _, err := l.ImportSuppressions(t.Context(), "f.csv", importOf("+4915100000009", "broken"), SuppressionOrder{Scope: "all"}); err == nil || len(l.listed("")) != before {
		t.Errorf("a file that breaks off: %v, %d listed, were %d", err, len(l.listed("")), before)
	}
}

// The list is read page by page, whole.
func TestSuppressionsPages(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.exec(`INSERT INTO suppressions (phone, scope) SELECT '+49151' || lpad(i::text, 8, '0'), s FROM generate_series(1, 5003) i, unnest(ARRAY['all', 'marketing']) s`)
	if n := len(l.listed("")); n != 10_006 {
		t.Errorf("%d listed, want 10 006", n)
	}
	if n := len(l.listed("all")); n != 5003 {
		t.Errorf("%d of scope all, want 5003", n)
	}
}

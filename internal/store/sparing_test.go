package store

import (
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirhq/weir/engine"
)

// reason is why a row was left out, "" when it was not.
func (l *lab) reason(id int64) string {
	l.t.Helper()
	return scalar[string](l, `SELECT coalesce((SELECT a.title FROM attempts a JOIN recipients r ON r.id = a.recipient_id AND r.claim = a.claim
		WHERE r.id = $1 AND r.status = 'suppressed'), '')`, id)
}

// capped is a running marketing campaign of these persons, with a cap.
func (l *lab) capped(people []int64, messages, days int) (campaign, first int64) {
	l.t.Helper()
	campaign, first = l.campaign(len(people))
	l.exec(`UPDATE campaigns SET category = 'marketing', cap_messages = nullif($2::int, 0), cap_days = nullif($3::int, 0) WHERE id = $1`, campaign, messages, days)
	l.exec(`UPDATE recipient_params p SET phone = o.phone FROM unnest($1::bigint[]) WITH ORDINALITY x(id, i)
		JOIN recipient_params o ON o.id = x.id WHERE p.id = $2 + x.i - 1`, people, first)
	return campaign, first
}

func (l *lab) askCapped(free int, campaigns ...int64) engine.Ask {
	ask := l.ask(free, campaigns...)
	ask.Capped = true
	return ask
}

// Each kind of suppression has its reason; the strictest is told.
func TestClaimTellsWhyItLeavesOut(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ kinds, want string }{
		"a list":   {`suppress`, ReasonOptedOut},
		"a word":   {`stop`, ReasonSaidStop},
		"absent":   {`absent`, ReasonAbsent},
		"all":      {`absent,wait,stop,suppress`, ReasonOptedOut},
		"two":      {`absent,stop`, ReasonSaidStop},
		"a wait":   {`wait`, ""},
		"not that": {``, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			c, first := l.campaign(1)
			l.exec(`UPDATE campaigns SET category = 'marketing'`)
			l.exec(`UPDATE recipients SET error_code = 131049`)
			l.exec(`INSERT INTO suppressions (phone, scope, kind, until) SELECT p.phone, 'marketing', k, now() + interval '1 h'
				FROM recipient_params p, unnest(string_to_array($1, ',')) k`, tc.kinds)
			rows := l.claim(1, c)
			if got := l.reason(first); len(rows) != 1 || got != tc.want || rows[0].Suppressed != (tc.want != "") {
				t.Fatalf("reason %q, claim %+v, want %q", got, rows, tc.want)
			}
			counts, err := l.SuppressedByReason(t.Context(), c)
			l.must(err)
			if n := counts[tc.want]; (n == 1) != (tc.want != "") {
				t.Errorf("counted %v", counts)
			}
			for row, err := range l.Export(t.Context(), c, engine.Suppressed) {
				if l.must(err); row.ErrorTitle != tc.want || row.ErrorCode != 0 {
					t.Errorf("exported %q with code %d, want %q alone", row.ErrorTitle, row.ErrorCode, tc.want)
				}
			}
			if errors, err := l.ErrorsByCode(t.Context(), c); err != nil || len(errors) > 0 {
				t.Errorf("left out persons count as errors: %+v %v", errors, err)
			}
			l.recounted()
		})
	}
}

// Who was not on WhatsApp is left out by the marketing that asks for it, for as
// long as it asks; not by a replay, and not once a message of any kind arrived.
func TestWhoIsNotOnWhatsAppIsLeftOut(t *testing.T) {
	t.Parallel()
	absent := engine.Answer{Action: engine.Fail, Code: 131026, Spare: engine.SpareAbsent}
	for name, tc := range map[string]struct {
		category string
		days     int
		sql      string // about row $1 of the second campaign
		hit      bool
	}{
		"in time":          {category: "marketing", days: 30, hit: true},
		"after its days":   {category: "marketing", days: 30, sql: `UPDATE suppressions SET at = at - interval '30 days 1 h' WHERE $1 > 0`},
		"no days":          {category: "marketing"},
		"utility":          {category: "utility", days: 30},
		"a replay":         {category: "marketing", days: 30, sql: `UPDATE recipients SET replays = 1 WHERE id = $1`},
		"delivered since":  {category: "marketing", days: 30, sql: `UPDATE recipients SET delivered_at = now() + interval '1 s' WHERE id <> $1`},
		"delivered before": {category: "marketing", days: 30, sql: `UPDATE recipients SET delivered_at = now() - interval '1 day' WHERE id <> $1`, hit: true},
	} {
		for how, say := range map[string]func(l *lab, r engine.Recipient){
			"answer": func(l *lab, r engine.Recipient) {
				l.record(r, engine.Result{Status: engine.Failed, Code: 131026, Spare: engine.SpareAbsent})
			},
			"webhook": func(l *lab, r engine.Recipient) {
				l.record(r, accept("wamid.a"))
				l.apply(failed(r.ID, r.Claim, "wamid.a", absent, time.Now().Add(-time.Minute)))
			},
		} {
			t.Run(name+", "+how, func(t *testing.T) {
				t.Parallel()
				l := newLab(t)
				r := l.one()
				say(l, r)
				c, id := l.same(r.ID, tc.category)
				l.exec(`UPDATE campaigns SET absent_days = $1`, tc.days)
				if tc.sql != "" {
					l.exec(tc.sql, id)
				}
				if rows := l.claim(1, c); len(rows) != 1 || rows[0].Suppressed != tc.hit || (l.reason(id) == ReasonAbsent) != tc.hit {
					t.Errorf("claim = %+v (%q), want it left out: %v", rows, l.reason(id), tc.hit)
				}
			})
		}
	}
}

// A cap counts what a person had, and what they may have had, of the marketing of
// every campaign; a message under way only makes wait.
func TestClaimLeavesOutWhoHasHadEnough(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		cap  int
		sql  string // about the row of the campaign before
		hit  bool
		wait bool
	}{
		"had one":           {cap: 1, sql: `status = 'delivered', accepted_at = now() - interval '6 days'`, hit: true},
		"status came first": {cap: 1, sql: `status = 'sent', sent_at = now() - interval '6 days'`, hit: true},
		"held":              {cap: 1, sql: `status = 'held', accepted_at = now()`, hit: true},
		"long ago":          {cap: 1, sql: `status = 'read', accepted_at = now() - interval '7 days 1 h'`},
		"one of two":        {cap: 2, sql: `status = 'delivered', accepted_at = now()`},
		"it failed":         {cap: 1, sql: `status = 'failed', accepted_at = now()`},
		"given up":          {cap: 1, sql: `status = 'dead'`},
		"nobody knows":      {cap: 1, sql: `status = 'unknown'`, hit: true},
		"under way":         {cap: 1, sql: `status = 'sending'`, wait: true},
		"still to come":     {cap: 1, sql: `due_at = now() + interval '1 h'`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			_, before := l.campaign(1)
			due := ", due_at = NULL"
			if strings.Contains(tc.sql, "due_at") {
				due = ""
			}
			l.exec(`UPDATE campaigns SET category = 'marketing'`)
			l.exec(`UPDATE recipients SET ` + tc.sql + due)
			c, id := l.capped([]int64{before}, tc.cap, 7)
			other, _ := l.same(before, "utility")
			if rows := l.claim(1, c); len(rows) != 0 {
				t.Fatalf("a claim that does not wait its turn took %+v", rows)
			}
			rows := l.claimed(l.askCapped(1, c))
			if len(rows) != 1 || rows[0].Suppressed != tc.hit || rows[0].Waiting != tc.wait {
				t.Fatalf("claim = %+v, want left out %v, waiting %v", rows, tc.hit, tc.wait)
			}
			if got := l.reason(id); (got == ReasonCap) != tc.hit {
				t.Errorf("reason %q", got)
			}
			if rows := l.claim(1, other); len(rows) != 1 || rows[0].Suppressed || rows[0].Waiting {
				t.Errorf("a campaign without a cap: %+v, want the row", rows)
			}
		})
	}
	t.Run("utility counts nothing", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		_, before := l.campaign(1)
		l.exec(`UPDATE recipients SET status = 'delivered', accepted_at = now(), due_at = NULL`)
		c, _ := l.capped([]int64{before}, 1, 7)
		if rows := l.claimed(l.askCapped(1, c)); len(rows) != 1 || rows[0].Suppressed {
			t.Errorf("claim = %+v, want the row", rows)
		}
	})
}

// Two campaigns of the same persons, claimed by many at once and in one batch
// too: nobody is ever in more hands than the cap allows.
func TestCapHoldsAgainstRacers(t *testing.T) {
	t.Parallel()
	const people = 120
	l := newLab(t)
	a, first := l.campaign(people)
	var all []int64
	for i := range int64(people) {
		all = append(all, first+i)
	}
	l.exec(`UPDATE campaigns SET category = 'marketing', cap_messages = 1, cap_days = 7`)
	b, _ := l.capped(all, 1, 7)
	var mu sync.Mutex
	race(8, func(i int) {
		for range 40 {
			mu.Lock()
			campaigns := [][]int64{{a}, {b}, {a, b}, {b, a}}[i%4]
			ask := l.askCapped(5+i, campaigns...)
			for s := range ask.Slices { // a share each, so that both are in the batch
				ask.Slices[s].Share = 4
			}
			mu.Unlock()
			rows, err := l.Claim(t.Context(), ask)
			if err != nil {
				t.Error(err)
				return
			}
			if len(rows) == 0 {
				return
			}
		}
	})
	if worst := scalar[int](l, `SELECT max(n) FROM (SELECT count(*) AS n FROM recipients r JOIN recipient_params p USING (id)
		WHERE r.status = 'sending' GROUP BY p.phone) x`); worst != 1 {
		t.Errorf("a person is in %d hands, the cap is 1", worst)
	}
	if n := scalar[int](l, `SELECT count(*) FROM recipients WHERE status = 'suppressed'`); n != 0 {
		t.Errorf("%d rows were left out for messages that may yet fail", n)
	}
	l.recounted()
	l.exec(`UPDATE recipients SET status = 'accepted', accepted_at = now(), message_id = id::text WHERE status = 'sending'`)
	l.exec(`UPDATE recipients SET due_at = now() WHERE due_at IS NOT NULL`)
	for len(l.claimed(l.askCapped(500, a, b))) > 0 { // whoever is left has had one
	}
	if n := scalar[int](l, `SELECT count(*) FROM recipients WHERE status = 'accepted'`); n > people {
		t.Errorf("%d messages to %d persons", n, people)
	}
}

// A cap costs one probe of the phone's index a row, and nothing where there is none.
func TestCapProbesOnce(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	c, first := l.campaign(5000)
	l.exec(`UPDATE campaigns SET category = 'marketing', cap_messages = 2, cap_days = 7`)
	l.exec(`ANALYZE`)
	for _, capped := range []bool{true, false} {
		ask := l.ask(500, c)
		ask.Capped = capped
		s := &spy{}
		_, _ = l.q.ClaimRecipients(t.Context(), s, claimParams(ask))
		plan := l.explain(s, "COSTS off")
		// The claim's own row, its person, and the person's other rows; the last are
		// asked for again only of those who were not on WhatsApp.
		probes := strings.Count(plan, "using recipient_params_phone")
		if want := map[bool]int{true: 2, false: 1}[capped]; probes != want || regexp.MustCompile(`Seq Scan on recipient`).MatchString(plan) {
			t.Errorf("capped %v: %d probes of the phone's index in the plan, want %d:\n%s", capped, probes, want, plan)
		}
	}
	if capped := l.claimed(l.askCapped(500, c)); len(capped) != 500 || !slices.Contains(ids(capped), first) {
		t.Errorf("claimed %d rows", len(capped))
	}
}

package store

import (
	"testing"
	"time"

	"github.com/weirhq/weir/engine"
)

// hears applies news as the events that bring it, each by itself.
func (l *lab) hears(all ...engine.News) {
	l.t.Helper()
	for _, n := range all {
		_, err := l.ApplyStatuses(l.t.Context(), nil, []engine.Event{{Kind: "news", Account: n.Account, Body: []byte(`{}`), News: []engine.News{n}}})
		l.must(err)
	}
}

// hearsTogether applies news as one delivery.
func (l *lab) hearsTogether(all ...engine.News) {
	l.t.Helper()
	_, err := l.ApplyStatuses(l.t.Context(), nil, []engine.Event{{Kind: "news", Account: labWABA, Body: []byte(`{}`), News: all}})
	l.must(err)
}

func aboutTemplate(bears engine.Bearing, word string, at time.Time) engine.News {
	return engine.News{
		About: engine.AboutTemplate, Bears: bears, At: at.Truncate(time.Second), Account: labWABA, Template: "hello", Language: "en_US",
		Word: word, Reason: "Meta says that the template is " + word, Advice: "look at it",
	}
}

func (l *lab) noticed(kind string) int {
	l.t.Helper()
	return scalar[int](l, `SELECT count(*) FROM notices WHERE kind = $1`, kind)
}

// resumeAt is what an operator does, at an instant.
func (l *lab) resumeAt(campaign int64, at time.Time) {
	l.t.Helper()
	l.exec(`UPDATE campaigns SET state = 'running', state_reason = NULL, control_at = $2 WHERE id = $1`, campaign, at)
}

// A template that may not be sent stops what sends it from its account, and
// nothing else; that it may be sent again is told, and starts nothing.
func TestNewsOfATemplate(t *testing.T) {
	t.Parallel()
	l := fleet(t).under(t)
	c, _ := l.campaign(1)
	spared := map[string]int64{}
	for _, why := range []string{"another template", "another language", "another account", "a draft"} {
		spared[why], _ = l.campaign(1)
	}
	l.exec(`UPDATE campaigns SET template = 'bye' WHERE id = $1`, spared["another template"])
	l.exec(`UPDATE campaigns SET language = 'en' WHERE id = $1`, spared["another language"])
	l.exec(`UPDATE campaigns SET state = 'draft' WHERE id = $1`, spared["a draft"])
	l.exec(`UPDATE campaign_numbers SET number_id = '2001' WHERE campaign_id = $1`, spared["another account"])
	now := time.Now()
	for _, id := range append([]int64{c}, spared["another account"]) {
		l.exec(`UPDATE campaigns SET control_at = $2 WHERE id = $1`, id, now.Add(-time.Hour))
	}
	flagged := aboutTemplate(engine.BearsWarning, "FLAGGED", now.Add(-50*time.Minute))
	paused := aboutTemplate(engine.BearsStop, "PAUSED", now.Add(-40*time.Minute))
	l.hears(flagged, flagged, aboutTemplate(engine.BearsNothing, "PENDING", now.Add(-45*time.Minute)))
	if got := l.stands(c); got != "running" || l.noticed("template.flagged") != 1 {
		t.Errorf("after a warning: %q, %d notices", got, l.noticed("template.flagged"))
	}
	l.hears(paused)
	if got := l.stands(c); got != "pausing: Meta says that the template is PAUSED; look at it" || l.noticed("campaign.stopped") != 1 {
		t.Fatalf("the campaign is %q, %d notices", got, l.noticed("campaign.stopped"))
	}
	for why, id := range spared {
		if got := l.stands(id); got != "running" && got != "draft" {
			t.Errorf("%s: %q", why, got)
		}
	}
	l.resumeAt(c, now.Add(-30*time.Minute))
	l.hears(paused, flagged)
	if got := l.stands(c); got != "running" {
		t.Errorf("what was said before the operator went on stopped it again: %q", got)
	}
	l.exec(`UPDATE campaigns SET control_at = $2 WHERE id = $1`, c, now.Add(-time.Hour))
	l.hears(paused) // whoever died between the word and the stop left it to the next delivery
	l.hears(aboutTemplate(engine.BearsGo, "APPROVED", now.Add(-20*time.Minute)))
	if got := l.stands(c); got[:7] != "pausing" || l.noticed("template.approved") != 1 {
		t.Errorf("after the approval: %q, %d notices", got, l.noticed("template.approved"))
	}
	found, err := l.FindCampaign(t.Context(), scalar[string](l, `SELECT name FROM campaigns WHERE id = $1`, c))
	if l.must(err); found.TemplateSaid.Word != "APPROVED" || !found.TemplateSaid.Go {
		t.Errorf("shown of the template: %+v", found.TemplateSaid)
	}
	if n := scalar[int](l, `SELECT count(*) FROM webhook_events WHERE kind = 'news'`); n != 8 {
		t.Errorf("%d events kept, want every one that came", n)
	}
}

// Who is told that a template may be sent again is whose campaign stopped for it,
// not one that stands still with everything else.
func TestATemplateMayBeSentAgainWhileEverythingIsStopped(t *testing.T) {
	t.Parallel()
	l := fleet(t).under(t)
	c, _ := l.campaign(1)
	l.exec(`UPDATE campaigns SET state = 'paused', stopped = true, state_reason = 'everything is stopped' WHERE id = $1`, c)
	for i, want := range []int{0, 1} {
		at := time.Now().Add(time.Duration(i-60) * time.Minute)
		l.hears(aboutTemplate(engine.BearsStop, "PAUSED", at), aboutTemplate(engine.BearsGo, "APPROVED", at.Add(time.Second)))
		if got := l.noticed("template.approved"); got != want {
			t.Errorf("%d notices, want %d", got, want)
		}
		l.exec(`UPDATE campaigns SET stopped = false WHERE id = $1`, c)
	}
}

// The last word stands in whatever order the words come; of one second, the
// one that forbids.
func TestNewsInAnyOrder(t *testing.T) {
	t.Parallel()
	l := newLab(t).under(t)
	base := time.Now().Add(-time.Hour).Truncate(time.Second)
	for name, tc := range map[string]struct {
		stopAt, goAt time.Duration
		stops        bool
	}{
		"stopped, then approved": {0, time.Second, false},
		"approved, then stopped": {time.Second, 0, true},
		"in one second":          {0, 0, true},
	} {
		for order := range 4 {
			backwards, together := order&1 != 0, order&2 != 0
			c, _ := l.campaign(1)
			l.exec(`UPDATE campaigns SET control_at = $2 WHERE id = $1`, c, base.Add(-time.Minute))
			l.exec(`DELETE FROM templates`)
			all := []engine.News{aboutTemplate(engine.BearsStop, "PAUSED", base.Add(tc.stopAt)), aboutTemplate(engine.BearsGo, "APPROVED", base.Add(tc.goAt))}
			if backwards {
				all[0], all[1] = all[1], all[0]
			}
			hear := map[bool]func(...engine.News){false: l.hears, true: l.hearsTogether}[together]
			hear(all...)
			word := scalar[string](l, `SELECT said FROM templates`)
			if want := map[bool]string{true: "PAUSED", false: "APPROVED"}[tc.stops]; word != want {
				t.Errorf("%s, backwards %v, together %v: %s stands, want %s", name, backwards, together, word, want)
			}
			// A stop that came first has stopped: an approval starts nothing. Of what
			// comes together, what was said first came first.
			if got := l.stands(c)[:7]; (got == "pausing") != (tc.stops || !backwards || together) {
				t.Errorf("%s, backwards %v, together %v: %s", name, backwards, together, got)
			}
			l.exec(`UPDATE campaigns SET state = 'finished' WHERE id = $1`, c)
		}
	}
}

// A ban stops the account's numbers, and its end starts none of them.
func TestNewsOfAnAccount(t *testing.T) {
	t.Parallel()
	l := fleet(t).under(t)
	now := time.Now()
	say := func(bears engine.Bearing, word string, ago time.Duration) engine.News {
		return engine.News{About: engine.AboutAccount, Bears: bears, At: now.Add(-ago).Truncate(time.Second), Account: labWABA, Word: word, Reason: "Meta says " + word, Advice: "appeal"}
	}
	stopped := func() string {
		return scalar[string](l, `SELECT coalesce(string_agg(id || ' ' || stop_reason, ', ' ORDER BY id), '') FROM numbers WHERE NOT enabled`)
	}
	l.hears(say(engine.BearsWarning, "ACCOUNT_VIOLATION", time.Hour), say(engine.BearsNothing, "VERIFIED_ACCOUNT", 50*time.Minute))
	if stopped() != "" || l.noticed("account.warned") != 1 {
		t.Errorf("after a warning %q is stopped; %d notices", stopped(), l.noticed("account.warned"))
	}
	ban := say(engine.BearsStop, "DISABLE", 40*time.Minute)
	l.hears(ban, ban)
	if got, want := stopped(), "1001 Meta says DISABLE; appeal, 1002 Meta says DISABLE; appeal"; got != want || l.noticed("number.stopped") != 1 {
		t.Fatalf("stopped %q, want %q, with one notice (%d)", got, want, l.noticed("number.stopped"))
	}
	l.hears(say(engine.BearsGo, "REINSTATE", 20*time.Minute))
	if got := stopped(); got == "" || l.noticed("account.reinstated") != 1 {
		t.Errorf("after the ban's end %q is stopped; %d notices", got, l.noticed("account.reinstated"))
	}
	l.must(l.EnableNumber(t.Context(), labNumber))
	l.hears(ban)
	if got := stopped(); got != "1002 Meta says DISABLE; appeal" {
		t.Errorf("a ban of before stopped again: %q", got)
	}
	n, err := l.FindNumber(t.Context(), labNumber)
	if l.must(err); n.AccountSaid != "REINSTATE" || !n.AccountSaidAt.Equal(now.Add(-20*time.Minute).Truncate(time.Second)) {
		t.Errorf("shown of the account: %q, %v", n.AccountSaid, n.AccountSaidAt)
	}
}

// What is said of a number finds it by how it shows; a limit is its account's.
func TestNewsOfANumberAndItsLimit(t *testing.T) {
	t.Parallel()
	l := fleet(t).under(t)
	l.exec(`UPDATE numbers SET display = '+1 (555) 000-1111' WHERE id IN ('1001', '2001')`)
	now := time.Now().Truncate(time.Second)
	quality := func(bears engine.Bearing, word string, ago time.Duration) engine.News {
		return engine.News{About: engine.AboutNumber, Bears: bears, At: now.Add(-ago), Account: labWABA, Phone: "15550001111", Word: word, Reason: word}
	}
	l.hears(quality(engine.BearsGo, "UPGRADE", time.Minute), quality(engine.BearsWarning, "FLAGGED", 2*time.Minute))
	if got := scalar[string](l, `SELECT string_agg(id || ' ' || said, ', ') FROM numbers WHERE said IS NOT NULL`); got != "1001 UPGRADE" || l.noticed("quality.worse") != 0 {
		t.Errorf("said: %q", got)
	}
	flagged := quality(engine.BearsWarning, "FLAGGED", 0)
	l.hears(flagged, flagged)
	if n, err := l.FindNumber(t.Context(), labNumber); err != nil || n.Said != "FLAGGED" || l.noticed("quality.worse") != 1 || !n.Enabled {
		t.Errorf("%+v, %v; %d notices", n, err, l.noticed("quality.worse"))
	}
	limit := func(n int64, ago time.Duration) engine.News {
		return engine.News{About: engine.AboutLimit, At: now.Add(-ago), Account: labWABA, Limit: n}
	}
	for _, step := range []struct {
		news   engine.News
		want   int64
		lower  int
		higher int
	}{
		{limit(2000, time.Hour), 2000, 0, 0},
		{limit(10_000, 2*time.Hour), 2000, 0, 0}, // late
		{limit(engine.NoLimit, 30*time.Minute), engine.NoLimit, 0, 1},
		{limit(250, 20*time.Minute), 250, 1, 1},
		{limit(2000, 20*time.Minute), 250, 1, 1}, // of one second, the one that forbids more
		{limit(250, 20*time.Minute), 250, 1, 1},
	} {
		l.hears(step.news)
		n, err := l.FindNumber(t.Context(), "1002")
		if l.must(err); n.DailyLimit != step.want || l.noticed("limit.lowered") != step.lower || l.noticed("limit.raised") != step.higher {
			t.Errorf("after %d: %d, %d lowered, %d raised", step.news.Limit, n.DailyLimit, l.noticed("limit.lowered"), l.noticed("limit.raised"))
		}
	}
	if n, err := l.FindNumber(t.Context(), "2001"); err != nil || n.DailyLimit != 0 {
		t.Errorf("another account's limit is %d, %v", n.DailyLimit, err)
	}
}

// Who stops marketing gets none of the account's, until they resume it; in
// whatever order the two are heard of, and of one second they have stopped.
func TestNewsOfAPerson(t *testing.T) {
	t.Parallel()
	l := newLab(t).under(t)
	base := time.Now().Add(-time.Hour).Truncate(time.Second)
	say := func(phone string, spare engine.Spare, at time.Duration) engine.News {
		return engine.News{About: engine.AboutPerson, At: base.Add(at), Account: labWABA, Phone: phone[1:], Spare: spare}
	}
	for name, tc := range map[string]struct {
		stopAt, resumeAt time.Duration
		suppressed       bool
	}{
		"stopped, then resumed": {0, time.Minute, false},
		"resumed, then stopped": {time.Minute, 0, true},
		"in one second":         {0, 0, true},
	} {
		for _, resumeFirst := range []bool{false, true} {
			c, first := l.campaign(2)
			l.exec(`UPDATE campaigns SET category = 'marketing' WHERE id = $1`, c)
			phone := scalar[string](l, `SELECT phone FROM recipient_params WHERE id = $1`, first)
			all := []engine.News{say(phone, engine.SpareForGood, tc.stopAt), say(phone, engine.SpareNoLonger, tc.resumeAt)}
			if resumeFirst {
				all[0], all[1] = all[1], all[0]
			}
			l.hears(all...)
			l.hears(all...) // and again
			rows := l.claim(2, c)
			if len(rows) != 2 || rows[0].Suppressed != tc.suppressed || rows[1].Suppressed {
				t.Errorf("%s, resume first %v: claimed %+v, want the first suppressed: %v", name, resumeFirst, rows, tc.suppressed)
			}
		}
	}
	l.recounted()
}

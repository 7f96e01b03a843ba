package store

import (
	"context"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/engine"
)

// same makes a campaign of one person who is in another campaign too.
func (l *lab) same(person int64, category string) (campaign, id int64) {
	l.t.Helper()
	campaign, id = l.campaign(1)
	l.exec(`UPDATE campaigns SET category = $1 WHERE id = $2`, category, campaign)
	l.exec(`UPDATE recipient_params SET phone = (SELECT phone FROM recipient_params WHERE id = $1) WHERE id = $2`, person, id)
	return campaign, id
}

// wait is how long a scope's wait still lasts, and its strikes; -1 is none.
func (l *lab) wait(scope string) (time.Duration, int) {
	l.t.Helper()
	var seconds float64
	var strikes int
	l.must(l.pool.QueryRow(l.t.Context(), `SELECT coalesce(max(extract(epoch FROM until - now())), -1)::float8, coalesce(max(strikes), -1)
		FROM suppressions WHERE kind = 'wait' AND scope = $1`, scope).Scan(&seconds, &strikes))
	return duration(seconds), strikes
}

// Whom a wait covers comes back as Waiting: due when it is over, nothing
// spent, nothing booked; everyone else is claimed.
func TestClaimPutsOffWhomToLeaveInPeace(t *testing.T) {
	t.Parallel()
	for scope, hit := range map[string]bool{
		"number:" + labNumber: true, "waba:" + labWABA + ":marketing": true, "waba:" + labWABA: true,
		"number:1": false, "waba:1:marketing": false, "waba:" + labWABA + ":utility": false,
	} {
		t.Run(scope, func(t *testing.T) {
			t.Parallel()
			l := newLab(t).under(t)
			c, first := l.campaign(2)
			l.exec(`UPDATE campaigns SET category = 'marketing'`)
			l.exec(`INSERT INTO suppressions (phone, scope, kind, until) SELECT phone, $1, 'wait', now() + interval '1 h' FROM recipient_params WHERE id = $2`, scope, first)
			l.exec(`INSERT INTO suppressions (phone, scope, kind, until) SELECT phone, $1, 'wait', now() FROM recipient_params WHERE id = $2`, scope, first+1)
			rows := l.claim(2, c)
			if len(rows) != 2 || rows[0].Waiting != hit || rows[1].Waiting || rows[0].Suppressed {
				t.Fatalf("claim = %+v, want the first row to wait: %v, the second (wait over): false", rows, hit)
			}
			if !hit {
				l.want(first, look{Status: "sending", Claim: 1, Attempt: 1})
				return
			}
			l.want(first, look{Status: "pending", Due: true})
			if !scalar[bool](l, `SELECT due_at = (SELECT max(until) FROM suppressions) AND number_id IS NULL FROM recipients WHERE id = $1`, first) {
				t.Error("the row is not due when its wait is over")
			}
			if scalar[bool](l, `SELECT $1 = ANY (ids) FROM claims`, first) {
				t.Error("the row is booked")
			}
			if again := l.claim(2, c); len(again) != 0 {
				t.Errorf("claimed again: %+v", again)
			}
			l.recounted()
		})
	}
	t.Run("opted out too", func(t *testing.T) {
		t.Parallel()
		l := newLab(t).under(t)
		c, first := l.campaign(1)
		l.exec(`INSERT INTO suppressions (phone, scope, kind, until) SELECT phone, 'all', k, now() + interval '1 h' FROM recipient_params, unnest(ARRAY['wait', 'suppress']) k`)
		if rows := l.claim(1, c); len(rows) != 1 || !rows[0].Suppressed {
			t.Errorf("claim = %+v, want it suppressed", rows)
		}
		l.want(first, look{Status: "suppressed", Claim: 1})
	})
}

// One index probe a row, however many kinds of suppression there are.
func TestClaimAsksOnceForAPerson(t *testing.T) {
	t.Parallel()
	l := newLab(t).under(t)
	c, first := l.campaign(5000)
	l.exec(`INSERT INTO suppressions (phone, scope) SELECT '+4915' || lpad(i::text, 9, '0'), 'all' FROM generate_series(1, 20000) i`)
	l.exec(`ANALYZE`)
	plan := l.explain(l.statements(c, first)["claim"], "COSTS off")
	if n := strings.Count(plan, "on suppressions"); n != 1 || !regexp.MustCompile(`Index (Only )?Scan using suppressions_pkey`).MatchString(plan) {
		t.Errorf("%d scans of suppressions in the claim's plan:\n%s", n, plan)
	}
}

// The pair limit is this number's and this person's, over all campaigns, and
// longer each time: 4^X s.
func TestSparePair(t *testing.T) {
	t.Parallel()
	l := newLab(t).under(t)
	r := l.one()
	limited := engine.Result{Status: engine.Pending, Refund: true, Code: 131056, Spare: engine.SparePair, Delay: time.Second}
	for x, want := range []time.Duration{1, 4, 16, 64, 256, 1024, 1024} {
		l.record(r, limited)
		got, strikes := l.wait("number:" + labNumber)
		if got > want*time.Second || got < want*time.Second-5*time.Second || strikes != min(x, 5) {
			t.Fatalf("limit %d in a row: wait %v (%d), want 4^%[1]d s", x, got, strikes)
		}
		l.exec(`UPDATE recipients SET status = 'sending', due_at = NULL, attempt = 1 WHERE id = $1`, r.ID)
	}
	other, id := l.same(r.ID, "utility")
	if rows := l.claim(1, other); len(rows) != 1 || !rows[0].Waiting {
		t.Errorf("another campaign's claim by this number: %+v, want it put off", rows)
	}
	l.number("1002")
	l.exec(`INSERT INTO campaign_numbers (number_id, campaign_id) VALUES ('1002', $1)`, other)
	l.exec(`UPDATE recipients SET due_at = now() WHERE id = $1`, id)
	second := l.ask(1, other)
	second.Lease = l.acquire("1002")
	if rows := l.claimed(second); len(rows) != 1 || rows[0].Waiting {
		t.Errorf("another number's claim: %+v, want the row", rows)
	}
	l.exec(`UPDATE suppressions SET until = now() - interval '11 min'`)
	l.record(r, limited)
	if got, strikes := l.wait("number:" + labNumber); got > time.Second || strikes != 0 {
		t.Errorf("after a quiet while the wait is %v (%d), want 1 s", got, strikes)
	}
	l.record(r, limited) // the row has settled: an answer that is recorded again counts once
	if _, strikes := l.wait("number:" + labNumber); strikes != 0 {
		t.Errorf("a result recorded twice counts %d strikes", strikes)
	}
}

// failed is a failed webhook about a recipient, as it asks.
func failed(id int64, claim int32, message string, asks engine.Answer, at time.Time) engine.StatusUpdate {
	return engine.StatusUpdate{
		Recipient: id, Claim: claim, Number: labNumber, MessageID: message, Status: engine.Failed, At: at, Code: asks.Code, Asks: asks,
	}
}

func (l *lab) apply(updates ...engine.StatusUpdate) engine.Applied {
	l.t.Helper()
	applied, err := l.ApplyStatuses(l.t.Context(), engine.Fold(updates), nil)
	l.must(err)
	return applied
}

var capped = engine.Answer{Action: engine.Reschedule, Code: 131049, After: 24 * time.Hour, Once: true, Spare: engine.SpareMarketing}

// A person who has had enough marketing is left in peace by all campaigns of
// the account that are marketing; the row has one more message after that, by
// its campaign's rule, and what is still said of the first one changes nothing.
func TestCappedPersonsAreTriedOnceMore(t *testing.T) {
	t.Parallel()
	l := newLab(t).under(t)
	r := l.one()
	l.record(r, accept("wamid.a"))
	at := time.Now().Add(-time.Hour)
	for range 2 { // webhooks come twice
		l.apply(failed(r.ID, r.Claim, "wamid.a", capped, at))
	}
	l.want(r.ID, look{Status: "pending", Claim: 2, Attempt: 1, Code: 131049, Due: true})
	if due := scalar[float64](l, `SELECT extract(epoch FROM due_at - now())::float8 FROM recipients WHERE id = $1`, r.ID); duration(due).Round(time.Minute) != 23*time.Hour {
		t.Errorf("due in %v, want 24 h after it failed an hour ago", duration(due))
	}
	if got, _ := l.wait("waba:" + labWABA + ":marketing"); got.Round(time.Minute) != 23*time.Hour {
		t.Errorf("the person waits %v, want 23 h", got)
	}
	for category, waits := range map[string]bool{"marketing": true, "utility": false} {
		c, _ := l.same(r.ID, category)
		if rows := l.claim(1, c); len(rows) != 1 || rows[0].Waiting != waits {
			t.Errorf("%s campaign: %+v, want it put off: %v", category, rows, waits)
		}
	}
	l.hear(r.ID, r.Claim, "wamid.a", engine.Sent) // late
	l.want(r.ID, look{Status: "pending", Claim: 2, Attempt: 1, Code: 131049, Due: true})

	l.exec(`UPDATE recipients SET due_at = now() WHERE id = $1`, r.ID)
	l.exec(`UPDATE suppressions SET until = now()`)
	again := l.claim(1, r.Campaign)[0]
	if again.Code != 131049 || again.Attempt != 2 {
		t.Errorf("claimed again: %+v", again)
	}
	l.record(again, accept("wamid.b"))
	l.apply(failed(r.ID, again.Claim, "wamid.b", capped, time.Now()))
	l.want(r.ID, look{Status: "failed", Claim: 3, Attempt: 2, Message: "wamid.b", Code: 131049})
	l.wantAttempts(r.ID, attempt{1, "wamid.a", 131049, true}, attempt{3, "wamid.b", 131049, true})
	l.hear(r.ID, r.Claim, "wamid.a", engine.Delivered) // the first one arrived after all
	l.want(r.ID, look{Status: "delivered", Claim: 3, Attempt: 2, Message: "wamid.a"})
	l.recounted()
}

// Where the campaign's rule allows no other message, failed stays.
func TestFailedMessagesAreRetriedByTheCampaignsRule(t *testing.T) {
	t.Parallel()
	l := newLab(t).under(t)
	retry := engine.Answer{Action: engine.Reschedule, Code: 131000, After: time.Minute}
	for name, tc := range map[string]struct {
		asks  engine.Answer
		sql   string // about campaign $1
		again bool
	}{
		"running":           {asks: retry, again: true},
		"paused":            {asks: retry, sql: `UPDATE campaigns SET state = 'paused' WHERE id = $1`, again: true},
		"ended":             {asks: retry, sql: `UPDATE campaigns SET state = 'finished' WHERE id = $1`},
		"canceled":          {asks: retry, sql: `UPDATE campaigns SET state = 'canceled' WHERE id = $1`},
		"too late by then":  {asks: retry, sql: `UPDATE campaigns SET expire_at = now() + interval '50 s' WHERE id = $1`},
		"attempts used up":  {asks: retry, sql: `UPDATE campaigns SET max_attempts = 1 WHERE id = $1`},
		"worth no retry":    {asks: engine.Answer{Action: engine.Fail, Code: 131026}},
		"nothing is asked":  {asks: engine.Answer{}},
		"suspect, no retry": {asks: engine.Answer{Action: engine.Fail, Suspect: true, Code: 132000}},
	} {
		r := l.one()
		l.record(r, accept("wamid.a"))
		if tc.sql != "" {
			l.exec(tc.sql, r.Campaign)
		}
		l.apply(failed(r.ID, r.Claim, "wamid.a", tc.asks, time.Now()))
		want := look{Status: "failed", Claim: 1, Attempt: 1, Message: "wamid.a", Code: tc.asks.Code}
		if tc.again {
			want = look{Status: "pending", Claim: 2, Attempt: 1, Code: tc.asks.Code, Due: true}
		}
		if got := l.look(r.ID); got != want {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
	l.recounted()
}

// A campaign that finishes while a failed message is put back has ended first
// or waits: no row is left pending in a finished campaign.
func TestARetryOfAFailedMessageWaitsForAFinish(t *testing.T) {
	t.Parallel()
	l := newLab(t).under(t)
	r := l.one()
	l.record(r, accept("wamid.a"))
	finish := begin(t, l.Store)
	defer func() { _ = finish.Rollback(context.Background()) }() // after a commit it changes nothing
	_, err := finish.Exec(t.Context(), `UPDATE campaigns SET state = 'finished'`)
	l.must(err)
	u := failed(r.ID, r.Claim, "wamid.a", engine.Answer{Action: engine.Reschedule, Code: 131000}, time.Now())
	done := make(chan error, 1)
	go func() {
		_, err := l.ApplyStatuses(t.Context(), engine.Fold([]engine.StatusUpdate{u}), nil)
		done <- err
	}()
	for scalar[int](l, `SELECT count(*) FROM pg_locks WHERE NOT granted`) == 0 {
		select {
		case err := <-done:
			t.Fatalf("applied before the finish was committed: %v, %+v", err, l.look(r.ID))
		case <-time.After(10 * time.Millisecond):
		}
	}
	l.must(finish.Commit(t.Context()))
	l.must(<-done)
	l.want(r.ID, look{Status: "failed", Claim: 1, Attempt: 1, Message: "wamid.a", Code: 131000})
}

// 131050, in an answer or in a webhook, known row or not: no marketing of the
// account from then on.
func TestWhoStoppedMarketingIsSuppressed(t *testing.T) {
	t.Parallel()
	stopped := engine.Answer{Action: engine.Fail, Code: 131050, Spare: engine.SpareForGood}
	for name, say := range map[string]func(l *lab, r engine.Recipient){
		"answer": func(l *lab, r engine.Recipient) {
			l.record(r, engine.Result{Status: engine.Failed, Code: 131050, Spare: engine.SpareForGood})
		},
		"webhook": func(l *lab, r engine.Recipient) {
			l.record(r, accept("wamid.a"))
			l.apply(failed(r.ID, r.Claim, "wamid.a", stopped, time.Now()))
		},
		"webhook of a message that is not ours": func(l *lab, r engine.Recipient) {
			l.record(r, accept("wamid.a"))
			u := failed(0, 0, "wamid.x", stopped, time.Now())
			u.Phone = strings.TrimPrefix(r.Phone, "+")
			if applied := l.apply(u); applied.Unmatched != 1 {
				l.t.Fatalf("%+v", applied)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t).under(t)
			r := l.one()
			say(l, r)
			for category, hit := range map[string]bool{"marketing": true, "utility": false} {
				c, _ := l.same(r.ID, category)
				if rows := l.claim(1, c); len(rows) != 1 || rows[0].Suppressed != hit {
					t.Errorf("%s campaign: %+v, want it suppressed: %v", category, rows, hit)
				}
			}
		})
	}
}

func TestDropWaits(t *testing.T) {
	t.Parallel()
	l := newLab(t).under(t)
	l.exec(`INSERT INTO suppressions (phone, scope, kind, until) VALUES ('+1', 'number:1', 'wait', now() - interval '25 h'),
		('+2', 'number:1', 'wait', now() - interval '23 h'), ('+3', 'number:1', 'suppress', now() - interval '25 h')`)
	l.must(l.DropWaits(t.Context()))
	if got := scalar[string](l, `SELECT string_agg(phone, ' ' ORDER BY phone) FROM suppressions`); got != "+2 +3" {
		t.Errorf("left %q, want the young wait and the opt-out", got)
	}
}

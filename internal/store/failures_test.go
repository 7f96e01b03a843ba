package store

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weirhq/weir/engine"
)

var (
	unpaid   = engine.Answer{Action: engine.StopNumber, Scope: engine.ScopeWABA, Code: 131042, Title: "payment method missing"}
	noSuch   = engine.Answer{Action: engine.StopCampaign, Scope: engine.ScopeCampaign, Code: 132001, Title: "template missing"}
	mismatch = engine.Answer{Action: engine.Fail, Suspect: true, Code: 132000, Title: "parameters do not match"}
	nobody   = engine.Answer{Action: engine.Fail, Code: 131026, Title: "not on WhatsApp"}
)

// accepted makes a campaign's recipients accepted ones, the k-th of them k
// steps after the first, the last one now.
func (l *lab) accepted(n int, step time.Duration) (campaign, first int64) {
	l.t.Helper()
	campaign, first = l.campaign(n)
	l.exec(`UPDATE campaigns SET control_at = now() - interval '1 h' WHERE id = $1`, campaign)
	l.exec(`UPDATE recipients SET status = 'accepted', due_at = NULL, claim = 1, attempt = 1, number_id = $2, message_id = 'wamid.' || id || '.1',
		accepted_at = now() - ($3::bigint + $4::bigint - 1 - id) * make_interval(secs => $5) WHERE campaign_id = $1`, campaign, labNumber, first, n, step.Seconds())
	l.exec(`UPDATE campaign_counts SET status = 'accepted' WHERE campaign_id = $1`, campaign)
	return campaign, first
}

// fail is a failed webhook about a message that accepted made.
func fail(id int64, asks engine.Answer) engine.StatusUpdate {
	u := failed(id, 1, message(id, 1), asks, time.Now())
	u.Title = asks.Title
	return u
}

// says is any other.
func says(id int64, status engine.Status) engine.StatusUpdate {
	return engine.StatusUpdate{Recipient: id, Claim: 1, Number: labNumber, MessageID: message(id, 1), Status: status, At: time.Now()}
}

// stands is how a campaign does, with its reason.
func (l *lab) stands(campaign int64) string {
	l.t.Helper()
	return scalar[string](l, `SELECT concat_ws(': ', state, state_reason) FROM campaigns WHERE id = $1`, campaign)
}

// A code that says that nothing will go through stops its scope by the first
// webhook that brings it. What failed before the operator let go on again is
// known to them, however late it is heard of and however often.
func TestFailedMessagesStopTheirScopeAtOnce(t *testing.T) {
	t.Parallel()
	l := fleet(t).under(t)
	c, first := l.accepted(3, time.Minute)
	stopped := func() string {
		return scalar[string](l, `SELECT coalesce(string_agg(id || ' ' || stop_reason, ', ' ORDER BY id), '') FROM numbers WHERE NOT enabled`)
	}
	l.apply(fail(first, unpaid))
	if got, want := stopped(), "1001 131042: payment method missing, 1002 131042: payment method missing"; got != want {
		t.Fatalf("stopped: %q, want the account's numbers: %q", got, want)
	}
	l.must(l.EnableNumber(t.Context(), labNumber))
	l.apply(fail(first, unpaid), fail(first+1, unpaid))
	if got := stopped(); got != "1002 131042: payment method missing" {
		t.Errorf("stopped again by what failed before the operator's word: %q", got)
	}
	l.exec(`UPDATE recipients SET accepted_at = now() WHERE id = $1`, first+2)
	l.apply(fail(first+2, unpaid))
	if got := stopped(); got[:6] != "1001 1" {
		t.Errorf("not stopped by what failed after it: %q", got)
	}
	if n := scalar[int](l, `SELECT count(*) FROM recipients WHERE campaign_id = $1 AND status = 'failed'`, c); n != 3 {
		t.Errorf("%d rows failed, want the 3 that webhooks failed", n)
	}
	if n := scalar[int](l, `SELECT count(*) FROM notices WHERE kind = 'number.stopped'`); n != 2 {
		t.Errorf("%d notices, want one a stop", n)
	}
	l.recounted()
}

func TestFailedMessagesStopTheirCampaign(t *testing.T) {
	t.Parallel()
	l := newLab(t).under(t)
	c, first := l.accepted(3, time.Minute)
	other, _ := l.accepted(1, 0)
	l.apply(fail(first, noSuch))
	if got := l.stands(c); got != "pausing: 132001: template missing" || l.stands(other) != "running" {
		t.Fatalf("campaigns are %q and %q", got, l.stands(other))
	}
	l.exec(`INSERT INTO campaign_imports (campaign_id, file, head_sha256, size, accepted, rows_read) VALUES ($1, 'f', '', 0, 3, 3)`, c)
	_, err := l.ResumeCampaign(t.Context(), c)
	l.must(err)
	l.apply(fail(first, noSuch), fail(first+1, noSuch))
	if got := l.stands(c); got != "running" {
		t.Errorf("after the resume it is %q by what failed before", got)
	}
	l.exec(`UPDATE recipients SET accepted_at = now() WHERE id = $1`, first+2)
	l.apply(fail(first+2, noSuch))
	if got := l.stands(c); got != "pausing: 132001: template missing" {
		t.Errorf("after another failure it is %q", got)
	}
}

// outcome is what comes of the k-th message.
type outcome struct {
	k      int64
	status engine.Status
	asks   engine.Answer
	sent   bool // and was sent on first
}

func series(n int64, asks engine.Answer, more ...outcome) (all []outcome) {
	for k := range n {
		all = append(all, outcome{k: k, status: engine.Failed, asks: asks})
	}
	return append(all, more...)
}

// A campaign whose messages are accepted and then fail stops by itself; one of
// which something goes through meanwhile goes on. In whatever order webhooks
// come, and how often.
func TestAHopelessCampaignStops(t *testing.T) {
	t.Parallel()
	l := newLab(t).under(t)
	sent := func(n int64, asks engine.Answer) (all []outcome) {
		for _, o := range series(n, asks) {
			o.sent = true
			all = append(all, o)
		}
		return all
	}
	for name, tc := range map[string]struct {
		all   []outcome
		step  time.Duration
		stops bool
	}{
		"five suspects":                            {series(5, mismatch), time.Second, true},
		"four":                                     {series(4, mismatch), time.Second, false},
		"five at once":                             {series(5, mismatch), 200 * time.Millisecond, false},
		"five, but a later one was sent on":        {series(5, mismatch, outcome{k: 5, status: engine.Sent}), time.Second, false},
		"five, and an earlier one was read":        {append([]outcome{{k: 0, status: engine.Read}}, series(6, mismatch)[1:]...), time.Second, true},
		"five, one of which was delivered at last": {append(series(5, mismatch), outcome{k: 4, status: engine.Delivered}), time.Second, false},
		"fifty":      {series(50, nobody), time.Second, true},
		"forty-nine": {series(49, nobody), time.Second, false},
		"sixty, but one in the middle was sent on": {append(series(30, nobody), append(series(60, nobody)[31:], outcome{k: 30, status: engine.Sent})...), time.Second, false},
		"fifty that had been sent on":              {sent(50, nobody), time.Second, true},
		"fifty of them, but the last was read":     {append(sent(50, nobody), outcome{k: 50, status: engine.Read}), time.Second, false},
	} {
		c, first := l.accepted(60, tc.step)
		rand.Shuffle(len(tc.all), func(i, j int) { tc.all[i], tc.all[j] = tc.all[j], tc.all[i] })
		var lives []engine.StatusUpdate
		var rest []engine.StatusUpdate
		for _, o := range tc.all {
			if o.sent {
				l.apply(says(first+o.k, engine.Sent))
			}
			if u := says(first+o.k, o.status); o.status != engine.Failed {
				lives = append(lives, u)
			} else {
				rest = append(rest, fail(first+o.k, o.asks))
			}
		}
		for _, u := range lives { // heard of after the failures it would be too late: they stop it first
			l.apply(u)
		}
		for _, u := range rest {
			l.apply(u)
			l.apply(u)
		}
		if got := l.stands(c); (got != "running") != tc.stops {
			t.Errorf("%s: %q", name, got)
		}
	}
	l.recounted()
}

// What failed before the operator went on counts no more, and the log is swept.
func TestAResumedCampaignIsJudgedAnew(t *testing.T) {
	t.Parallel()
	l := newLab(t).under(t)
	c, first := l.accepted(10, time.Second)
	for k := range int64(5) {
		l.apply(fail(first+k, mismatch))
	}
	if got, want := l.stands(c), "pausing: 132000: parameters do not match; the last 5 messages were accepted and then failed, and no other went through"; got != want {
		t.Fatalf("the campaign is %q, want %q", got, want)
	}
	l.exec(`UPDATE campaigns SET state = 'running', state_reason = NULL, control_at = now() WHERE id = $1`, c)
	for k := range int64(8) {
		l.apply(fail(first+k, mismatch))
	}
	if got := l.stands(c); got != "running" {
		t.Errorf("after the resume it is %q by what was accepted before", got)
	}
	l.exec(`UPDATE recipients SET accepted_at = now() WHERE id = $1`, first+8)
	l.apply(fail(first+8, mismatch))
	if got := l.stands(c); got != "running" {
		t.Errorf("after the resume it is %q by one failure", got)
	}
	l.exec(`DELETE FROM campaign_failures WHERE accepted_at >= (SELECT control_at FROM campaigns WHERE id = $1)`, c)
	if n := scalar[int](l, `SELECT count(*) FROM campaign_failures`); n != 8 {
		t.Errorf("%d failures on the log, want one a message", n)
	}
	l.must(l.ForgetFailures(t.Context()))
	if n := scalar[int](l, `SELECT count(*) FROM campaign_failures`); n != 0 {
		t.Errorf("%d failures left that say nothing", n)
	}
}

// A failure that finds its recipient late asks for the same.
func TestALateFailureStopsToo(t *testing.T) {
	t.Parallel()
	l := newLab(t).under(t)
	c, first := l.accepted(1, 0)
	l.exec(`UPDATE recipients SET message_id = NULL, status = 'sending' WHERE id = $1`, first)
	phone := scalar[string](l, `SELECT phone FROM recipient_params WHERE id = $1`, first)
	u := fail(first, noSuch)
	u.Recipient, u.Claim, u.Phone = 0, 0, phone[1:]
	if got := l.apply(u); got != unmatched {
		t.Fatalf("%+v", got)
	}
	l.exec(`UPDATE recipients SET message_id = $2, status = 'accepted' WHERE id = $1`, first, u.MessageID)
	placed, err := l.RetryUnmatched(t.Context(), 0)
	if err != nil || placed != 1 || l.stands(c) != fmt.Sprintf("pausing: %d: %s", noSuch.Code, noSuch.Title) {
		t.Errorf("placed %d, %v; the campaign is %q", placed, err, l.stands(c))
	}
}

// A held message is out of our hands: it is not sent anew, whatever it waits
// for, and dropping it fails its row and no other.
func TestHeldIsNotSent(t *testing.T) {
	t.Parallel()
	l := newLab(t).under(t)
	dropped := engine.Answer{Action: engine.StopCampaign, Scope: engine.ScopeTemplate, Code: 132015, Title: "template paused, or held message dropped"}
	c, first := l.accepted(4, time.Minute)
	l.exec(`UPDATE recipients SET status = 'held' WHERE id < $1`, first+2)
	l.exec(`INSERT INTO campaign_counts VALUES ($1, 'accepted', -2), ($1, 'held', 2)`, c)
	if rows := l.claim(4, c); len(rows) != 0 {
		t.Fatalf("claimed %+v", rows)
	}
	if got, err := l.ResolveUnknowns(t.Context(), time.Second); err != nil || got != (Resolved{}) {
		t.Errorf("resolved %+v, %v", got, err)
	}
	l.apply(fail(first, dropped))
	l.want(first, look{Status: "failed", Claim: 1, Attempt: 1, Message: message(first, 1), Code: 132015})
	l.want(first+1, look{Status: "held", Claim: 1, Attempt: 1, Message: message(first+1, 1)})
	for k := range int64(2) {
		l.want(first+2+k, look{Status: "accepted", Claim: 1, Attempt: 1, Message: message(first+2+k, 1)})
	}
	if got := l.stands(c); got != "pausing: 132015: template paused, or held message dropped" {
		t.Errorf("the campaign is %q", got)
	}
	l.apply(says(first+1, engine.Sent)) // released
	l.want(first+1, look{Status: "sent", Claim: 1, Attempt: 1, Message: message(first+1, 1)})
	l.recounted()
}

package store

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/weirhq/weir/engine"
)

// dead is a campaign of n recipients that have all failed with a code, and of
// which no lane holds anything.
func (l *lab) dead(n int) (campaign int64, rows []engine.Recipient) {
	l.t.Helper()
	campaign, _ = l.campaign(n)
	rows = l.claim(n, campaign)
	var results []engine.Result
	for _, r := range rows {
		results = append(results, engine.Result{Recipient: r.ID, Claim: r.Claim, Status: engine.Failed, Code: 131026, Title: "undeliverable"})
	}
	l.must(l.Record(l.t.Context(), l.lease, results, []int64{l.seq}))
	return campaign, rows
}

// replayed runs an order and wants so many moved.
func (l *lab) replayed(o ReplayOrder, want int64) (ReplayOrder, Replayed) {
	l.t.Helper()
	o.Countries, o.Who = nowhere, "ana"
	o, _, err := l.OpenReplay(l.t.Context(), o)
	l.must(err)
	done, err := l.RunReplay(l.t.Context(), o)
	l.must(err)
	if done.Moved != want {
		l.t.Fatalf("moved %d recipients (skipped %v), want %d", done.Moved, done.Skipped, want)
	}
	return o, done
}

func TestReplay(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	c, rows := l.dead(3)
	l.hear(rows[2].ID, 1, "late", engine.Failed) // a note: the answer said so before
	first, _ := l.replayed(ReplayOrder{Campaign: c}, 3)
	l.want(rows[0].ID, look{Status: "pending", Claim: 2, Due: true})
	if _, done := l.replayed(first, 0); len(done.Skipped) != 0 {
		t.Errorf("twice: %v", done.Skipped)
	}
	again := l.claim(3, c)
	if len(again) != 3 || again[0].Attempt != 1 {
		t.Fatalf("claimed %v", again)
	}
	for _, r := range again {
		l.record(r, engine.Result{Status: engine.Dead, Code: 503, Title: engine.ReasonAttempts})
	}
	if _, done := l.replayed(first, 0); done.Skipped[SkipReplayed] != 3 {
		t.Errorf("the same id after it failed again: %v", done.Skipped)
	}
	if _, done := l.replayed(ReplayOrder{Campaign: c}, 0); done.Skipped[SkipInHand] != 3 {
		t.Errorf("its claim batch is not over: %v", done.Skipped)
	}
	l.replayed(ReplayOrder{Campaign: c, Filter: DeadFilter{Code: new(int)}}, 0)
	l.replayed(ReplayOrder{Campaign: c, Force: true, Filter: DeadFilter{Status: "dead"}}, 3)
	l.exec(`UPDATE recipients SET status = 'failed', due_at = NULL`)
	if _, done := l.replayed(ReplayOrder{Campaign: c, MaxReplays: 2}, 0); done.Skipped[SkipCapped] != 3 {
		t.Errorf("the third replay of at most two: %v", done.Skipped)
	}
	if n := scalar[int](l, `SELECT count(*) FROM audit WHERE what = 'replay_forced' AND who = 'ana' AND subject = 'campaign:' || $1::bigint`, c); n != 1 {
		t.Errorf("%d forced replays on record, want 1", n)
	}
	all, err := l.Replays(t.Context(), c)
	if err != nil || len(all) != 5 {
		t.Errorf("%d replays, %v", len(all), err)
	}
}

// A finished campaign runs again, and its finish waits for the replay; what is
// over for good stays so, whoever asks.
func TestReplayAndTheCampaignsLife(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	for _, tc := range []struct{ name, before, after, refused string }{
		{name: "running", before: `state = 'running'`, after: "running"},
		{name: "paused", before: `state = 'paused', state_reason = 'x'`, after: "paused"},
		{name: "pausing", before: `state = 'pausing'`, after: "pausing"},
		{name: "finished", before: `state = 'finished', finished_at = now()`, after: "running"},
		{name: "draft", before: `state = 'draft'`, after: "draft", refused: "has not been started"},
		{name: "canceled", before: `state = 'canceled'`, after: "canceled", refused: "was canceled"},
		{name: "canceling", before: `state = 'canceling'`, after: "canceling", refused: "was canceled"},
		{name: "expired", before: `state = 'finished', expire_at = now() - interval '1 min'`, after: "finished", refused: "expired at"},
	} {
		c, rows := l.dead(1)
		l.exec(`UPDATE campaigns SET `+tc.before+` WHERE id = $1`, c)
		order := ReplayOrder{ID: probeToken, Campaign: c, Countries: nowhere}
		if tc.refused != "" {
			l.refusedEverywhere(tc.name, order, rows[0].ID, tc.refused)
		} else {
			l.replayed(order, 1)
			l.want(rows[0].ID, look{Status: "pending", Claim: 2, Due: true})
		}
		if state := scalar[string](l, `SELECT state FROM campaigns WHERE id = $1`, c); state != tc.after {
			t.Errorf("%s: afterwards it is %s, want %s", tc.name, state, tc.after)
		}
		if tc.after == "running" {
			l.finish(tc.name, c, false) // it waits for the replay
		}
		l.exec(`DELETE FROM replays`)
	}
	l.recounted()
}

// refusedEverywhere wants an order refused when it is opened, when one opened
// before runs, and by the statement itself.
func (l *lab) refusedEverywhere(name string, order ReplayOrder, dead int64, why string) {
	l.t.Helper()
	if _, _, err := l.OpenReplay(l.t.Context(), order); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), why) {
		l.t.Errorf("%s: %v, want a refusal", name, err)
	}
	l.exec(`INSERT INTO replays (id, campaign_id, filter, forced, who) VALUES ($1, $2, '{}', false, 'ana')`, order.ID, order.Campaign)
	if _, err := l.RunReplay(l.t.Context(), order); !errors.Is(err, ErrRefused) {
		l.t.Errorf("%s: run: %v, want a refusal", name, err)
	}
	p := order.choose([]DeadLetter{{Recipient: dead, Claim: 1, Status: engine.Failed}}, nil)
	if n, err := l.q.ReplayRecipients(l.t.Context(), l.pool, p); n != 0 || err != nil {
		l.t.Errorf("%s: the statement moved %d, %v", name, n, err)
	}
	l.want(dead, look{Status: "failed", Claim: 1, Attempt: 1, Code: 131026})
}

// At a rate, recipients become due one after another, and a replay that is cut
// short goes on where it stopped: nobody twice, and not faster.
func TestReplayAtARateGoesOnWhereItWasCut(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	c, rows := l.dead(6)
	l.exec(`UPDATE campaign_ranges SET hi = lo + 2 WHERE campaign_id = $1`, c) // two ranges, two pages
	l.exec(`INSERT INTO campaign_ranges SELECT campaign_id, hi + 1, hi + 3 FROM campaign_ranges WHERE campaign_id = $1`, c)
	order, _, err := l.OpenReplay(t.Context(), ReplayOrder{Campaign: c, Rate: 0.5, Countries: nowhere})
	l.must(err)
	ctx, cut := context.WithCancel(t.Context())
	defer cut()
	pages := 0
	short := order
	short.Countries = func(string) string {
		if pages++; pages > 3 {
			cut()
		}
		return ""
	}
	if done, err := l.RunReplay(ctx, short); err == nil || done.Moved != 3 {
		t.Fatalf("moved %d, %v; want it cut short after 3", done.Moved, err)
	}
	_, before, err := l.OpenReplay(t.Context(), order)
	if err != nil || before != 3 {
		t.Errorf("%d moved before, %v", before, err)
	}
	order.Countries = nowhere
	if done, err := l.RunReplay(t.Context(), order); err != nil || done.Moved != 3 {
		t.Fatalf("the rest: moved %d, %v", done.Moved, err)
	}
	gaps := scalar[string](l, `SELECT string_agg(to_char(extract(epoch FROM gap), 'FM0.0'), ' ' ORDER BY id) FROM
		(SELECT id, due_at - lag(due_at) OVER (ORDER BY id) AS gap FROM recipients) x`)
	if gaps != "2.0 2.0 2.0 2.0 2.0" {
		t.Errorf("between two due times: %s s", gaps)
	}
	if early := scalar[float64](l, `SELECT extract(epoch FROM now() - due_at)::float8 FROM recipients WHERE id = $1`, rows[0].ID); early < 0 || early > 3600 {
		t.Errorf("the first is due since %v s", early)
	}
	l.recounted()
}

// The message that a row shows is kept, whatever became of the note about it.
func TestReplayKeepsTheMessage(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	r := l.one()
	l.record(r, accept("m1"))
	l.hear(r.ID, 1, "m1", engine.Failed)
	l.exec(`DELETE FROM claims`)
	l.exec(`UPDATE attempts SET message_id = NULL`)
	l.replayed(ReplayOrder{Campaign: r.Campaign}, 1)
	l.want(r.ID, look{Status: "pending", Claim: 2, Due: true})
	l.wantAttempts(r.ID, attempt{Claim: 1, Message: "m1", Failed: true})
	// late words about it, without our id, still find their row
	l.apply1(strange("+"+strings.TrimPrefix(scalar[string](l, `SELECT phone FROM recipient_params WHERE id = $1`, r.ID), "+"), "m1", engine.Delivered))
	l.want(r.ID, look{Status: "delivered", Claim: 2, Message: "m1"})
}

func TestReplayIDStandsForOneOrder(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	c, _ := l.dead(1)
	other, _ := l.dead(1)
	open := func(o ReplayOrder) error {
		_, _, err := l.OpenReplay(t.Context(), o)
		return err
	}
	code := 131026
	order := ReplayOrder{ID: probeToken, Campaign: c, Filter: DeadFilter{Code: &code}}
	l.must(open(order))
	same := order
	same.Force = true
	l.must(open(same))
	for name, change := range map[string]func(*ReplayOrder){
		"campaign": func(o *ReplayOrder) { o.Campaign = other },
		"filter":   func(o *ReplayOrder) { o.Filter = DeadFilter{} },
		"no uuid":  func(o *ReplayOrder) { o.ID = "yesterday's" },
	} {
		wrong := order
		change(&wrong)
		if err := open(wrong); !errors.Is(err, ErrRefused) {
			t.Errorf("another %s: %v, want a refusal", name, err)
		}
	}
}

func TestDeadLettersInGroups(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	c, rows := l.dead(3)
	l.exec(`UPDATE campaigns SET on_unknown = 'hold' WHERE id = $1`, c)
	more, first := l.campaign(6)
	l.exec(`UPDATE recipients SET campaign_id = $1 WHERE campaign_id = $2`, c, more)
	l.exec(`UPDATE recipient_params SET campaign_id = $1, phone = replace(phone, '+5511', '+4915') WHERE campaign_id = $2`, c, more)
	l.exec(`UPDATE campaign_ranges SET campaign_id = $1 WHERE campaign_id = $2`, c, more)
	taken := l.claim(5, c)
	l.record(taken[0], engine.Result{Status: engine.Dead, Code: 503, Title: engine.ReasonAttempts})
	l.record(taken[1], engine.Result{Status: engine.Pending, Code: 503, Delay: time.Hour}) // waits: no letter
	l.record(taken[2], engine.Result{Status: engine.Unknown, Title: "timed out"})
	l.record(taken[3], accept("m"))
	l.record(taken[4], engine.Result{Status: engine.Pending, Code: 503}) // a retry, then nobody knows
	l.exec(`UPDATE recipients SET status = 'dead', due_at = NULL, claim = 2 WHERE id = $1`, taken[4].ID)
	l.exec(`INSERT INTO attempts (recipient_id, claim, title, at) VALUES ($1, 2, 'unknown_outcome', now() + interval '1 h')`, taken[4].ID)
	country := func(phone string) string {
		return map[bool]string{true: "BR", false: "DE"}[strings.HasPrefix(phone, "+55")]
	}
	groups, err := GroupDead(l.DeadLetters(t.Context(), c, country), func(DeadLetter) bool { return true })
	l.must(err)
	want := []DeadGroup{
		{DeadKey: DeadKey{Status: engine.Failed, Code: 131026, Country: "BR", Number: labNumber}, Rows: 3, Line: rows[0].ID},
		{DeadKey: DeadKey{Status: engine.Dead, Code: 503, Reason: engine.ReasonAttempts, Country: "DE", Number: labNumber}, Rows: 1, Line: taken[0].ID},
		{DeadKey: DeadKey{Status: engine.Unknown, Reason: "timed out", Country: "DE", Number: labNumber}, Rows: 1, Line: taken[2].ID},
		{DeadKey: DeadKey{Status: engine.Dead, Reason: ReasonUnknown, Country: "DE", Number: labNumber}, Rows: 1, Line: taken[4].ID},
	}
	if diff := cmp.Diff(want, groups, cmpopts.IgnoreFields(DeadGroup{}, "First", "Last")); diff != "" {
		t.Errorf("(-want +got):\n%s\nfirst id %d", diff, first)
	}
	code := 0
	for _, tc := range []struct {
		filter DeadFilter
		rows   int64
	}{
		{DeadFilter{Country: "DE"}, 3},
		{DeadFilter{Status: "dead"}, 2},
		{DeadFilter{Code: &code}, 2},
		{DeadFilter{Code: &code, Status: "dead"}, 1},
		{DeadFilter{Number: "another"}, 0},
	} {
		groups, err := GroupDead(l.DeadLetters(t.Context(), c, country), tc.filter.Takes)
		l.must(err)
		var n int64
		for _, g := range groups {
			n += g.Rows
		}
		if n != tc.rows {
			t.Errorf("%+v takes %d, want %d", tc.filter, n, tc.rows)
		}
	}
}

func TestCloseUnknowns(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	r := l.doubted(engine.UnknownHolds, time.Hour)
	phone := scalar[string](l, `SELECT phone FROM recipient_params WHERE id = $1`, r.ID)
	for _, tc := range []struct {
		name   string
		order  CloseOrder
		closed int
	}{
		{"too young", CloseOrder{Older: 2 * time.Hour}, 0},
		{"another number", CloseOrder{Number: "another"}, 0},
		{"another person", CloseOrder{Phone: phone + "0"}, 0},
		{"all of them", CloseOrder{Older: time.Minute, Number: labNumber, Phone: phone}, 1},
		{"twice", CloseOrder{}, 0},
	} {
		tc.order.Campaign, tc.order.Who = r.Campaign, "ana"
		if n, err := l.CloseUnknowns(t.Context(), tc.order); n != tc.closed || err != nil {
			t.Errorf("%s: closed %d, %v; want %d", tc.name, n, err, tc.closed)
		}
	}
	l.want(r.ID, look{Status: "dead", Claim: 1, Attempt: 1})
	if _, done := l.replayed(ReplayOrder{Campaign: r.Campaign}, 0); done.Skipped[SkipUnknown] != 1 {
		t.Errorf("without force: %v", done.Skipped)
	}
	l.exec(`DELETE FROM claims`)
	l.replayed(ReplayOrder{Campaign: r.Campaign, Force: true}, 1)
	if n := scalar[int](l, `SELECT count(*) FROM audit WHERE what = 'unknowns_closed' AND who = 'ana'`); n != 1 {
		t.Errorf("%d closings on record, want 1", n)
	}
	l.recounted()
	again := l.doubted(engine.UnknownHolds, time.Hour)
	l.exec(`UPDATE instance SET cluster = 'another'`)
	if _, err := l.CloseUnknowns(t.Context(), CloseOrder{Campaign: again.Campaign}); !errors.Is(err, ErrRefused) {
		t.Errorf("on a database that nobody vouches for: %v", err)
	}
	if n, err := l.q.CloseUnknowns(t.Context(), l.pool, CloseOrder{Campaign: again.Campaign}.params()); n != 0 || err != nil {
		t.Errorf("there the statement closed %d, %v", n, err)
	}
	l.exec(`UPDATE instance SET cluster = cluster_identity()`)
	decided := l.doubted(engine.UnknownFails, time.Hour)
	if _, err := l.CloseUnknowns(t.Context(), CloseOrder{Campaign: decided.Campaign}); !errors.Is(err, ErrRefused) {
		t.Errorf("a campaign that decides itself: %v", err)
	}
	if n, err := l.q.CloseUnknowns(t.Context(), l.pool, CloseOrder{Campaign: decided.Campaign}.params()); n != 0 || err != nil {
		t.Errorf("the statement closed %d, %v", n, err)
	}
}

// What is given up is told once an hour and campaign, however many give up at
// once, and what failed by the platform's word is not ours to tell.
func TestDeadLettersAreToldOnce(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	c, _ := l.campaign(18)
	rows := l.claim(18, c)
	told := func(where string) int {
		return scalar[int](l, `SELECT count(*) FROM notices WHERE kind = 'campaign.dead_letters' AND subject = 'campaign:' || $1::bigint AND `+where, c)
	}
	l.record(rows[16], engine.Result{Status: engine.Failed, Code: 131026})
	if n := told("true"); n != 0 {
		t.Errorf("%d notices of a failure", n)
	}
	race(8, func(i int) {
		l.record(rows[i], engine.Result{Status: engine.Dead, Code: 503, Title: engine.ReasonAttempts})
		l.record(rows[8+i], engine.Result{Status: engine.Dead, Code: 503, Title: engine.ReasonAttempts})
	})
	if n := told(`body ->> 'reason' = 'attempts_exhausted, code 503' AND body #> '{campaign,id}' = to_jsonb($1::bigint)`); n != 1 {
		t.Errorf("%d notices, want 1", n)
	}
	l.exec(`UPDATE notices SET at = now() - interval '61 min'`)
	l.record(rows[17], engine.Result{Status: engine.Unknown})
	l.exec(`UPDATE unknowns SET since = now() - interval '1 h'`)
	l.healthy()
	l.resolve(Resolved{Dead: 1})
	if n := told("true"); n != 2 {
		t.Errorf("%d notices after an hour, want 2", n)
	}
}

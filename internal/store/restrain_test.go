package store

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirhq/weir/engine"
)

// fleet is the lab's number, one more of its account, one of another, and two
// of a third whose token is in a file of their own.
func fleet(t *testing.T) *lab {
	l := newLab(t)
	l.number("1002")
	l.number("2001")
	l.exec(`UPDATE numbers SET waba_id = '9002' WHERE id = '2001'`)
	for _, id := range []string{"3001", "3002"} {
		l.number(id)
		l.exec(`UPDATE numbers SET waba_id = '9003', token_file = '/run/secrets/token' WHERE id = $1`, id)
	}
	return l
}

func TestRestrainNumbers(t *testing.T) {
	t.Parallel()
	l := fleet(t)
	for _, tc := range []struct {
		scope  engine.Scope
		number string
		want   []string
	}{
		{engine.ScopePair, labNumber, []string{labNumber}},
		{engine.ScopeNumber, labNumber, []string{labNumber}},
		{engine.ScopeWABA, labNumber, []string{labNumber, "1002"}},
		{engine.ScopeApp, labNumber, []string{labNumber, "1002", "2001"}},
		{engine.ScopeApp, "3001", []string{"3001", "3002"}}, // 190 is said of a token
		{engine.ScopeApp, "4001", nil},
	} {
		l.exec(`UPDATE numbers SET enabled = true, stop_reason = NULL, paused_until = NULL`)
		list := func(sql string) []string {
			return scalar[[]string](l, `SELECT array_agg(id ORDER BY id) FROM numbers WHERE `+sql)
		}
		l.must(l.Restrain(t.Context(), engine.Restraint{Kind: engine.PauseNumber, Scope: tc.scope, Number: tc.number, For: time.Minute}))
		if got := list(`paused_until > now() + interval '50 s'`); !slices.Equal(got, tc.want) {
			t.Errorf("scope %d of %s paused %v, want %v", tc.scope, tc.number, got, tc.want)
		}
		l.must(l.Restrain(t.Context(), engine.Restraint{Kind: engine.HaltNumber, Scope: tc.scope, Number: tc.number, Code: 190, Reason: "token expired"}))
		if got := list(`NOT enabled AND stop_reason = '190: token expired'`); !slices.Equal(got, tc.want) {
			t.Errorf("scope %d of %s stopped %v, want %v", tc.scope, tc.number, got, tc.want)
		}
	}
}

func TestRestrainNeverShortens(t *testing.T) {
	t.Parallel()
	l := fleet(t)
	for _, d := range []time.Duration{time.Hour, time.Second} {
		l.must(l.Restrain(t.Context(), engine.Restraint{Kind: engine.PauseNumber, Number: labNumber, For: d}))
	}
	work, err := l.Work(t.Context(), l.lease)
	l.must(err)
	if work.Number.Paused < 59*time.Minute || work.Number.Paused > time.Hour {
		t.Errorf("paused for %v, want the longer pause", work.Number.Paused)
	}
	for _, why := range []string{"first", "second"} {
		l.must(l.Restrain(t.Context(), engine.Restraint{Kind: engine.HaltNumber, Number: labNumber, Reason: why}))
	}
	if got := scalar[string](l, `SELECT stop_reason FROM numbers WHERE id = $1`, labNumber); got != "first" {
		t.Errorf("reason = %q, want the first", got)
	}
}

// What a pause teaches is the number's that met it, and its next owner's.
func TestAPauseTeachesItsNumber(t *testing.T) {
	t.Parallel()
	l := fleet(t)
	pause := engine.Restraint{
		Kind: engine.PauseNumber, Scope: engine.ScopeWABA, Number: labNumber, For: time.Second,
		Learned: engine.Learned{Rate: 18, Ceiling: 20},
	}
	l.must(l.Restrain(t.Context(), pause))
	l.exec(`UPDATE numbers SET learned_at = learned_at - interval '15 s'`)
	pause.Learned = engine.Learned{}
	l.must(l.Restrain(t.Context(), pause)) // nothing new
	work, err := l.Work(t.Context(), l.lease)
	l.must(err)
	got := work.Number.Learned
	if got.Rate != 18 || got.Ceiling != 20 || got.Age < 15*time.Second || got.Age > time.Minute {
		t.Errorf("learned %+v, want 18 of 20, 15 s ago", got)
	}
	if pace := work.Number.Pace(); pace < 18 || pace >= 64 {
		t.Errorf("pace %v, want the learned one", pace)
	}
	if n := scalar[int](l, `SELECT count(*) FROM numbers WHERE learned_at IS NOT NULL`); n != 1 {
		t.Errorf("%d numbers have learned, want the one that was throttled", n)
	}
}

func TestRestrainCampaign(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	c, _ := l.campaign(1)
	other, _ := l.campaign(1)
	halt := engine.Restraint{Kind: engine.HaltCampaign, Campaign: c, Code: 132001, Reason: "no such template"}
	for range 2 {
		l.must(l.Restrain(t.Context(), halt))
	}
	got := scalar[string](l, `SELECT string_agg(format('%s %s %s', state, state_reason, control_version), '; ' ORDER BY id) FROM campaigns`)
	if want := "pausing 132001: no such template 1; running  0"; got != want {
		t.Errorf("campaigns = %q, want %q", got, want)
	}
	if rows := l.claim(2, c, other); len(rows) != 1 || rows[0].Campaign != other {
		t.Errorf("claimed %v, want the other campaign's row", rows)
	}
	if err := l.Restrain(t.Context(), engine.Restraint{Kind: 99}); err == nil {
		t.Error("a restraint of no known kind was accepted")
	}
}

func TestWork(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	c, _ := l.campaign(1)
	urgent, _ := l.campaign(1)
	l.exec(`UPDATE campaigns SET priority = 7 WHERE id = $1`, urgent)
	l.exec(`INSERT INTO campaign_zones (campaign_id, zone, opens_at) VALUES ($1, 3, DEFAULT), ($1, 1, DEFAULT), ($1, 2, now() + interval '1 h')`, urgent)
	for _, closed := range []string{
		`UPDATE campaigns SET state = 'paused' WHERE id = $1`,
		`UPDATE campaigns SET start_at = now() + interval '1 h' WHERE id = $1`,
		`UPDATE campaigns SET expire_at = now() WHERE id = $1`,
		`DELETE FROM campaign_numbers WHERE campaign_id = $1`,
		`UPDATE campaign_zones SET closes_at = now() WHERE campaign_id = $1`,
	} {
		shut, _ := l.campaign(1)
		l.exec(closed, shut)
	}
	got, err := l.Work(t.Context(), l.lease)
	l.must(err)
	hello := &engine.Template{Name: "hello", Language: "en_US", Category: engine.Utility, Params: []engine.Param{{Target: "body.1"}}}
	want := engine.Work{
		Number: engine.Number{ID: labNumber, WABA: labWABA, Limit: 80, Headroom: 0.2, Burst: 1, Enabled: true},
		Campaigns: []engine.Campaign{
			{ID: urgent, Priority: 7, Retry: engine.Retry{MaxAttempts: 3, Jitter: engine.FullJitter}, Zones: []int16{0, 1, 3}, Template: hello},
			{ID: c, Retry: engine.Retry{MaxAttempts: 3, Jitter: engine.FullJitter}, Zones: []int16{0}, Template: hello},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("work (-want +got):\n%s", diff)
	}
}

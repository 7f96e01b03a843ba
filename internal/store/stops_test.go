package store

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/weirhq/weir/engine"
)

// senders are campaigns that share something with the lab's: by what they share
// they are named, each a running one with a row that is due.
func (l *lab) senders() map[string]int64 {
	l.t.Helper()
	l.number("1002") // of the same account
	l.number("2001")
	l.exec(`UPDATE numbers SET waba_id = '9002' WHERE id = '2001'`)
	made := make(map[string]int64)
	for name, change := range map[string]string{
		"said":                 `SELECT $1::bigint`,
		"another of it":        `SELECT $1::bigint`,
		"on the account":       `UPDATE campaign_numbers SET number_id = '1002' WHERE campaign_id = $1`,
		"on two accounts":      `INSERT INTO campaign_numbers (number_id, campaign_id) VALUES ('2001', $1)`,
		"on another account":   `UPDATE campaign_numbers SET number_id = '2001' WHERE campaign_id = $1`,
		"falls back on it":     `WITH p AS (UPDATE campaign_numbers SET number_id = '2001' WHERE campaign_id = $1) INSERT INTO campaign_numbers VALUES ('1002', $1, 'fallback')`,
		"another template":     `UPDATE campaigns SET template = 'goodbye' WHERE id = $1`,
		"another language":     `UPDATE campaigns SET language = 'de' WHERE id = $1`,
		"paused by a person":   `UPDATE campaigns SET state = 'paused', state_reason = 'paused by the operator' WHERE id = $1`,
		"scheduled":            `UPDATE campaigns SET state = 'scheduled' WHERE id = $1`,
		"canceled by a person": `UPDATE campaigns SET state = 'canceling' WHERE id = $1`,
	} {
		made[name], _ = l.campaign(1)
		l.exec(change, made[name])
	}
	return made
}

// which names the campaigns of a condition.
func (l *lab) which(made map[string]int64, condition string) (names []string) {
	l.t.Helper()
	ids := scalar[[]int64](l, `SELECT coalesce(array_agg(id), '{}') FROM campaigns WHERE `+condition)
	for name, id := range made {
		if slices.Contains(ids, id) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func TestATemplatesStopReachesAllThatSendIt(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		scope  engine.Scope
		number string
		want   []string
	}{
		"template":         {engine.ScopeTemplate, labNumber, []string{"another of it", "on the account", "on two accounts", "said"}},
		"campaign":         {engine.ScopeCampaign, labNumber, []string{"said"}},
		"no scope":         {engine.ScopeRecipient, labNumber, []string{"said"}},
		"a number is gone": {engine.ScopeTemplate, "4001", []string{"said"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			made := l.senders()
			stop := engine.Restraint{
				Kind: engine.HaltCampaign, Scope: tc.scope, Number: tc.number, Campaign: made["said"],
				Code: 132016, Reason: "template disabled", Advice: "make a new one",
			}
			for range 2 { // twice is once
				l.must(l.Restrain(t.Context(), stop))
			}
			const stopped = `state = 'pausing' AND state_reason = '132016: template disabled; make a new one' AND control_version = 1 AND confirmed_at IS NULL`
			if got := l.which(made, stopped); !slices.Equal(got, tc.want) {
				t.Errorf("stopped %q, want %q", got, tc.want)
			}
			if n := scalar[int](l, `SELECT count(*) FROM notices WHERE kind = 'campaign.stopped'`); n != len(tc.want) {
				t.Errorf("%d notices of %d stops", n, len(tc.want))
			}
			if n := scalar[int](l, `SELECT count(*) FROM campaigns WHERE control_version > 1`); n != 0 {
				t.Errorf("%d campaigns were moved twice", n)
			}
		})
	}
}

// Who pauses for a while is not claimed from, shows why and until when, goes on
// by itself, and at once when an operator says so.
func TestACampaignsPauseEndsByItself(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	made := l.senders()
	c := made["said"]
	for _, d := range []time.Duration{time.Hour, time.Second} { // never shortened
		l.must(l.Restrain(t.Context(), engine.Restraint{
			Kind: engine.PauseCampaign, Scope: engine.ScopeTemplate, Number: labNumber, Campaign: c, For: d, Code: 134101, Reason: "syncing",
		}))
	}
	if got, want := l.which(made, `paused_until > now() + interval '59 min'`), []string{"another of it", "on the account", "on two accounts", "said"}; !slices.Equal(got, want) {
		t.Errorf("paused %q, want %q", got, want)
	}
	l.exec(`UPDATE campaigns SET state = 'paused' WHERE id <> $1`, c)
	shows := func(want string) {
		t.Helper()
		got, err := l.FindCampaign(t.Context(), fmt.Sprint(c))
		l.must(err)
		if s := fmt.Sprintf("%s %v %s", got.State, got.Paused.Round(time.Hour), got.Reason); s != want {
			t.Errorf("shows %q, want %q", s, want)
		}
	}
	// takes says whether the campaign is claimed from, and looked for: by all three gates.
	takes := func(want bool) {
		t.Helper()
		work, err := l.Work(t.Context(), l.lease)
		l.must(err)
		listed := slices.ContainsFunc(work.Campaigns, func(k engine.Campaign) bool { return k.ID == c })
		l.exec(`UPDATE breakers SET state = 'open', open_until = now() WHERE scope = 'host'`)
		token, err := l.TakePermit(t.Context(), engine.PermitAsk{Scope: engine.HostScope, Lease: l.lease, For: time.Minute})
		l.must(err)
		l.exec(`UPDATE breakers SET state = 'closed', probe_token = NULL WHERE scope = 'host'`)
		rows := l.claim(1, c)
		if listed != want || (token != "") != want || (len(rows) == 1) != want {
			t.Errorf("listed: %v, permit: %v, claimed: %d; want %v", listed, token != "", len(rows), want)
		}
		for _, r := range rows {
			l.record(r, engine.Result{Status: engine.Pending, KeepDue: true, Due: r.Due, Refund: true})
		}
	}
	shows("running 1h0m0s 134101: syncing")
	takes(false)
	l.exec(`UPDATE campaigns SET paused_until = now() WHERE id = $1`, c)
	shows("running 0s ")
	takes(true)

	l.exec(`UPDATE campaigns SET paused_until = now() + interval '1 h' WHERE id = $1`, c)
	l.exec(`INSERT INTO campaign_imports (campaign_id, file, head_sha256, size, rows_read, accepted) VALUES ($1, 'f', '', 1, 1, 1)`, c)
	l.must(l.PauseCampaign(t.Context(), c))
	_, err := l.ResumeCampaign(t.Context(), c)
	l.must(err)
	shows("running 0s ")
	takes(true)
}

package engine

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// What is said of a template is said to every campaign that sends it: at once
// here, and elsewhere by the row that every claim reads. None of their rows
// fails or costs an attempt.
func TestAStoppedTemplateStopsItsCampaigns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newMemory(time.Millisecond, number(100, 0.2))
		for _, id := range []int64{1, 2, 3} {
			store.campaign(id, 0, 5000)
		}
		store.campaigns[3].Template = &Template{Name: "another"}
		api := &ledger{latency: 250 * time.Millisecond}
		var told time.Time
		refused := 0
		api.answer = func(call int, m Message) Answer {
			if call < 100 || m.Template.Name == "another" {
				return accept(m)
			}
			if refused++; told.IsZero() {
				told = time.Now()
			}
			return Answer{Action: StopCampaign, Scope: ScopeTemplate, Code: 132016, Title: "template disabled", Advice: "make a new one"}
		}
		r := startLane(t, store, api)
		time.Sleep(20 * time.Second)
		r.finish()
		want := Restraint{Kind: HaltCampaign, Scope: ScopeTemplate, Number: testNumber, Code: 132016, Reason: "template disabled", Advice: "make a new one"}
		if len(store.restraints) == 1 {
			want.Campaign = store.restraints[0].Campaign
		}
		if len(store.restraints) != 1 || store.restraints[0] != want {
			t.Errorf("restraints %+v, want one of the template", store.restraints)
		}
		for _, c := range api.sends() {
			if c.at.After(told) && c.Recipient/10_000_000 != 3 {
				t.Fatalf("a call of the template %v after it was refused", c.at.Sub(told))
			}
		}
		for _, id := range []int64{1, 2} {
			if n := store.counts(id); n[Pending]+n[Accepted] != 5000 || refused == 0 {
				t.Errorf("campaign %d: %v", id, n)
			}
			unspent := func(r memRow) bool { return r.status == Pending && r.attempt != 0 }
			if slices.ContainsFunc(store.campaigns[id].rows, unspent) {
				t.Errorf("campaign %d: a waiting row has spent an attempt", id)
			}
		}
		if n := store.counts(3)[Accepted]; n < 1000 {
			t.Errorf("the campaign of another template got only %d through", n)
		}
	})
}

// A template that is not ready yet holds its campaigns for as long as the
// platform needs, and they go on by themselves.
func TestACampaignPausesForATime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newMemory(time.Millisecond, number(100, 0.2))
		store.campaign(1, 0, 1000)
		api := &ledger{latency: 250 * time.Millisecond}
		start, early := time.Now(), 0
		api.answer = func(_ int, m Message) Answer {
			if time.Since(start) < 5*time.Minute {
				early++
				return Answer{Action: StopCampaign, Scope: ScopeTemplate, Code: 134101, After: 10 * time.Minute}
			}
			return accept(m)
		}
		r := startLane(t, store, api)
		time.Sleep(11 * time.Minute)
		r.finish()
		if len(store.restraints) != 1 || store.restraints[0].Kind != PauseCampaign || store.restraints[0].For != 10*time.Minute {
			t.Errorf("restraints %+v, want one pause", store.restraints)
		}
		if n := store.counts(1); n[Accepted] != 1000 || early > 25 {
			t.Errorf("%d calls before the pause; %v", early, n)
		}
	})
}

package engine

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestAnOutageUsesUpNobody: for two minutes the platform answers every call
// with its own trouble. The breaker lets a probe through now and then, and
// nothing else; nobody's attempts are used up, and afterwards all is sent.
func TestAnOutageUsesUpNobody(t *testing.T) {
	t.Parallel()
	for name, trouble := range map[string]Answer{
		"retry":   {Action: Reschedule, Scope: ScopeApp, Code: 2},
		"unknown": {Action: Reconcile, Title: "HTTP 502 without a readable answer"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				const people = 4000
				store := newMemory(3*time.Millisecond, number(125, 0.2))
				store.campaign(1, 0, people)
				down := time.Now().Add(5 * time.Second)
				up := down.Add(2 * time.Minute)
				failed := 0
				api := &ledger{latency: 100 * time.Millisecond}
				api.answer = func(_ int, m Message) Answer {
					if now := time.Now(); now.Before(down) || now.After(up) {
						return accept(m)
					}
					failed++
					return trouble
				}
				r := startLane(t, store, api)
				time.Sleep(6 * time.Minute)
				r.finish()
				got := store.counts(1)
				if failed > 40 {
					t.Errorf("%d calls were spent on an outage of 12 000", failed)
				}
				if got[Dead] > 0 || got[Accepted]+got[Unknown] != people {
					t.Errorf("after the outage: %v, want all %d accepted or unknown and none dead", got, people)
				}
				if trouble.Action == Reschedule && got[Accepted] != people {
					t.Errorf("after the outage: %v, want all %d accepted", got, people)
				}
			})
		})
	}
}

package engine

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestAnOutageUsesUpNobody: for two minutes the platform answers every call
// with its own trouble. The number rests, longer each time, so that few calls
// are spent on it; nobody's attempts are used up, and afterwards all is sent.
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
				if failed > 400 {
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

// TestTroubleOfOneMessageIsNoOutage: answers about their own message rest
// nothing, however many there are, and few of the platform's neither.
func TestTroubleOfOneMessageIsNoOutage(t *testing.T) {
	t.Parallel()
	now := time.Now()
	g := newGuard(Policy{}, testNumber)
	for range 100 {
		if (Answer{Action: Reschedule, Scope: ScopePair}).tellsOfTrouble() {
			t.Fatal("a pair's limit was taken for the platform's trouble")
		}
	}
	for i := range 20 {
		if d, down := g.troubled(now, now, 0.5); d > 0 || down {
			t.Fatalf("answer %d rested the number, with an acceptance after every fourth", i)
		}
		if i%4 == 3 {
			g.accepted(1, now, now)
		}
	}
}

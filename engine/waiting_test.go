package engine

import (
	"testing"
	"testing/synctest"
	"time"
)

// Rows that a claim only settles or puts off are no empty claim: it is repeated
// at once, and those behind them are sent in the first second. None of them is
// called before its time.
func TestRowsThatMayNotBeSentHoldUpNobody(t *testing.T) {
	t.Parallel()
	for name, still := range map[string]func(*memRow){
		"waiting":    func(r *memRow) { r.peace = time.Now().Add(time.Minute) },
		"suppressed": func(r *memRow) { r.suppressed = true },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				const first, people = 1000, 1010
				store := newMemory(time.Millisecond, number(100, 0.2))
				c := store.campaign(1, 0, people)
				for i := range first {
					still(&c.rows[i])
				}
				api := &ledger{latency: 10 * time.Millisecond}
				r := startLane(t, store, api)
				time.Sleep(15 * time.Second)
				if n := store.counts(1)[Accepted]; n != people-first {
					t.Errorf("%d of %d were sent behind those that may not be", n, people-first)
				}
				time.Sleep(2 * time.Minute)
				r.finish()
				sent := people
				if name == "suppressed" {
					sent = people - first
				}
				if n := store.counts(1)[Accepted]; n != sent {
					t.Errorf("%d sent in the end, want %d", n, sent)
				}
				for _, call := range api.sends() {
					if c.rows[call.Recipient-c.base].peace.After(call.at) {
						t.Fatal("a person was not left in peace")
					}
				}
			})
		})
	}
}

package engine

import (
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestACleanReleaseHandsOverInASecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newMemory(2*time.Millisecond, number(100, 0.2))
		store.campaign(1, 0, 100_000)
		api := &ledger{latency: 100 * time.Millisecond}
		stopA := startNode(t, Options{Store: store, Sender: api, ID: "a"})
		time.Sleep(5 * time.Second)
		stopB := startNode(t, Options{Store: store, Sender: api, ID: "b"})
		time.Sleep(15 * time.Second)
		synctest.Wait()
		if store.grants != 1 {
			t.Fatalf("%d grants while the owner lives", store.grants)
		}
		stopping := time.Now()
		stopA()
		time.Sleep(5 * time.Second)
		stopB()
		calls := api.sends()
		i := slices.IndexFunc(calls, func(c sent) bool { return c.at.After(stopping) })
		if i < 0 || calls[i].at.Sub(calls[i-1].at) > 1100*time.Millisecond {
			t.Fatalf("no owner sent for %v", calls[i].at.Sub(calls[i-1].at))
		}
		t.Logf("handover: %v without a send", calls[i].at.Sub(calls[i-1].at))
		if over := overshoot(instants(calls), 80, 1); over > 1e-6 {
			t.Errorf("a window across the handover holds %.2f too many", over)
		}
		n := store.counts(1)
		if n[Accepted] != len(calls) || n[Unknown]+n[Sending] != 0 || len(api.twice()) != 0 {
			t.Errorf("%d calls, %v", len(calls), n)
		}
	})
}

// A node that cannot reach Postgres stops by itself before another may
// start; its answers are facts and are kept when it comes back.
func TestAPartitionedOwnerStopsBeforeItsSuccessorStarts(t *testing.T) {
	t.Parallel()
	for _, beats := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) { partitionOwner(t, beats) })
	}
}

func partitionOwner(t *testing.T, beats bool) {
	store := newMemory(2*time.Millisecond, number(100, 0.2))
	store.slow = map[string]time.Duration{"heartbeat": 500 * time.Millisecond}
	store.campaign(1, 0, 100_000)
	apiA, apiB := &ledger{latency: 900 * time.Millisecond}, &ledger{latency: 100 * time.Millisecond}
	viewA := &view{memory: store, beats: beats}
	stopA := startNode(t, Options{Store: viewA, Sender: apiA, ID: "a"})
	time.Sleep(5 * time.Second)
	stopB := startNode(t, Options{Store: store, Sender: apiB, ID: "b"})
	time.Sleep(20 * time.Second)
	viewA.partition(true)
	cut := time.Now()
	time.Sleep(25 * time.Second)
	synctest.Wait()
	trusted := viewA.beat.Add(8 * time.Second)
	viewA.partition(false)
	time.Sleep(10 * time.Second)
	stopA()
	stopB()

	lastA, firstB := last(apiA.sends()).at, apiB.sends()[0].at
	t.Logf("cut: the owner sent for %v more, the successor began after %v", lastA.Sub(cut), firstB.Sub(cut))
	if late := lastA.Sub(trusted); late >= 0 || (beats && late < -100*time.Millisecond) {
		t.Errorf("the old owner's last call was %v after its trust ended", late)
	}
	if firstB.Sub(lastA) < 4*time.Second || firstB.Sub(cut) > 17*time.Second {
		t.Errorf("first call of the new owner %v after the old one's last, %v after the cut", firstB.Sub(lastA), firstB.Sub(cut))
	}
	all := append(instants(apiA.sends()), instants(apiB.sends())...)
	if over := overshoot(all, 80, 1); over > 1e-6 {
		t.Errorf("a window across the takeover holds %.2f too many", over)
	}
	n := store.counts(1)
	if n[Accepted] != len(all) || n[Sending] != 0 {
		t.Errorf("%d calls, %v: answers of the old owner are lost", len(all), n)
	}
}

// A lease that someone else holds ends the lane at the next heartbeat: a call
// that is being dialed then is not written, and the answers of those that were
// are still recorded.
func TestALostLeaseEndsItsLane(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newMemory(time.Millisecond, number(100, 0.2))
		store.campaign(1, 0, 10_000)
		api := &ledger{latency: 3 * time.Second}
		var dialing atomic.Int64
		api.during = func(Message) { dialing.Add(1); time.Sleep(700 * time.Millisecond); dialing.Add(-1) }
		log := &logbook{}
		stop := startNode(t, Options{Store: store, Sender: api, ID: "a", Logger: slog.New(slog.NewTextHandler(log, nil))})
		time.Sleep(10 * time.Second)
		store.mu.Lock()
		n := store.numbers[testNumber]
		n.lease, n.holder, n.expires = LeaseID{testNumber, "usurper"}, "x", time.Now().Add(time.Hour)
		var told time.Time
		store.after = func(op string, _ any) error {
			if op == "heartbeat" && told.IsZero() {
				told = time.Now()
				if dialing.Load() == 0 {
					t.Error("no call was being dialed when the node was told")
				}
			}
			return nil
		}
		store.mu.Unlock()
		time.Sleep(10 * time.Second)
		if !strings.Contains(log.String(), `"lane ended"`) || !strings.Contains(log.String(), "lease lost") {
			t.Errorf("the lane did not end:\n%s", log)
		}
		calls := api.sends()
		if late := last(calls).at.Sub(told); late > 0 {
			t.Errorf("a call %v after the node was told that the lease is gone", late)
		}
		if n := store.counts(1); n[Accepted] != len(calls) || n[Sending] != 0 {
			t.Errorf("%d calls, %v", len(calls), n)
		}
		stop()
	})
}

// A bid that was granted and whose answer got lost costs the number a moment,
// not a lease's life and a quarantine.
func TestAGrantThatNobodyHeardOfIsGivenBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newMemory(2*time.Millisecond, number(100, 0.2))
		store.campaign(1, 0, 100_000)
		lost := 0
		store.after = func(op string, _ any) error {
			if op == "acquire" && lost < 2 {
				lost++
				return errDown // granted, and nobody hears of it
			}
			return nil
		}
		api := &ledger{latency: 100 * time.Millisecond}
		started := time.Now()
		stop := startNode(t, Options{Store: store, Sender: api, ID: "a"})
		time.Sleep(30 * time.Second)
		stop()
		if calls := api.sends(); len(calls) == 0 || calls[0].at.Sub(started) > 3*time.Second || store.grants != 3 {
			t.Errorf("%d calls on %d grants, want the first within 3 s on the third", len(calls), store.grants)
		}
		if n := store.counts(1); n[Accepted] != len(api.sends()) || n[Unknown]+n[Sending] != 0 {
			t.Errorf("%v", n)
		}
	})
}

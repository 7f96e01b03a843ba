package engine

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A node says that it lives from its start on, with numbers or without, and
// that it leaves before it releases the first number: others would share them
// out as if it stayed.
func TestANodeLeavesBeforeItReleases(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newMemory(time.Millisecond, number(100, 0.2), Number{ID: "second", Limit: 50})
		store.slow = map[string]time.Duration{"heartbeat": 700 * time.Millisecond} // the drain would be faster
		stop := startNode(t, Options{Store: store, Sender: &ledger{}, ID: "a"})
		time.Sleep(time.Second)
		store.change(func() {
			if _, ok := store.nodes["a"]; !ok {
				t.Error("a node without numbers is not seen")
			}
		})
		store.campaign(1, 0, 10_000)
		time.Sleep(5 * time.Second)
		released := 0
		store.change(func() {
			store.before = func(op string, v any) error {
				if _, counted := store.nodes["a"]; op == "release" && counted {
					t.Errorf("%v released by a node that still counts", v)
				} else if op == "release" {
					released++
				}
				return nil
			}
		})
		stop()
		if len(store.nodes) != 0 || released != 2 {
			t.Errorf("after a clean end: %d released, nodes %v", released, store.nodes)
		}
	})
}

// A node that cannot say that it leaves ends all the same, and is forgotten
// after a TTL.
func TestANodeLeavesWithoutADatabase(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newMemory(time.Millisecond, number(100, 0.2))
		store.campaign(1, 0, 10_000)
		stop := startNode(t, Options{Store: store, Sender: &ledger{}, ID: "a", FlushTimeout: 3 * time.Second})
		time.Sleep(5 * time.Second)
		store.change(func() { store.down = true })
		asked := time.Now()
		stop()
		if took := time.Since(asked); took > 10*time.Second {
			t.Errorf("the node took %v to end", took)
		}
	})
}

// A machine that slept sends nothing until a heartbeat has told that its
// numbers are its still, and asks at once.
func TestASleepIsFollowedByAHeartbeat(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newMemory(time.Millisecond, number(100, 0.2))
		store.slow = map[string]time.Duration{"heartbeat": 500 * time.Millisecond}
		store.campaign(1, 0, 100_000)
		api, log := &ledger{latency: 50 * time.Millisecond}, &logbook{}
		n, err := NewNode(Options{Store: store, Sender: api, ID: "a", Logger: slog.New(slog.NewTextHandler(log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); _ = n.Run(ctx) }()
		time.Sleep(11*time.Second + 200*time.Millisecond) // the last heartbeat has been answered, the next is not due
		synctest.Wait()
		grants, slept := 0, time.Now()
		store.change(func() { grants = store.grants })
		n.mu.Lock()
		given := *n.held[testNumber].trust.word.Load()
		for _, past := range []*instant{&n.sent, &given.since} {
			past.wall = past.wall.Add(-3 * time.Second) // as if the wall clock had run on alone
		}
		n.held[testNumber].trust.word.Store(&given)
		n.mu.Unlock()
		time.Sleep(20 * time.Second)
		stop()
		<-ended
		calls := instants(api.sends())
		i := slices.IndexFunc(calls, func(at time.Time) bool { return at.After(slept) })
		if i < 0 {
			t.Fatal("nothing was sent after the sleep")
		}
		if rest := calls[i].Sub(slept); rest < 500*time.Millisecond || rest > 900*time.Millisecond {
			t.Errorf("the first call came %v after the sleep, want it just after a heartbeat that is sent within 250 ms and takes 500", rest)
		}
		if said := strings.Count(log.String(), "clocks have parted"); said != 1 || store.grants != grants {
			t.Errorf("said %d times, %d new grants:\n%s", said, store.grants-grants, log)
		}
	})
}

package engine

import (
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

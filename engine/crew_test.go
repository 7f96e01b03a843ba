package engine

import (
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// crew is nodes that come and go on one store, and how long its numbers were
// without an owner.
type crew struct {
	t       *testing.T
	store   *memory
	api     *ledger
	log     *logbook
	members map[string]*member
	ending  sync.WaitGroup
	dead    []*member

	clean   time.Duration // longest from a release to the next grant
	unclean time.Duration // longest from when a dead owner beat last, with someone there to see it, to the next grant
}

type member struct {
	view   *view
	joined time.Time
	stop   func()
}

func newCrew(t *testing.T, numbers int) *crew {
	var settings []Number
	for i := range numbers {
		settings = append(settings, Number{ID: fmt.Sprintf("n%02d", i), Limit: 2})
	}
	f := &crew{
		t: t, store: newMemory(2*time.Millisecond, settings...), api: &ledger{latency: 300 * time.Millisecond},
		log: &logbook{}, members: make(map[string]*member),
	}
	f.store.campaign(1, 0, 2000) // it runs on when all is sent: every number needs an owner to the end
	f.store.before = func(op string, v any) error {
		if bid, ok := v.(Bid); ok {
			f.granted(f.store.numbers[bid.Seen.Number], bid)
		}
		return nil
	}
	return f
}

// granted measures the gap that a bid closes, if it will be granted.
func (f *crew) granted(n *memNumber, bid Bid) {
	switch {
	case n.lease.ID == "":
	case n.released:
		f.clean = max(f.clean, time.Since(n.expires))
	case time.Now().After(n.expires) && n.lease.ID == bid.Seen.LeaseID && n.beats == bid.Seen.Beats:
		seen := time.Now()
		for _, m := range f.members {
			if m.joined.Before(seen) {
				seen = m.joined
			}
		}
		f.unclean = max(f.unclean, time.Since(later(seen, n.expires.Add(-bid.TTL))))
	}
}

func (f *crew) join(id string) {
	v := &view{memory: f.store}
	stop := startNode(f.t, Options{
		Store: v, Sender: f.api, ID: id, MaxSenders: 4, FlushTimeout: time.Second,
		Logger: slog.New(slog.NewTextHandler(f.log, nil)).With("node", id),
	})
	f.store.change(func() { f.members[id] = &member{v, time.Now(), stop} })
}

// leave asks a node to end; kill cuts it off from the store for ever.
func (f *crew) leave(id string) {
	f.store.change(func() {
		f.ending.Go(f.members[id].stop)
		delete(f.members, id)
	})
}

func (f *crew) kill(id string) {
	f.members[id].view.partition(true)
	f.store.change(func() {
		f.dead = append(f.dead, f.members[id])
		delete(f.members, id)
	})
}

func (f *crew) end() {
	for id := range maps.Clone(f.members) {
		f.leave(id)
	}
	for _, m := range f.dead {
		f.ending.Go(m.stop)
	}
	f.ending.Wait()
	if f.t.Failed() {
		f.t.Log(f.log)
	}
	if twice := f.api.twice(); len(twice) > 0 {
		f.t.Errorf("%d people were called twice", len(twice))
	}
}

// load is how many numbers each member owns; "" = nobody who lives.
func (f *crew) load() map[string]int {
	f.store.mu.Lock()
	defer f.store.mu.Unlock()
	load := make(map[string]int)
	for id := range f.members {
		load[id] = 0
	}
	for _, n := range f.store.numbers {
		if _, lives := load[n.holder]; !lives || n.released || time.Now().After(n.expires) {
			load[""]++
		} else {
			load[n.holder]++
		}
	}
	return load
}

func (f *crew) grants() (n int) {
	f.store.change(func() { n = f.store.grants })
	return n
}

// settles checks that numbers end within one of even and stay where they are.
func (f *crew) settles(within time.Duration) {
	f.t.Helper()
	time.Sleep(within)
	synctest.Wait()
	grants := f.grants()
	time.Sleep(2 * time.Minute)
	synctest.Wait()
	load := f.load()
	orphans := load[""]
	delete(load, "")
	counts := slices.Sorted(maps.Values(load))
	if orphans > 0 || last(counts)-counts[0] > 1 {
		f.t.Errorf("numbers by node: %v, and %d of nobody", load, orphans)
	}
	if moved := f.grants() - grants; moved > 0 {
		f.t.Errorf("%d numbers moved in 2 minutes in which nothing happened", moved)
	}
}

// gaps checks how long numbers have been without an owner so far.
func (f *crew) gaps(clean, unclean time.Duration) {
	f.t.Helper()
	f.store.mu.Lock()
	defer f.store.mu.Unlock()
	f.t.Logf("longest without an owner: %v after a release, %v after a dead owner's last heartbeat", f.clean, f.unclean)
	if f.clean > clean {
		f.t.Errorf("a released number had no owner for %v", f.clean)
	}
	if f.unclean > unclean {
		f.t.Errorf("a dead owner's number was taken %v after its last heartbeat", f.unclean)
	}
	f.clean, f.unclean = 0, 0
}

const (
	cleanBound   = time.Second
	uncleanBound = 10*time.Second + time.Second // TTL and a poll; the quarantine comes on top
)

func TestTwentyNumbersSpread(t *testing.T) {
	t.Parallel()
	for nodes, stagger := range map[int]time.Duration{1: 0, 2: 3 * time.Second, 5: 0} {
		t.Run(fmt.Sprintf("%d nodes, %v apart", nodes, stagger), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := newCrew(t, 20)
				for i := range nodes {
					f.join(fmt.Sprint("node-", i))
					time.Sleep(stagger)
				}
				f.settles(time.Minute)
				f.gaps(cleanBound, 0)
				if nodes > 1 {
					f.leave("node-0")
					f.settles(10 * time.Second)
					f.join("node-9")
					f.kill("node-1")
					f.settles(30 * time.Second)
					f.gaps(cleanBound, uncleanBound)
				}
				f.end()
			})
		})
	}
}

// A node that lives and takes nothing costs the others their time, not the
// numbers theirs, and is not given numbers again and again.
func TestAUselessNodeKeepsNoNumberFromItsOwner(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newCrew(t, 20)
		haunt := time.NewTicker(time.Second)
		gone := make(chan struct{})
		go func() {
			for {
				f.store.change(func() { f.store.nodes["aaa-useless"] = time.Now() })
				select {
				case <-haunt.C:
				case <-gone:
					return
				}
			}
		}()
		time.Sleep(time.Millisecond)
		for i := range 3 {
			f.join(fmt.Sprint("node-", i))
		}
		time.Sleep(3 * time.Minute)
		synctest.Wait()
		grants := f.grants()
		if load := f.load(); load[""] > 0 || slices.Min(slices.Collect(maps.Values(f.counted()))) < 6 {
			t.Errorf("numbers by node: %v", load)
		}
		time.Sleep(3 * time.Minute)
		synctest.Wait()
		if moved := f.grants() - grants; moved > 12 {
			t.Errorf("%d numbers moved in 3 minutes for the sake of a node that takes none", moved)
		}
		f.leave("node-0")
		time.Sleep(10 * time.Second)
		f.kill("node-1")
		time.Sleep(time.Minute)
		synctest.Wait()
		if load := f.load(); load["node-2"] != 20 {
			t.Errorf("numbers by node: %v", load)
		}
		f.gaps(cleanBound, uncleanBound)
		close(gone)
		f.end()
	})
}

// counted is load without what is nobody's.
func (f *crew) counted() map[string]int {
	load := f.load()
	delete(load, "")
	return load
}

// Nodes join, leave and die at random, several at once.
func TestAFleetInTurmoilKeepsEveryNumberOwned(t *testing.T) {
	t.Parallel()
	for seed := range uint64(2) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				dice := rand.New(rand.NewPCG(seed, 7))
				f := newCrew(t, 20)
				f.join("first")
				for i := range 16 {
					ids := slices.Sorted(maps.Keys(f.members))
					switch id := ids[dice.IntN(len(ids))]; {
					case len(ids) > 1 && dice.IntN(3) == 0:
						f.leave(id)
					case len(ids) > 1 && dice.IntN(3) == 0:
						f.kill(id)
					case len(ids) < 6:
						f.join(fmt.Sprint("node-", i))
					}
					time.Sleep(time.Duration(dice.IntN(8000)) * time.Millisecond)
				}
				f.settles(time.Minute)
				f.gaps(cleanBound+200*time.Millisecond, uncleanBound+time.Second)
				f.end()
			})
		})
	}
}

package engine

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// fleet is so many nodes with a lane each, on one model store and one platform.
type fleet struct {
	store *memory
	api   *ledger
	log   *logbook
	stop  []func()
	lanes []*lane
}

func fleetNumber(i int) Number { return Number{ID: fmt.Sprint("n", i), Limit: 125, Headroom: 0.2} }

// startFleet leases each number to a node of its own.
func startFleet(t *testing.T, store *memory, api *ledger, nodes int) *fleet {
	t.Helper()
	f := &fleet{store: store, api: api, log: &logbook{}}
	for i := range nodes {
		o := Options{
			Store: store, Sender: api, ID: fmt.Sprint("node", i), TTL: 24 * time.Hour, Logger: slog.New(slog.NewTextHandler(f.log, nil)),
		}.withDefaults()
		grant, err := store.Acquire(t.Context(), Bid{Seen: Candidate{Number: fleetNumber(i).ID}, TTL: o.TTL})
		if err != nil {
			t.Fatal(err)
		}
		own := &trust{}
		own.extend(clocks(), o.TTL-o.Margin)
		l, board := newLane(o, grant.Lease, own, testMetrics()), newBoard(o)
		board.join(l.fuse)
		f.lanes = append(f.lanes, l)
		f.stop = append(f.stop, startLinked(l, board))
	}
	return f
}

// startLinked runs a lane and its board until the returned function is called.
func startLinked(l *lane, b *board) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	reporting, hush := context.WithCancel(context.Background())
	var lane, reports sync.WaitGroup
	lane.Go(func() { l.run(ctx) })
	reports.Go(func() { b.run(reporting) })
	return func() {
		cancel()
		lane.Wait()
		hush()
		reports.Wait()
	}
}

func (f *fleet) finish() {
	for _, stop := range f.stop {
		stop()
	}
}

// between is the calls begun from then until then.
func (f *fleet) between(from, to time.Time) (calls []sent) {
	for _, c := range f.api.sends() {
		if !c.at.Before(from) && c.at.Before(to) {
			calls = append(calls, c)
		}
	}
	return calls
}

// moved is when the host came into a state first, or last.
func (f *fleet) moved(scope string, to BreakerState, last bool) (at time.Time) {
	f.store.change(func() {
		for _, v := range f.store.moves {
			if v.scope == scope && v.state == to && (last || at.IsZero()) {
				at = v.at
			}
		}
	})
	return at
}

func newFleetStore(nodes, people int) *memory {
	var numbers []Number
	for i := range nodes {
		numbers = append(numbers, fleetNumber(i))
	}
	store := newMemory(3*time.Millisecond, numbers...)
	store.campaign(1, 0, people)
	return store
}

// TestTheFleetStopsForAnOutage: three nodes at 300 a second, and the platform is
// away for 40 s. Few calls are lost to it, then only probes go out, one in
// flight for the whole fleet; nothing is spent, nothing dies; and it is back at
// the full rate soon after, by steps, and never above it.
func TestTheFleetStopsForAnOutage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const nodes, latency = 3, 100 * time.Millisecond
		store := newFleetStore(nodes, 40_000)
		down := time.Now().Add(10 * time.Second)
		up := down.Add(40 * time.Second)
		api := &ledger{latency: latency}
		api.answer = func(_ int, m Message) Answer {
			if now := time.Now(); now.Before(down) || !now.Before(up) {
				return accept(m)
			}
			return Answer{Action: Reschedule, Scope: ScopeApp, Code: 131016}
		}
		f := startFleet(t, store, api, nodes)
		time.Sleep(100 * time.Second)
		f.finish()

		opened, closed := f.moved(HostScope, BreakerOpen, false), f.moved(HostScope, BreakerClosed, true)
		t.Logf("opened %v after the first failure; closed %v after the return: %s", opened.Sub(down), closed.Sub(up), store.story(HostScope))
		// Each lane fails 5 times, and what it has in flight by then fails too.
		if lost := f.between(down.Add(-latency), opened.Add(latency)); len(lost) > nodes*(5+10+2) || opened.Sub(down) > time.Second {
			t.Errorf("%d calls until the host opened, %v after the first failure", len(lost), opened.Sub(down))
		}
		f.probesOnly(t, opened.Add(latency), closed)
		if late := closed.Sub(up); late > 40*time.Second/2 || late < 0 {
			t.Errorf("closed %v after the platform came back", late)
		}
		f.cameBack(t, closed)
		f.spentNothing(t)
	})
}

// probesOnly fails unless the calls of a time were probes: never two at once,
// and as many as permits were given.
func (f *fleet) probesOnly(t *testing.T, from, to time.Time) {
	t.Helper()
	calls := f.between(from, to)
	for i := 1; i < len(calls); i++ {
		if calls[i].at.Sub(calls[i-1].at) < f.api.latency {
			t.Errorf("a probe %v after another, which was under way", calls[i].at.Sub(calls[i-1].at))
		}
	}
	permits := 0
	for _, v := range f.store.moves {
		if v.state == BreakerHalfOpen && !v.at.Before(from) && v.at.Before(to) {
			permits++
		}
	}
	if len(calls) > permits || permits == 0 {
		t.Errorf("%d calls on %d permits", len(calls), permits)
	}
}

// cameBack fails unless the lanes came back by steps, to the full rate within
// ten seconds, and were never above it.
func (f *fleet) cameBack(t *testing.T, closed time.Time) {
	t.Helper()
	if n := len(f.between(closed, closed.Add(500*time.Millisecond))); n > len(f.lanes)*7 {
		t.Errorf("%d calls in the first half second after closing", n)
	}
	if rate := float64(len(f.between(closed.Add(10*time.Second), closed.Add(20*time.Second)))) / 10; rate < 0.98*100*float64(len(f.lanes)) {
		t.Errorf("%v a second from 10 s after closing on", rate)
	}
	for i := range f.lanes {
		mine := slices.DeleteFunc(f.api.sends(), func(c sent) bool { return c.Number != fleetNumber(i).ID })
		if over := overshoot(instants(mine), 100, 1); over > 1e-6 {
			t.Errorf("number %d: a window holds %.2f too many", i, over)
		}
	}
}

// spentNothing fails unless all but the first few failures, before the breaker
// was sure, left their rows' attempts alone, and nobody died.
func (f *fleet) spentNothing(t *testing.T) {
	t.Helper()
	spent := 0
	for i, r := range f.store.campaigns[1].rows {
		switch r.status {
		case Accepted:
			spent += r.attempt - 1
		case Pending:
			spent += r.attempt
		default:
			t.Fatalf("row %d is %v", i, r.status)
		}
	}
	if most := len(f.lanes) * 4; spent > most {
		t.Errorf("the outage used up %d attempts, want at most %d", spent, most)
	}
}

// A node whose calls fail while the others' succeed is sick, and stops alone:
// its number's breaker opens, the platform's does not.
func TestASickNodeStopsAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newFleetStore(3, 40_000)
		api := &ledger{latency: 100 * time.Millisecond}
		sick := time.Now().Add(5 * time.Second)
		api.answer = func(_ int, m Message) Answer {
			if m.Number == fleetNumber(1).ID && time.Now().After(sick) {
				return Answer{} // a gateway of its own answers in HTML
			}
			return accept(m)
		}
		f := startFleet(t, store, api, 3)
		time.Sleep(40 * time.Second)
		f.finish()
		if story := store.story(HostScope); story != "" {
			t.Errorf("the host: %s", story)
		}
		if story := store.story(NumberScope(fleetNumber(1).ID)); story == "" {
			t.Error("the sick node's number never opened")
		}
		if calls := f.between(sick.Add(2*time.Second), sick.Add(30*time.Second)); len(calls) < 28*200*98/100 || len(calls) > 28*200+30 {
			t.Errorf("%d calls in 28 s by two well nodes and a sick one", len(calls))
		}
	})
}

// A prober that dies holds its permit until its call cannot be under way any
// more, and no longer. What it says later changes nothing.
func TestADeadProberIsReplaced(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newFleetStore(2, 10_000)
		api := &ledger{latency: 100 * time.Millisecond}
		down := time.Now().Add(5 * time.Second)
		var probes []time.Time // guarded by the ledger, as answer is called
		stuck := make(chan struct{})
		api.during = func(Message) {
			first := false
			if time.Now().After(down.Add(2 * time.Second)) {
				api.change(func() { probes = append(probes, time.Now()); first = len(probes) == 1 })
			}
			if first {
				<-stuck // its process is stopped before the request is written
			}
		}
		api.answer = func(_ int, m Message) Answer {
			if time.Now().Before(down) || len(probes) > 1 {
				return accept(m)
			}
			return Answer{}
		}
		f := startFleet(t, store, api, 2)
		time.Sleep(60 * time.Second)
		close(stuck)
		synctest.Wait()
		f.finish()
		const want = "open consecutive, half_open probe, half_open probe_expired, closed probe_answered"
		if got := store.story(HostScope); got != want {
			t.Fatalf("the host: %s\nwant %s", got, want)
		}
		if gap := probes[1].Sub(probes[0]); gap < 15*time.Second || gap > 25*time.Second {
			t.Errorf("the second probe %v after the first", gap)
		}
	})
}

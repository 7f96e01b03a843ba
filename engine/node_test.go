package engine

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// view is one node's way to the shared model store, which can be cut.
type view struct {
	*memory
	beats bool // only heartbeats are lost, claims and results get through

	mu   sync.Mutex
	cut  bool
	beat time.Time // when the last good heartbeat was sent
}

func (v *view) partition(cut bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.cut = cut
}

func (v *view) reach(ctx context.Context, beat bool) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.cut && (beat || !v.beats) {
		return errDown
	}
	return ctx.Err()
}

func (v *view) Candidates(ctx context.Context) ([]Candidate, error) {
	if err := v.reach(ctx, false); err != nil {
		return nil, err
	}
	return v.memory.Candidates(ctx)
}

func (v *view) Heartbeat(ctx context.Context, ttl time.Duration, ids []LeaseID) ([]LeaseID, error) {
	if err := v.reach(ctx, true); err != nil {
		return nil, err
	}
	sent := time.Now()
	kept, err := v.memory.Heartbeat(ctx, ttl, ids)
	if err == nil && len(kept) > 0 {
		v.beat = sent
	}
	return kept, err
}

func (v *view) Claim(ctx context.Context, ask Ask) ([]Recipient, error) {
	if err := v.reach(ctx, false); err != nil {
		return nil, err
	}
	return v.memory.Claim(ctx, ask)
}

func (v *view) Record(ctx context.Context, id LeaseID, results []Result, done []int64) error {
	if err := v.reach(ctx, false); err != nil {
		return err
	}
	return v.memory.Record(ctx, id, results, done)
}

// startNode runs a node until stop.
func startNode(t *testing.T, o Options) (stop func()) {
	t.Helper()
	n, err := NewNode(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := n.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	return func() { cancel(); running.Wait() }
}

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

func last[T any](s []T) T { return s[len(s)-1] }

// A lease that someone else holds ends the lane at the next heartbeat, and
// calls under way are still recorded.
func TestALostLeaseEndsItsLane(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newMemory(time.Millisecond, number(100, 0.2))
		store.campaign(1, 0, 10_000)
		api := &ledger{latency: 3 * time.Second}
		log := &logbook{}
		stop := startNode(t, Options{Store: store, Sender: api, ID: "a", Logger: slog.New(slog.NewTextHandler(log, nil))})
		time.Sleep(10 * time.Second)
		store.mu.Lock()
		n := store.numbers[testNumber]
		n.lease, n.holder, n.expires = LeaseID{testNumber, "usurper"}, "x", time.Now().Add(time.Hour)
		store.mu.Unlock()
		stolen := time.Now()
		time.Sleep(10 * time.Second)
		if !strings.Contains(log.String(), `"lane ended"`) || !strings.Contains(log.String(), "lease lost") {
			t.Errorf("the lane did not end:\n%s", log)
		}
		calls := api.sends()
		if late := last(calls).at.Sub(stolen); late > 2100*time.Millisecond {
			t.Errorf("a call %v after the lease was gone", late)
		}
		if n := store.counts(1); n[Accepted] != len(calls) || n[Sending] != 0 {
			t.Errorf("%d calls, %v", len(calls), n)
		}
		stop()
	})
}

// After kill -9: the restarted node says that it waits, then its first act
// is to turn what was in flight into unknown.
func TestARestartAfterKillWaitsAndSaysSo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newMemory(time.Millisecond, number(100, 0.2))
		store.campaign(1, 0, 1000)
		grant, err := store.Acquire(t.Context(), Bid{Node: "a", Seen: Candidate{Number: testNumber}, TTL: 10 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := store.Claim(t.Context(), Ask{Lease: grant.Lease, Seq: 1, Free: 20, Slices: []Slice{{Campaign: 1, Share: 20}}}); err != nil {
			t.Fatal(err)
		}
		died, log, api := time.Now(), &logbook{}, &ledger{latency: 100 * time.Millisecond}
		reg := prometheus.NewRegistry()
		stop := startNode(t, Options{Store: store, Sender: api, ID: "a-2", Registry: reg, Logger: slog.New(slog.NewTextHandler(log, nil))})
		time.Sleep(5 * time.Second)
		for _, want := range []string{"silent", "takes over after the quarantine", "holder=a ", "wait=1"} { // said after 3 s of silence
			if got := log.String(); strings.Count(got, want) != 1 {
				t.Errorf("within 5 s the log does not say %q once:\n%s", want, got)
			}
		}
		time.Sleep(15 * time.Second)
		if owned := series(t, reg, "weir_lease_owned"); owned != 1 {
			t.Errorf("weir_lease_owned has %d series while the lease is held", owned)
		}
		if took := api.sends()[0].at.Sub(died); took < 14*time.Second || took > 16*time.Second {
			t.Errorf("first call %v after the kill", took)
		}
		stop()
		if n := store.counts(1); n[Unknown] != 20 || n[Sending] != 0 || len(api.twice()) > 0 {
			t.Errorf("%v", n)
		}
		for _, want := range []string{"waiting out the last owner's quarantine", "rows=20"} {
			if !strings.Contains(log.String(), want) {
				t.Errorf("the log does not say %q:\n%s", want, log)
			}
		}
		if left := series(t, reg, "weir_results_total"); left != 0 {
			t.Errorf("%d series of results outlive the lease", left)
		}
	})
}

func series(t *testing.T, reg *prometheus.Registry, name string) int {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			return len(f.GetMetric())
		}
	}
	return 0
}

func TestAnIdleNumberIsReleased(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newMemory(time.Millisecond, number(100, 0.2))
		c := store.campaign(1, 0, 100)
		stop := startNode(t, Options{Store: store, Sender: &ledger{latency: 100 * time.Millisecond}, ID: "a"})
		time.Sleep(10 * time.Second)
		store.mu.Lock()
		c.halted = true // finished
		store.mu.Unlock()
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if n := store.numbers[testNumber]; !n.released || store.grants != 1 {
			t.Errorf("released %v, grants %d", n.released, store.grants)
		}
		store.campaign(2, 0, 50)
		time.Sleep(5 * time.Second)
		stop()
		if n := store.counts(2)[Accepted]; n != 50 {
			t.Errorf("%d of the next campaign's 50 were sent", n)
		}
	})
}

// Postgres away for a while, and coming and going, loses and doubles nothing.
func TestAnOutageOfPostgresLosesNothing(t *testing.T) {
	t.Parallel()
	for seed := range uint64(5) {
		synctest.Test(t, func(t *testing.T) {
			store := newMemory(2*time.Millisecond, number(100, 0.2), Number{ID: "second", Limit: 50})
			store.campaign(1, 0, 3000)
			store.campaign(2, 1, 500)
			dice, when := rand.New(rand.NewPCG(seed, 0)), rand.New(rand.NewPCG(seed, 1))
			api := &ledger{latency: 150 * time.Millisecond}
			log := &logbook{}
			stop := startNode(t, Options{Store: store, Sender: api, ID: "a", Logger: slog.New(slog.NewTextHandler(log, nil))})
			flaky := func(string, any) error {
				if dice.IntN(10) == 0 {
					return errDown
				}
				return nil
			}
			for range 6 {
				time.Sleep(time.Duration(when.IntN(5000)) * time.Millisecond)
				store.mu.Lock()
				store.down = !store.down
				store.before, store.after = flaky, flaky
				store.mu.Unlock()
			}
			store.mu.Lock()
			store.down, store.before, store.after = false, nil, nil
			store.mu.Unlock()
			time.Sleep(2 * time.Minute)
			stop()
			a, b := store.counts(1), store.counts(2)
			if a[Accepted]+a[Unknown] != 3000 || b[Accepted]+b[Unknown] != 500 || len(api.twice()) > 0 {
				t.Errorf("seed %d: %v, %v, twice %d", seed, a, b, len(api.twice()))
			}
			if t.Failed() {
				t.Log(log)
			}
		})
	}
}

func TestOptionsMustFitTogether(t *testing.T) {
	t.Parallel()
	good := Options{Store: newMemory(0), Sender: &ledger{}, ID: "a"}
	for name, tt := range map[string]struct {
		change func(*Options)
		want   string
	}{
		"defaults":      {func(*Options) {}, ""},
		"no store":      {func(o *Options) { o.Store = nil }, "needs a store"},
		"no id":         {func(o *Options) { o.ID = "" }, "an id"},
		"short ttl":     {func(o *Options) { o.TTL = 6 * time.Second }, "longer than heartbeat + 2 × call timeout + margin = 6s"},
		"negative":      {func(o *Options) { o.Poll = -1 }, "poll -1ns is negative"},
		"too few hands": {func(o *Options) { o.MaxSenders = 1 }, "at least 2"},
	} {
		o := good
		tt.change(&o)
		_, err := NewNode(o)
		if got := fmt.Sprint(err); (tt.want == "") != (err == nil) || !strings.Contains(got, tt.want) && tt.want != "" {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
	}
}

func TestARegistryTakesOneNode(t *testing.T) {
	t.Parallel()
	o := Options{Store: newMemory(0), Sender: &ledger{}, ID: "a", Registry: prometheus.NewRegistry()}
	if _, err := NewNode(o); err != nil {
		t.Fatal(err)
	}
	if _, err := NewNode(o); err == nil || !strings.Contains(err.Error(), "register metrics") {
		t.Errorf("a second node on one registry: %v", err)
	}
}

// Either clock alone can be wrong: the monotonic one stands still while the
// machine sleeps, the wall clock can be set back.
func TestTrustAsksBothClocks(t *testing.T) {
	t.Parallel()
	now := time.Now()
	var own trust
	if own.holds(now) {
		t.Error("trust before any heartbeat")
	}
	own.extend(now.Add(8 * time.Second))
	own.extend(now.Add(3 * time.Second)) // a late reply to an early heartbeat
	asleep := now.Round(0).Add(9 * time.Second)
	for name, tt := range map[string]struct {
		now  time.Time
		want bool
	}{
		"at once":           {now, true},
		"in time":           {now.Add(7 * time.Second), true},
		"out of time":       {now.Add(8 * time.Second), false},
		"only the wall ran": {asleep, false},
	} {
		if got := own.holds(tt.now); got != tt.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

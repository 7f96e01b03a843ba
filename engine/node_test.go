package engine

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
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

func (v *view) Census(ctx context.Context, ttl time.Duration) (Census, error) {
	if err := v.reach(ctx, false); err != nil {
		return Census{}, err
	}
	return v.memory.Census(ctx, ttl)
}

func (v *view) Acquire(ctx context.Context, bid Bid) (Grant, error) {
	if err := v.reach(ctx, false); err != nil {
		return Grant{}, err
	}
	return v.memory.Acquire(ctx, bid)
}

func (v *view) Release(ctx context.Context, id LeaseID) error {
	if err := v.reach(ctx, false); err != nil {
		return err
	}
	return v.memory.Release(ctx, id)
}

func (v *view) Heartbeat(ctx context.Context, beat Beat) (Pulse, error) {
	if err := v.reach(ctx, true); err != nil {
		return Pulse{}, err
	}
	sent := time.Now()
	pulse, err := v.memory.Heartbeat(ctx, beat)
	if err == nil && len(pulse.Held) > 0 {
		v.beat = sent
	}
	return pulse, err
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

func last[T any](s []T) T { return s[len(s)-1] }

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

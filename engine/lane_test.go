package engine

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

const testNumber = "15550001"

// rig is one lane on a model store and a ledger, in a bubble.
type rig struct {
	store *memory
	api   *ledger
	lane  *lane
	log   *logbook
	stop  context.CancelFunc
	ended chan struct{}
}

// startLane leases the number and runs its lane until stop.
func startLane(t *testing.T, store *memory, api *ledger) *rig {
	t.Helper()
	r := &rig{store: store, api: api, log: &logbook{}, ended: make(chan struct{})}
	o := Options{Store: store, Sender: api, ID: "test", TTL: 24 * time.Hour, Logger: slog.New(slog.NewTextHandler(r.log, nil))}.withDefaults()
	grant, err := store.Acquire(t.Context(), Bid{Seen: Candidate{Number: testNumber}, TTL: o.TTL})
	if err != nil {
		t.Fatal(err)
	}
	own := &trust{}
	own.extend(clocks(), o.TTL-o.Margin)
	r.lane = newLane(o, grant.Lease, own, testMetrics())
	board := newBoard(o)
	board.join(r.lane.fuse)
	ctx, cancel := context.WithCancel(t.Context())
	r.stop = cancel
	go func() {
		defer close(r.ended)
		reporting, stop := context.WithCancel(context.WithoutCancel(ctx))
		var reports sync.WaitGroup
		reports.Go(func() { board.run(reporting) })
		r.lane.run(ctx)
		stop()
		reports.Wait()
	}()
	return r
}

// testMetrics are a lane's that nobody looks at.
func testMetrics() *laneMetrics {
	m, err := newMetrics(nil)
	if err != nil {
		panic(err)
	}
	return m.lane(testNumber)
}

// finish stops the lane and waits for its drain.
func (r *rig) finish() {
	r.stop()
	<-r.ended
}

func number(limit, headroom float64) Number {
	return Number{ID: testNumber, Limit: limit, Headroom: headroom}
}

func TestLaneKeepsTheRate(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		limit, headroom float64
		latency, claim  time.Duration
		seconds         int
	}{
		{100, 0.2, 250 * time.Millisecond, 3 * time.Millisecond, 60},
		{1250, 0.2, 50 * time.Millisecond, 3 * time.Millisecond, 20},
		{100, 0.2, 3 * time.Second, 3 * time.Millisecond, 60},
		{1250, 0.2, 50 * time.Millisecond, 200 * time.Millisecond, 20},
		{2, 0, 250 * time.Millisecond, 3 * time.Millisecond, 300},
		{2, 0.9, 250 * time.Millisecond, 3 * time.Millisecond, 2000},
	} {
		rate, _ := pace(number(tt.limit, tt.headroom))
		t.Run(fmt.Sprintf("%v mps, call %v, claim %v", rate, tt.latency, tt.claim), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				store := newMemory(tt.claim, number(tt.limit, tt.headroom))
				r := startLane(t, store, &ledger{latency: tt.latency})
				r.keepsRate(t, rate, tt.seconds)
			})
		})
	}
}

// keepsRate runs the lane with more work than it can do, and drains it.
func (r *rig) keepsRate(t *testing.T, rate float64, seconds int) {
	t.Helper()
	r.store.campaign(1, 0, int(rate*float64(seconds)*2)+10)
	time.Sleep(10 * time.Second) // it measures its latency and finds its size
	warm := len(r.api.sends())
	time.Sleep(time.Duration(seconds) * time.Second)
	calls := r.api.sends()
	r.finish()

	mean := float64(len(calls)-warm) / float64(seconds)
	t.Logf("%.2f of %v mps; %d claims", mean, rate, len(r.store.asks))
	if mean < rate*0.99 || mean > rate*1.01 {
		t.Errorf("mean rate %.2f, want %v within 1 %%", mean, rate)
	}
	if over := overshoot(instants(calls), rate, 1); over > 1e-6 {
		t.Errorf("a window holds %.3f sends more than burst + rate × w", over)
	}
	if r.store.unsorted || r.store.biggest > flushRows {
		t.Errorf("batches unsorted: %v; the largest has %d", r.store.unsorted, r.store.biggest)
	}
	r.conserved(t, 1)
}

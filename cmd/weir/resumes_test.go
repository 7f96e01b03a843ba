package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/weirhq/weir/engine"
	"github.com/weirhq/weir/internal/sim"
	"github.com/weirhq/weir/internal/store"
)

// tally is a platform that accepts everything and counts who was sent to.
type tally struct {
	mu    sync.Mutex
	calls map[int64]int // by recipient
	total int
}

// Send implements engine.Sender.
func (t *tally) Send(_ context.Context, m engine.Message) engine.Answer {
	if m.Fence() != nil {
		return engine.Answer{Action: engine.Release}
	}
	t.mu.Lock()
	t.calls[m.Recipient]++
	t.total++
	t.mu.Unlock()
	<-time.After(20*time.Millisecond + rand.N(80*time.Millisecond))
	return engine.Answer{Action: engine.Accept, MessageID: fmt.Sprint("wamid.", m.Recipient, ".", m.Claim)}
}

func (t *tally) sent() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.total
}

// TestTwentyResumesSendEachOnce: two nodes on two numbers send one campaign,
// which is paused and resumed at random points, twenty times, whether or not the
// pause was confirmed by then. Nothing is sent while it is paused, and everybody
// is sent to once.
func TestTwentyResumesSendEachOnce(t *testing.T) {
	t.Parallel()
	const n = 3000
	s := newStage(t, sim.Options{})
	second := scriptNumber + "9"
	for _, id := range []string{scriptNumber, second} {
		s.weir("number", "add", id, "--waba", "w", "--limit", "250", "--no-verify")
	}
	s.campaign(n, "--no-verify", "--number", second)
	db, err := store.Open(t.Context(), s.database, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	platform := &tally{calls: map[int64]int{}}
	defer runNodes(t, db, platform)()
	silent := 0
	for round := range 20 {
		<-time.After(rand.N(250 * time.Millisecond))
		if interrupt(t, db, platform, round%2 == 0) {
			silent++
		}
	}
	for deadline := time.Now().Add(2 * patience); ; {
		counts, err := db.Counts(t.Context(), 1)
		if err != nil || time.Now().After(deadline) {
			t.Fatalf("%v, %v", counts, err)
		}
		if counts[engine.Accepted] == n {
			break
		}
		<-time.After(100 * time.Millisecond)
	}
	for id, times := range platform.calls {
		if times > 1 {
			t.Errorf("recipient %d was sent to %d times", id, times)
		}
	}
	if platform.total != n || silent == 0 {
		t.Errorf("%d calls for %d people, and %d of the pauses were confirmed", platform.total, n, silent)
	}
}

// interrupt pauses the campaign, resumes it, and reports whether the pause was
// confirmed in between: it may wait for that.
func interrupt(t *testing.T, db *store.Store, platform *tally, waits bool) (confirmed bool) {
	t.Helper()
	if err := db.PauseCampaign(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(patience); ; {
		c, err := db.FindCampaign(t.Context(), "1")
		if err != nil || time.Now().After(deadline) {
			t.Fatalf("%s, %v", c.State, err)
		}
		if confirmed = c.State == store.Paused; confirmed || !waits {
			break
		}
		<-time.After(20 * time.Millisecond)
	}
	before := platform.sent()
	if confirmed {
		<-time.After(rand.N(200 * time.Millisecond))
		if late := platform.sent() - before; late > 0 {
			t.Errorf("%d calls after a confirmed pause", late)
		}
	}
	if _, err := db.ResumeCampaign(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	return confirmed
}

// runNodes runs two nodes until the function it returns is called.
func runNodes(t *testing.T, db *store.Store, platform engine.Sender) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var nodes sync.WaitGroup
	for i := range 2 {
		node, err := engine.NewNode(engine.Options{ID: fmt.Sprint("node-", i), Store: db, Sender: platform})
		if err != nil {
			t.Fatal(err)
		}
		nodes.Go(func() {
			if err := node.Run(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	return func() {
		cancel()
		nodes.Wait()
	}
}

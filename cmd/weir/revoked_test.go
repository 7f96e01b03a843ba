package main

import (
	"context"
	"flag"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirhq/weir/engine"
	"github.com/weirhq/weir/internal/sim"
	"github.com/weirhq/weir/internal/store"
)

// revokedPeople is 100 000 in earnest: the token is revoked at the 1 000th then.
var revokedPeople = flag.Int("people", 2000, "people of TestARevokedTokenLosesNobody")

// revoking makes the platform refuse the token from the n-th call on.
type revoking struct {
	engine.Sender
	calls  atomic.Int64
	at     int64
	revoke func()
}

func (r *revoking) Send(ctx context.Context, m engine.Message) engine.Answer {
	if r.calls.Add(1) == r.at {
		r.revoke()
	}
	return r.Sender.Send(ctx, m)
}

// TestARevokedTokenLosesNobody: a token is revoked while two numbers send with
// it. No more calls are made than there are senders to make one each, nobody
// fails or has an attempt spent, the reason says what to do, and after that
// everybody gets the message once.
func TestARevokedTokenLosesNobody(t *testing.T) {
	t.Parallel()
	const senders = 8
	n := *revokedPeople
	s := newStage(t, sim.Options{AutoThroughput: 1000})
	second := scriptNumber + "9"
	for _, id := range []string{scriptNumber, second} {
		s.weir("number", "add", id, "--waba", "w", "--limit", "1000", "--no-verify")
	}
	s.campaign(n, "--no-verify", "--number", second)
	db, err := store.Open(t.Context(), s.database, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	client, err := graph{GraphURL: s.platform.URL, GraphVersion: "v25.0", AccessToken: "token"}.client(t.Context(), db, discard, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	platform := &revoking{Sender: client, at: int64(max(200, n/100)), revoke: func() {
		if _, err := s.platform.Misbehave(sim.Behavior{Kind: sim.TokenRevoked}); err != nil {
			t.Error(err)
		}
	}}
	stop := runNode(t, engine.Options{ID: "node", Store: db, Sender: platform, MaxSenders: senders})
	s.untilStopped(db, scriptNumber, second)
	calls := len(s.platform.Ledger())
	stop() // also a node that is shut down makes no call for it, and its successor knows
	s.nobodyFailed(db, n, 2*senders)
	if late := len(s.platform.Ledger()) - calls; late > 0 {
		t.Errorf("%d calls after all had been settled", late)
	}
	node := s.serve()
	defer func() { _ = node.Process.Kill() }()
	s.platform.Behave(0) // a new token
	for _, id := range []string{scriptNumber, second} {
		s.weir("number", "set", id, "--enable")
	}
	s.until("finished", 5*time.Minute, func(v campaignView) bool { return v.State == "finished" })
	s.holds(n)
}

// runNode runs a node until the function it returns is called.
func runNode(t *testing.T, o engine.Options) (stop func()) {
	t.Helper()
	node, err := engine.NewNode(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- node.Run(ctx) }()
	return func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// untilStopped waits until the numbers are stopped and nothing is under way.
func (s *stage) untilStopped(db *store.Store, numbers ...string) {
	s.t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); ; <-tick.C {
		all, err := db.Numbers(s.t.Context())
		if err != nil {
			s.t.Fatal(err)
		}
		stopped := 0
		for _, n := range all {
			if !n.Enabled {
				stopped++
			}
		}
		counts, err := db.Counts(s.t.Context(), 1)
		if err != nil {
			s.t.Fatal(err)
		}
		if stopped == len(numbers) && counts[engine.Sending] == 0 {
			return
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("%d numbers stopped; %v", stopped, counts)
		}
	}
}

// nobodyFailed holds rows and ledger to what a refused token may cost.
func (s *stage) nobodyFailed(db *store.Store, n, inFlight int) {
	s.t.Helper()
	refused, accepted := map[string]int{}, 0
	for _, e := range s.platform.Ledger() {
		switch {
		case e.Code == 190:
			refused[e.Callback]++
		case e.WAMID != "":
			accepted++
		}
	}
	for _, times := range refused {
		if times > 1 {
			s.t.Errorf("one recipient's call was refused %d times", times)
		}
	}
	if len(refused) == 0 || len(refused) > inFlight {
		s.t.Errorf("%d calls with a revoked token, want 1 to %d: those in flight", len(refused), inFlight)
	}
	s.t.Logf("%d of %d accepted, then %d calls refused", accepted, n, len(refused))
	counts, err := db.Counts(s.t.Context(), 1)
	if err != nil || counts[engine.Accepted] != accepted || counts[engine.Pending] != n-accepted {
		s.t.Errorf("%v, %v; want %d accepted and the others waiting", counts, err, accepted)
	}
	spent := 0
	if err := s.pool().QueryRow(s.t.Context(), `SELECT count(*) FROM recipients WHERE status = 'pending' AND attempt > 0`).Scan(&spent); err != nil || spent > 0 {
		s.t.Errorf("%d who wait have spent an attempt, %v", spent, err)
	}
	if status := s.weir("campaign", "status", "c"); !strings.Contains(status, "190: access token has expired or is invalid; put a new token into the token file") ||
		!strings.Contains(status, "weir number set "+scriptNumber+" --enable") {
		s.t.Errorf("the status does not say what happened and what to do:\n%s", status)
	}
}

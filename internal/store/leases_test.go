package store

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirhq/weir/engine"
	"github.com/weirhq/weir/internal/store/db"
)

// expired lets a number's lease run out and returns it as a patient bidder saw it.
func (l *lab) expired(number string) engine.Candidate {
	l.t.Helper()
	l.exec(`UPDATE number_leases SET expires_at = now() - interval '1 ms' WHERE number_id = $1`, number)
	var c engine.Candidate
	l.must(l.pool.QueryRow(l.t.Context(), `SELECT number_id, lease_id::text, hb FROM number_leases WHERE number_id = $1`, number).
		Scan(&c.Number, &c.LeaseID, &c.Beats))
	return c
}

func TestAcquireGates(t *testing.T) {
	t.Parallel()
	bid := func(l *lab, c engine.Candidate) error {
		_, err := l.Acquire(t.Context(), engine.Bid{Node: "other", Seen: c, TTL: labTTL, Quarantine: time.Second})
		return err
	}
	for name, spoil := range map[string]func(*lab, *engine.Candidate){
		"it lives": func(l *lab, _ *engine.Candidate) {
			l.exec(`UPDATE number_leases SET expires_at = now() + interval '1 h'`)
		},
		"it was renewed":         func(l *lab, _ *engine.Candidate) { l.exec(`UPDATE number_leases SET hb = hb + 1`) },
		"it changed hands":       func(l *lab, _ *engine.Candidate) { l.exec(`UPDATE number_leases SET lease_id = gen_random_uuid()`) },
		"bidder saw it free":     func(_ *lab, c *engine.Candidate) { *c = engine.Candidate{Number: c.Number, Free: true} },
		"bidder saw other beats": func(_ *lab, c *engine.Candidate) { c.Beats++ },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			seen := l.expired(labNumber)
			spoil(l, &seen)
			if err := bid(l, seen); !errors.Is(err, engine.ErrLeaseTaken) {
				t.Errorf("err = %v, want engine.ErrLeaseTaken", err)
			}
		})
	}
}

func TestAcquireExpiredLeaseWaitsOutItsQuarantine(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	old := l.lease
	grant := l.bid(l.expired(labNumber))
	if grant.Lease == old || grant.Ready <= labBidQuarantine/2 || grant.Ready > labBidQuarantine {
		t.Errorf("grant = %+v, want another lease, ready in a bit under %v", grant, labBidQuarantine)
	}
	if n := scalar[int](l, `SELECT count(*) FROM lease_events WHERE kind = 'grant'`); n != 2 {
		t.Errorf("%d grants on record, want 2", n)
	}
}

func TestAcquireRacers(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	seen := l.expired(labNumber)
	won := make(chan engine.Grant, 8)
	race(8, func(int) {
		grant, err := l.Acquire(t.Context(), engine.Bid{Node: "racer", Seen: seen, TTL: labTTL})
		switch {
		case err == nil:
			won <- grant
		case !errors.Is(err, engine.ErrLeaseTaken):
			t.Error(err)
		}
	})
	if len(won) != 1 {
		t.Errorf("%d racers won the lease, want 1", len(won))
	}
}

func TestHeartbeatRenewsWhatIsHeld(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.number("other")
	released := l.acquire("other")
	l.must(l.Release(t.Context(), released))
	l.number("third")
	stale := l.acquire("third")
	l.bid(l.expired("third"))
	l.expired(labNumber)
	pulse, err := l.Heartbeat(t.Context(), engine.Beat{Node: "node", TTL: time.Hour, Leases: []engine.LeaseID{stale, released, l.lease}})
	l.must(err)
	if diff := cmp.Diff([]engine.LeaseID{l.lease}, pulse.Held); diff != "" {
		t.Errorf("still held (-want +got):\n%s", diff)
	}
	if !scalar[bool](l, `SELECT expires_at > now() + interval '50 min' AND hb = 1 FROM number_leases WHERE number_id = $1`, labNumber) {
		t.Error("the lease was not renewed for a TTL")
	}
}

func TestRule07_ReleaseSkipsNoQuarantine(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	c, _ := l.campaign(1)
	l.must(l.Release(t.Context(), l.lease))
	if census, err := l.Census(t.Context(), labTTL); err != nil || !census.Candidates[0].Free ||
		census.Candidates[0].Expired <= 0 || census.Candidates[0].Expired > time.Minute {
		t.Errorf("census after a release: %+v, %v, want it free since just now", census, err)
	}
	if rows := l.claim(1, c); len(rows) != 0 {
		t.Error("a released lease claimed")
	}
	if g := l.bid(engine.Candidate{Number: labNumber, Free: true}); g.Ready != 0 {
		t.Errorf("after a clean release: ready in %v, want at once", g.Ready)
	}
	quarantined := l.bid(l.expired(labNumber))
	l.must(l.Release(t.Context(), quarantined.Lease))
	g := l.bid(engine.Candidate{Number: labNumber, Free: true})
	if g.Ready <= labBidQuarantine/2 {
		t.Errorf("released within a quarantine: ready in %v, want the rest of %v", g.Ready, labBidQuarantine)
	}
	l.lease = g.Lease
	if rows := l.claim(1, c); len(rows) != 0 {
		t.Error("claimed within the quarantine")
	}
}

func TestRule08_NumbersThatNeedAnOwner(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	c, _ := l.campaign(1)
	listed := func() bool {
		got, err := l.Census(t.Context(), labTTL)
		l.must(err)
		return len(got.Candidates) == 1 && got.Candidates[0].Number == labNumber
	}
	for state, want := range map[string]bool{
		"running": true, "pausing": true, "canceling": true, "paused": false, "finished": false, "canceled": false, "draft": false,
	} {
		l.exec(`UPDATE campaigns SET state = $1`, state)
		if listed() != want {
			t.Errorf("campaign %s: listed %v, want %v", state, !want, want)
		}
	}
	l.exec(`UPDATE campaigns SET state = 'running'`)
	l.claim(1, c)
	l.exec(`UPDATE campaigns SET state = 'finished'`)
	if !listed() {
		t.Error("a number with claims rows of a dead owner is not listed")
	}
	census, err := l.Census(t.Context(), labTTL)
	l.must(err)
	got := census.Candidates
	want := []engine.Candidate{{Number: labNumber, LeaseID: l.lease.ID, Holder: "node", Expired: got[0].Expired}}
	if diff := cmp.Diff(want, got); diff != "" || got[0].Expired >= 0 {
		t.Errorf("candidate (-want +got):\n%s; expired %v, want it to live", diff, got[0].Expired)
	}
}

func TestRule08_ReclaimTakesEveryOtherLease(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	c, first := l.campaign(4)
	l.claim(1, c)
	l.bid(l.expired(labNumber))
	l.exec(`UPDATE number_leases SET ready_at = now()`)
	second := scalar[string](l, `SELECT lease_id::text FROM number_leases`)
	l.lease.ID = second
	l.claim(1, c)
	l.must(l.Release(t.Context(), l.lease)) // released with a row in its hands
	l.lease = l.acquire(labNumber)
	l.claim(1, c)
	n, err := l.Reclaim(t.Context(), l.lease)
	l.must(err)
	if n != 2 {
		t.Errorf("reclaimed %d rows, want 2", n)
	}
	l.want(first, look{Status: "unknown", Claim: 1, Attempt: 1})
	l.want(first+1, look{Status: "unknown", Claim: 1, Attempt: 1})
	l.want(first+2, look{Status: "sending", Claim: 1, Attempt: 1})
	l.want(first+3, look{Status: "pending", Due: true})
	if n := scalar[int](l, `SELECT count(*) FROM unknowns`); n != 2 {
		t.Errorf("%d unknowns, want 2", n)
	}
	if n, err := l.Reclaim(t.Context(), l.lease); n != 0 || err != nil {
		t.Errorf("again: %d, %v, want nothing", n, err)
	}
	l.recounted()
}

// A takeover waits for a claim that is under way, a heartbeat does not, and a
// stale owner's next claim takes nothing.
func TestTakeoverWaitsForAnOpenClaim(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	c, _ := l.campaign(3)
	tx := begin(t, l.Store)
	ask := &db.ClaimRecipientsParams{
		Number: labNumber, Lease: l.lease.ID, Seq: 99, Free: 1,
		Campaigns: []int64{c}, Zones: []int16{0}, Shares: []int32{1}, Turns: []int32{0},
	}
	rows, err := l.q.ClaimRecipients(t.Context(), tx, ask)
	if l.must(err); len(rows) != 1 {
		t.Fatalf("claimed %d rows", len(rows))
	}
	if pulse, err := l.Heartbeat(t.Context(), engine.Beat{Node: "node", TTL: labTTL, Leases: []engine.LeaseID{l.lease}}); err != nil || len(pulse.Held) != 1 {
		t.Fatalf("heartbeat beside a claim: %v, %v", pulse, err)
	}
	old, seen := l.lease, l.expired(labNumber)
	taken := make(chan engine.Grant, 1)
	go func() { taken <- l.bid(seen) }()
	l.waitForLock("AcquireLease")
	select {
	case <-taken:
		t.Error("the takeover did not wait for the claim")
	default:
	}
	l.must(tx.Commit(t.Context()))
	l.lease = (<-taken).Lease
	l.exec(`UPDATE number_leases SET ready_at = now()`)
	if rows := l.claimed(engine.Ask{Lease: old, Seq: 100, Free: 1, Slices: []engine.Slice{{Campaign: c, Share: 1}}}); len(rows) != 0 {
		t.Error("the stale owner claimed")
	}
	if n, err := l.Reclaim(t.Context(), l.lease); n != 1 || err != nil {
		t.Errorf("reclaimed %d, %v, want the open claim's row", n, err)
	}
}

// A claim that begins while a takeover has not committed waits, then takes nothing.
func TestClaimWaitsForAnOpenTakeover(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	c, _ := l.campaign(3)
	tx := begin(t, l.Store)
	_, err := tx.Exec(t.Context(), `UPDATE number_leases SET lease_id = gen_random_uuid()`)
	l.must(err)
	claimed := make(chan int, 1)
	ask := l.ask(3, c)
	go func() { claimed <- len(l.claimed(ask)) }()
	l.waitForLock("ClaimRecipients")
	l.must(tx.Commit(t.Context()))
	if n := <-claimed; n != 0 {
		t.Errorf("a claim overtaken by a takeover took %d rows", n)
	}
}

// waitForLock returns once a statement of that name waits for a lock; it asks
// for two minutes.
func (l *lab) waitForLock(statement string) {
	l.t.Helper()
	for range 12_000 {
		if scalar[bool](l, `SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database()
			AND wait_event_type = 'Lock' AND query LIKE '%name: ' || $1 || ' %') OR pg_sleep(0.01) IS NULL`, statement) {
			return
		}
	}
	l.t.Errorf("%s never waited for a lock", statement)
}

package engine

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"
)

// pauseRig is a lane with two campaigns, of which the first is going to be paused.
type pauseRig struct {
	*rig
	first    *memCampaign
	answered int    // calls of the first campaign; guarded by the ledger
	words    spoken // guarded by the store
}

// spoken is what the lane and the store have said to each other of a pause.
type spoken struct {
	seen  time.Time // when the lane has read of it
	acked time.Time
	early int // calls without an answer when it was acknowledged
}

func (p *pauseRig) spoken() (w spoken) {
	p.store.change(func() { w = p.words })
	return w
}

func (p *pauseRig) forget() { p.store.change(func() { p.words.acked = time.Time{} }) }

func startPause(t *testing.T, latency time.Duration) *pauseRig {
	store := newMemory(time.Millisecond, number(100, 0.2))
	p := &pauseRig{first: store.campaign(1, 0, 5000)}
	store.campaign(2, 0, 5000)
	api := &ledger{latency: latency}
	api.answer = func(_ int, m Message) Answer {
		if p.isFirst(m.Recipient) {
			p.answered++
		}
		return accept(m)
	}
	store.after = func(op string, _ any) error {
		switch {
		case op == "acknowledge" && p.words.acked.IsZero():
			p.words.acked = time.Now()
			p.words.early = p.begun(time.Now()) - p.done()
		case op == "work" && p.first.pausing && p.words.seen.IsZero():
			p.words.seen = time.Now()
		}
		return nil
	}
	p.rig = startLane(t, store, api)
	return p
}

func (p *pauseRig) isFirst(id int64) bool { return id/10_000_000 == 1 }

func (p *pauseRig) done() (n int) {
	p.api.change(func() { n = p.answered })
	return n
}

// begun counts the first campaign's calls until an instant.
func (p *pauseRig) begun(until time.Time) (n int) {
	for _, s := range p.api.sends() {
		if p.isFirst(s.Recipient) && !s.at.After(until) {
			n++
		}
	}
	return n
}

func (p *pauseRig) pause() (asked time.Time) {
	p.store.change(p.first.pause)
	return time.Now()
}

// Rule 18: a lane acknowledges when every call it began is answered, what had
// not begun goes back unsent, and from then on not one call is made. The other
// campaign has the whole rate.
func TestRule18ACallInFlightHoldsThePause(t *testing.T) {
	t.Parallel()
	for name, latency := range map[string]time.Duration{"quick calls": 30 * time.Millisecond, "slow calls": 3 * time.Second} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := startPause(t, latency)
				time.Sleep(20 * time.Second)
				asked := p.pause()
				time.Sleep(10 * time.Second)
				switch took := p.spoken().acked.Sub(asked); {
				case p.spoken().acked.IsZero():
					t.Fatal("never acknowledged")
				case p.spoken().early > 0:
					t.Errorf("acknowledged with %d calls under way", p.spoken().early)
				case took > latency+1200*time.Millisecond:
					t.Errorf("acknowledged after %v", took)
				}
				before := len(p.api.sends())
				time.Sleep(10 * time.Second)
				if late := p.begun(time.Now()) - p.begun(p.spoken().seen.Add(time.Millisecond)); late > 0 {
					t.Errorf("%d calls after the lane knew of the pause", late)
				}
				if n := len(p.api.sends()) - before; n < 780 {
					t.Errorf("the other campaign got only %d through in 10 s", n)
				}
				if n := p.store.counts(1); n[Sending] > 0 || n[Accepted]+n[Pending] != 5000 {
					t.Errorf("the paused campaign: %v", n)
				}
				p.finish()
				p.conserved(t, 1, 2)
			})
		})
	}
}

// Rule 18: a call that hangs holds the pause for as long as its bytes may still
// arrive, and not for its whole timeout.
func TestRule18AHungCallReleasesThePause(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := startPause(t, time.Minute)
		time.Sleep(1500 * time.Millisecond) // no call has been answered yet
		asked := p.pause()
		time.Sleep(20 * time.Second)
		var by time.Time
		p.lane.hand.mu.Lock()
		for r := range p.lane.hand.calls {
			if r.Campaign == 1 && r.by.wall.After(by) {
				by = r.by.wall
			}
		}
		p.lane.hand.mu.Unlock()
		if p.spoken().acked.Before(by.Add(DefaultQuarantine)) {
			t.Errorf("acknowledged %v after a call's last moment to write", p.spoken().acked.Sub(by))
		}
		if took := p.spoken().acked.Sub(asked); p.spoken().early == 0 || took > claimFresh+DefaultQuarantine+linger+50*time.Millisecond {
			t.Errorf("acknowledged after %v, with %d calls hanging", took, p.spoken().early)
		}
		time.Sleep(2 * time.Minute)
		p.finish()
		p.conserved(t, 1, 2)
	})
}

// Rule 18: a claim that failed and committed holds no pause: its rows are never
// sent, and go back.
func TestRule18ABurnedClaimDoesNotHoldThePause(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := startPause(t, 100*time.Millisecond)
		time.Sleep(10 * time.Second)
		seen := p.store.after
		p.store.change(func() {
			p.store.after = func(op string, v any) error {
				if op == "claim" {
					p.store.after = seen
					p.first.pause()
					return errDown // committed, but nobody hears of it
				}
				return nil
			}
		})
		asked := time.Now()
		time.Sleep(5 * time.Second)
		if took := p.spoken().acked.Sub(asked); p.spoken().acked.IsZero() || p.spoken().early > 0 || took > 2*time.Second {
			t.Errorf("acknowledged after %v, with %d calls under way", took, p.spoken().early)
		}
		if n := p.store.counts(1); n[Sending] > 0 {
			t.Errorf("the burned claim's rows have not come back: %v", n)
		}
		p.finish()
		p.conserved(t, 1, 2)
	})
}

// Rule 18: a lane that does not trust its lease has no say.
func TestRule18AnUntrustedLaneAcknowledgesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := startPause(t, 100*time.Millisecond)
		time.Sleep(5 * time.Second)
		trusted, now := p.lane.trust.word.Load(), clocks()
		p.lane.trust.word.Store(&word{since: now, until: now})
		p.pause()
		time.Sleep(time.Minute)
		if !p.spoken().acked.IsZero() {
			t.Error("acknowledged without trust")
		}
		p.lane.trust.word.Store(trusted)
		time.Sleep(2 * time.Second)
		if p.spoken().acked.IsZero() {
			t.Error("never acknowledged")
		}
		p.finish()
		p.conserved(t, 1, 2)
	})
}

// A lane that has nothing else to send does not wait for the next second: its
// claim, which comes back empty, says that something has changed.
func TestAPauseIsSeenByTheNextClaim(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := startPause(t, 30*time.Millisecond)
		p.store.change(func() { p.store.campaigns[2].due = nil })
		time.Sleep(10 * time.Second)
		for range 5 {
			p.forget()
			asked := p.pause()
			time.Sleep(3 * time.Second)
			if took := p.spoken().acked.Sub(asked); p.spoken().acked.IsZero() || took > 450*time.Millisecond {
				t.Errorf("acknowledged after %v", took)
			}
			p.store.change(p.first.resume)
			time.Sleep(3*time.Second + time.Duration(rand.IntN(1000))*time.Millisecond)
		}
		p.finish()
		p.conserved(t, 1)
	})
}

// Pauses and resumes at random points, acknowledged or not: everybody is sent
// to once, and nothing goes out between an acknowledgement and its resume.
func TestResumedTwentyTimesSendsEachOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := startPause(t, 400*time.Millisecond)
		for range 20 {
			time.Sleep(time.Duration(rand.IntN(3000)) * time.Millisecond)
			p.forget()
			p.pause()
			time.Sleep(time.Duration(rand.IntN(3000)) * time.Millisecond)
			p.store.change(func() {
				if p.first.halted {
					if late := p.begun(time.Now()) - p.begun(p.words.acked); late > 0 || p.words.early > 0 {
						t.Errorf("%d calls after an acknowledgement, %d during it", late, p.words.early)
					}
				}
				p.first.resume()
			})
		}
		time.Sleep(5 * time.Minute)
		p.finish()
		p.conserved(t, 1, 2)
		if n := p.store.counts(1); n[Accepted] != 5000 {
			t.Errorf("%v", n)
		}
	})
}

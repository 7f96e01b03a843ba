package engine

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// A permit lets one row through an open breaker, and not through what has come
// in its way since: an operator who holds it open, or this node's own trouble.
func TestAPermitIsNoFreePass(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	held := Breaker{State: BreakerOpen, Mark: "e.9", Forced: true}
	for name, tt := range map[string]struct {
		scope string
		since func(f *fuse)
		want  bool
	}{
		"nothing":                      {HostScope, func(*fuse) {}, true},
		"open by itself":               {HostScope, func(f *fuse) { f.host.tell(Breaker{State: BreakerOpen, Mark: "e.9"}, now, now) }, true},
		"the host is held open":        {HostScope, func(f *fuse) { f.host.tell(held, now, now) }, false},
		"the number is held open":      {HostScope, func(f *fuse) { f.number.tell(held, now, now) }, false},
		"this node is cut off":         {HostScope, func(f *fuse) { f.out.breaker.state = BreakerOpen }, false},
		"a trial":                      {LocalScope, func(f *fuse) { f.out.breaker.state = BreakerHalfOpen }, true},
		"a trial of a node cut off":    {LocalScope, func(f *fuse) { f.out.breaker.state = BreakerOpen }, false},
		"a trial of a well node":       {LocalScope, func(*fuse) {}, false},
		"a trial on an open platform":  {LocalScope, func(f *fuse) { f.out.breaker.state = BreakerHalfOpen; f.host.told.State = BreakerOpen }, false},
		"a trial on a tripped number":  {LocalScope, func(f *fuse) { f.out.breaker.state = BreakerHalfOpen; f.number.tripped = true }, false},
		"held open, and known by then": {HostScope, func(f *fuse) { f.host.tell(held, now.Add(-2*time.Second), now) }, true},
	} {
		f := newFuse(BreakerPolicy{}.WithDefaults(), LeaseID{Number: testNumber})
		tt.since(f)
		if got := f.allows(&permit{scope: tt.scope, asked: now.Add(-time.Second)}); got != tt.want {
			t.Errorf("%s: allowed %v", name, got)
		}
	}
}

// A probe that could only be written when its permit may be another's is given
// back: claims were slow, and the first rows were opted out.
func TestAProbeDoesNotOutliveItsPermit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, down := outageLane(t, 2000, outage)
		time.Sleep(time.Until(down.Add(time.Second)))
		r.store.change(func() {
			c := r.store.campaigns[1]
			for _, id := range slices.Concat(c.due[:2], c.delayed) {
				r.store.row(id).suppressed = true
			}
			r.store.slow = map[string]time.Duration{"claim": claimCall - 100*time.Millisecond}
		})
		time.Sleep(20 * time.Second)
		r.store.change(func() { r.store.slow = nil })
		time.Sleep(time.Minute)
		r.finish()
		const most = claimFresh + 2*controlCall
		for _, c := range r.api.sends() {
			if !c.at.After(down.Add(time.Second)) {
				continue
			}
			var permit time.Time
			for _, v := range r.store.moves {
				if v.state == BreakerHalfOpen && !v.at.After(c.at) {
					permit = v.at
				}
			}
			if len(r.closings()) > 0 && c.at.After(r.closings()[0]) {
				break
			}
			if c.at.Sub(permit) > most {
				t.Errorf("a probe was written %v after its permit was given", c.at.Sub(permit))
			}
		}
	})
}

package engine

import (
	"testing"
	"time"
)

// elapsed is start on clocks that have run for different times since.
func elapsed(start instant, wall, mono, boot time.Duration) instant {
	return instant{start.wall.Round(0).Add(wall), start.mono + mono, start.boot + boot}
}

// Each clock alone can be wrong: the monotonic one stands still while the
// machine sleeps, the wall clock can be set, and a restored machine's clocks
// know nothing of the time in between until one of them is corrected.
func TestTrustHoldsWhileAllClocksAgree(t *testing.T) {
	t.Parallel()
	start := clocks()
	var own trust
	if own.holds(start) || !own.since().IsZero() {
		t.Error("trust before any heartbeat")
	}
	own.extend(start, 8*time.Second)
	const s, ms = time.Second, time.Millisecond
	for name, tt := range map[string]struct {
		wall, mono, boot time.Duration
		want             bool
	}{
		"at once":                  {0, 0, 0, true},
		"in time":                  {7 * s, 7 * s, 7 * s, true},
		"the last instant":         {8*s - 1, 8*s - 1, 8*s - 1, true},
		"out of time":              {8 * s, 8 * s, 8 * s, false},
		"out of time by wall":      {8 * s, 8*s - ms, 8*s - ms, false},
		"out of time by boot":      {8*s - ms, 8*s - ms, 8 * s, false},
		"out of time by monotonic": {8*s - ms, 8 * s, 8*s - ms, false},
		"slewed":                   {2*s + 250*ms, 2 * s, 2 * s, true},
		"slept a little":           {2*s + 251*ms, 2 * s, 2*s + 251*ms, false},
		"slept for long":           {3600 * s, 2 * s, 3600 * s, false},
		"slept, wall set back":     {2 * s, 2 * s, 3 * s, false},
		"restored, then corrected": {3600 * s, 1 * s, 1 * s, false},
		"set forward":              {3 * s, 2 * s, 2 * s, false},
		"set back":                 {-3600 * s, 2 * s, 2 * s, false},
		"set back a little":        {2*s - 251*ms, 2 * s, 2 * s, false},
	} {
		if got := own.holds(elapsed(start, tt.wall, tt.mono, tt.boot)); got != tt.want {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
}

// A heartbeat that succeeds proves that the lease is ours still, whatever the
// clocks have done: trust begins anew from its sending. A late answer to an
// early one moves nothing, and what was revoked stays so.
func TestTrustBeginsAnewWithAHeartbeat(t *testing.T) {
	t.Parallel()
	var own trust
	start := clocks()
	own.extend(start, 8*time.Second)
	woke := elapsed(start, time.Hour, time.Second, time.Hour)
	if own.holds(woke) {
		t.Error("trusted after a sleep")
	}
	own.extend(woke, 8*time.Second)
	later := woke.add(7 * time.Second)
	if !own.holds(later) || !own.since().Equal(woke.wall) {
		t.Error("a good heartbeat after a sleep gives no trust")
	}
	own.extend(start.add(time.Millisecond), time.Hour)
	if own.holds(later.add(2*time.Second)) || !own.holds(later) {
		t.Error("a late answer to an early heartbeat moved trust")
	}
	own.revoke()
	own.extend(later, 8*time.Second)
	if own.holds(later) {
		t.Error("a heartbeat brought a revoked lease back")
	}
}

// FuzzTrust: whichever clock tells the truth, no lease is trusted for longer
// than it was given by that clock, nor once they have parted; and while all run
// alike it is trusted to the end.
func FuzzTrust(f *testing.F) {
	f.Add(int64(8e9), int64(1e9), int64(1e9), int64(1e9))
	f.Add(int64(8e9), int64(9e9), int64(1e9), int64(9e9))
	f.Add(int64(8e9), int64(-1e9), int64(1e9), int64(1e9))
	f.Fuzz(func(t *testing.T, given, wall, mono, boot int64) {
		const year = int64(365 * 24 * time.Hour)
		given, wall, mono, boot = given%year, wall%year, mono%year, boot%year
		start := instant{wall: time.Unix(1_700_000_000, 0), mono: time.Hour, boot: 100 * time.Hour}
		var own trust
		own.extend(start, time.Duration(given))
		got := own.holds(elapsed(start, time.Duration(wall), time.Duration(mono), time.Duration(boot)))
		longest, shortest := max(wall, mono, boot), min(wall, mono, boot)
		if want := longest < given && longest-shortest <= int64(250*time.Millisecond); got != want {
			t.Errorf("given %d; wall %d, monotonic %d, boot %d later: trusted %v", given, wall, mono, boot, got)
		}
	})
}

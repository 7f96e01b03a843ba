package engine

import (
	"testing"
	"time"
)

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

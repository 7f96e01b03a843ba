package engine

import (
	"runtime"
	"testing"
	"testing/synctest"
	"time"
)

func TestClocksRunTogether(t *testing.T) {
	t.Parallel()
	first := readClocks()
	for range 1000 {
		next := readClocks()
		if next.mono < first.mono || next.boot < first.boot {
			t.Fatal("a clock ran backward")
		}
		if gap := next.parted(first); gap > jumpMost {
			t.Fatalf("clocks have parted by %v with nothing done", gap)
		}
	}
	if runtime.GOOS == "linux" && first.boot == first.mono {
		t.Error("the clock since boot is the one of this process")
	}
}

// readClocks reads them at one instant: a busy machine may take the processor
// away between one clock and the next, and then it reads again.
func readClocks() instant {
	for {
		begun := time.Now()
		now := clocks()
		if time.Since(begun) < jumpMost/4 {
			return now
		}
	}
}

// In a bubble there is one clock, or a slow machine would look like a sleep.
func TestClocksOfABubbleAreOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		first := clocks()
		time.Sleep(time.Hour)
		now := clocks()
		if now.mono-first.mono != time.Hour || now.boot-first.boot != time.Hour || now.parted(first) != 0 {
			t.Errorf("an hour later: %+v, then %+v", first, now)
		}
		if !now.before(first.add(time.Hour+1)) || now.before(first.add(time.Hour)) {
			t.Error("a deadline an hour on is not an hour away")
		}
	})
}

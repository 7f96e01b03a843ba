package engine

import "time"

// jumpMost is by how much two clocks may part within a lease's trust. They run
// within 500 ppm of each other; a sleep, a restored machine or a set clock is
// more than this.
const jumpMost = 250 * time.Millisecond

// born is what monotonic readings are counted from.
var born = time.Now()

// instant is one moment on every clock that this machine has. Each can mislead
// in its own way: the monotonic one stands still while the machine sleeps, the
// wall clock is set, and neither shows all of what a restored snapshot has
// missed. So a deadline holds only while all of them agree, and where they have
// parted something has happened to us.
type instant struct {
	wall time.Time     // its monotonic reading, if any, serves timers only
	mono time.Duration // stands still in a sleep, is never set
	boot time.Duration // goes on in a sleep, is never set; as mono where the system has none
}

// clocks reads them all, at one moment: a process that is stopped between two
// readings reads again, or it would take that stop for a jump.
func clocks() instant {
	var i instant
	for range 3 {
		i.wall = time.Now()
		i.mono = i.wall.Sub(born)
		i.boot = i.mono
		// Time that carries no monotonic reading is simulated (testing/synctest),
		// and no clock of the machine goes with it.
		if i.wall == i.wall.Round(0) {
			break
		}
		i.boot = sinceBoot(i.mono)
		if time.Since(i.wall) < jumpMost/10 {
			break
		}
	}
	return i
}

// add is the instant d later.
func (i instant) add(d time.Duration) instant {
	return instant{i.wall.Add(d), i.mono + d, i.boot + d}
}

// before reports whether all clocks agree that i is before other.
func (i instant) before(other instant) bool {
	return i.mono < other.mono && i.boot < other.boot && i.wall.Round(0).Before(other.wall.Round(0))
}

// parted is by how much the clocks disagree about how long ago since was.
func (i instant) parted(since instant) time.Duration {
	wall, mono, boot := i.wall.Round(0).Sub(since.wall.Round(0)), i.mono-since.mono, i.boot-since.boot
	return max(wall, mono, boot) - min(wall, mono, boot)
}

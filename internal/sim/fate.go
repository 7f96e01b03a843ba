package sim

import "time"

// mix is the finalizer of splitmix64: a cheap bijection with good avalanche,
// here the only source of chance.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// hashString is FNV-1a over s, started from a mixed seed.
func hashString(seed uint64, s string) uint64 {
	h := mix(seed) ^ 0xcbf29ce484222325
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 0x100000001b3
	}
	return mix(h)
}

// Each decision about a message draws with its own salt, so that changing one
// option does not reshuffle the others.
const (
	saltFail uint64 = iota + 1
	saltSentOnly
	saltRead
	saltReorder
	saltEarly
	saltLatency
	saltRule  uint64 = 1 << 20 // + rule id
	saltDelay uint64 = 1 << 30 // + step
	saltTwice uint64 = 1 << 31 // + step
)

// draw returns a number in [0, 1) that depends on the message and the salt.
func draw(fate, salt uint64) float64 {
	return float64(mix(fate^mix(salt))>>11) / (1 << 53)
}

func (s Spread) draw(fate, salt uint64) time.Duration {
	return s.Base + time.Duration(draw(fate, salt)*float64(s.Jitter))
}

// status is one word of a status webhook; its bits make the set that the
// receiver has acknowledged.
type status uint8

const (
	statusSent status = 1 << iota
	statusDelivered
	statusRead
	statusFailed
)

var statusNames = [...]struct {
	status status
	name   string
}{
	{statusSent, "sent"},
	{statusDelivered, "delivered"},
	{statusRead, "read"},
	{statusFailed, "failed"},
}

func (s status) String() string {
	for _, n := range statusNames {
		if n.status == s {
			return n.name
		}
	}
	return ""
}

// plan names the sequence of statuses a message will get.
type plan uint8

const (
	planNone plan = iota
	planSent
	planDelivered
	planRead
	planFailed
	planDeliveredReordered
	planReadReordered
	planReadReversed
)

var planSteps = [...][]status{
	planNone:               nil,
	planSent:               {statusSent},
	planDelivered:          {statusSent, statusDelivered},
	planRead:               {statusSent, statusDelivered, statusRead},
	planFailed:             {statusFailed},
	planDeliveredReordered: {statusDelivered, statusSent},
	planReadReordered:      {statusDelivered, statusSent, statusRead},
	planReadReversed:       {statusRead, statusDelivered, statusSent},
}

func (p plan) steps() []status { return planSteps[p] }

// planFor decides what becomes of an accepted message, and the code it fails
// with if it does.
func (o *Options) planFor(fate uint64) (plan, int) {
	u := draw(fate, saltFail)
	for _, f := range o.Failures {
		if u < f.Share {
			return planFailed, f.Code
		}
		u -= f.Share
	}
	if draw(fate, saltSentOnly) < o.SentOnlyShare {
		return planSent, 0
	}
	read := draw(fate, saltRead) < o.ReadShare
	disorder := draw(fate, saltReorder)
	switch {
	case !read && disorder < o.ReorderShare:
		return planDeliveredReordered, 0
	case !read:
		return planDelivered, 0
	case disorder < o.ReorderShare/2:
		return planReadReversed, 0
	case disorder < o.ReorderShare:
		return planReadReordered, 0
	default:
		return planRead, 0
	}
}

// stepDelay is the time between step-1 (or the answer) and step.
func (o *Options) stepDelay(fate uint64, step int) time.Duration {
	s := [...]Spread{o.Sent, o.Delivered, o.Read}[step]
	return s.draw(fate, saltDelay+uint64(step))
}

package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Options configures a Node. Store, Sender and ID are required; every other
// field has a default.
type Options struct {
	Store  Store
	Sender Sender
	ID     string // names this process in leases; unique in the fleet

	Policy     Policy
	Breaker    BreakerPolicy
	MaxSenders int // per number, however slow the calls are; default 2 000

	TTL         time.Duration // how long a lease lives without a heartbeat; default 10 s
	Heartbeat   time.Duration // between heartbeats; default 2 s
	Margin      time.Duration // how long before its expiry a lease is no longer trusted; default 2 s
	CallTimeout time.Duration // of one call about leases; default 1 s
	// Quarantine is how long a new owner waits after an expired lease; default
	// DefaultQuarantine. It must cover what the kernel may still deliver for a dead owner:
	// the send sockets' TCP_USER_TIMEOUT (3 s) and 1 s.
	Quarantine   time.Duration
	Poll         time.Duration // between looks for numbers without an owner, ± 20 %; default 300 ms: three times as long as a free number may be left to others, 900 ms
	FlushTimeout time.Duration // of the last flush of a lane that ends; default 30 s
	// Reach is how long a call that has begun may still reach the platform:
	// the sender's timeout and its sockets' TCP_USER_TIMEOUT; default 15 s. A
	// probe that has not come back is given up for dead only after that.
	Reach time.Duration

	// Ping asks the platform for any word of its own over the way that messages
	// take, without sending one, and ends within a few seconds. It tells this
	// node's own trouble from others'. Without it a node finds out by messages alone.
	Ping func(context.Context) error

	Registry prometheus.Registerer // default: nowhere
	Logger   *slog.Logger          // default: nowhere
}

// DefaultQuarantine is Options.Quarantine's default, for those who judge leases
// without being a node.
const DefaultQuarantine = 4 * time.Second

func (o Options) withDefaults() Options {
	o.Policy = o.Policy.WithDefaults()
	o.Breaker = o.Breaker.WithDefaults()
	o.MaxSenders = cmp.Or(o.MaxSenders, 2000)
	o.TTL = cmp.Or(o.TTL, 10*time.Second)
	o.Heartbeat = cmp.Or(o.Heartbeat, 2*time.Second)
	o.Margin = cmp.Or(o.Margin, 2*time.Second)
	o.CallTimeout = cmp.Or(o.CallTimeout, time.Second)
	o.Quarantine = cmp.Or(o.Quarantine, DefaultQuarantine)
	o.Poll = cmp.Or(o.Poll, 300*time.Millisecond)
	o.FlushTimeout = cmp.Or(o.FlushTimeout, 30*time.Second)
	o.Reach = cmp.Or(o.Reach, 15*time.Second)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	return o
}

// validate holds the times to one another: each alone may be sensible and
// together let two nodes send at once.
func (o Options) validate() error {
	if o.Store == nil || o.Sender == nil || o.ID == "" {
		return errors.New("a node needs a store, a sender and an id")
	}
	if o.MaxSenders < 2 {
		return fmt.Errorf("max senders %d: a lane needs at least 2", o.MaxSenders)
	}
	for _, d := range []struct {
		name string
		d    time.Duration
	}{
		{"ttl", o.TTL},
		{"heartbeat", o.Heartbeat},
		{"margin", o.Margin},
		{"call timeout", o.CallTimeout},
		{"quarantine", o.Quarantine},
		{"poll", o.Poll},
		{"flush timeout", o.FlushTimeout},
		{"reach", o.Reach},
	} {
		if d.d < 0 {
			return fmt.Errorf("%s %v is negative", d.name, d.d)
		}
	}
	if need := o.Heartbeat + 2*o.CallTimeout + o.Margin; o.TTL <= need {
		return fmt.Errorf("lease ttl %v is too short: one lost heartbeat would lose the lease; "+
			"make it longer than heartbeat + 2 × call timeout + margin = %v", o.TTL, need)
	}
	return nil
}

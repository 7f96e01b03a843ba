//go:build !race

package chaos

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// fault is one way to break a fleet.
type fault struct {
	name   string
	what   string
	about  []string // the properties that it is most likely to break
	smoke  bool     // part of every test run
	nodes  int
	people int // as many as are sent while it lasts, and a while longer
	strike func(context.Context, *fleet) error

	operated bool          // an operator pauses and resumes meanwhile
	private  bool          // breaks its own Postgres
	standby  bool          // which a standby follows
	deaf     bool          // webhooks are away for longer than the window
	skewed   bool          // sets Postgres's clock
	way      time.Duration // what its links add to a request's way
}

// warm is how many requests are made before the fault: two seconds' worth.
func (f fault) warm() int64 {
	const pace = 3 * numberLimit * (1 - headroom)
	return int64(2 * pace)
}

// patience is how long a run may take, on a slow machine.
func (f fault) patience() time.Duration { return 12 * time.Minute }

var faults = []fault{
	{
		name: "kill-takeover", about: []string{"once", "late", "owned", "tended"},
		what: "kill -9 of the owner; another node takes over", smoke: true, nodes: 2, people: 700,
		strike: func(ctx context.Context, f *fleet) error { return f.kill(ctx, false) },
	},
	{
		name: "kill-restart", about: []string{"once", "late", "owned", "tended"},
		what: "kill -9 of the owner, restarted at once on the same host", nodes: 2, people: 700,
		strike: func(ctx context.Context, f *fleet) error { return f.kill(ctx, true) },
	},
	{
		name: "rolling-restart", about: []string{"clean", "paced", "owned"},
		what: "SIGTERM of every node in turn, under load", smoke: true, nodes: 3, people: 700,
		strike: rollingRestart,
	},
	{
		name: "stop-continue", about: []string{"owned", "paced", "known"},
		what: "SIGSTOP of the owner beyond TTL + quarantine, then SIGCONT", smoke: true, nodes: 2, people: 800,
		strike: stopContinue,
	},
	{
		name: "cut-postgres", about: []string{"owned", "paced", "known"},
		what: "the owner is cut from Postgres alone", smoke: true, nodes: 2, people: 800,
		strike: cutPostgres,
	},
	{
		name: "cut-api", about: []string{"once", "late", "capped"},
		what: "the owner is cut from the API alone, with bytes in flight", smoke: true, nodes: 2, people: 700,
		way:    300 * time.Millisecond,
		strike: func(ctx context.Context, f *fleet) error { return cutAPI(ctx, f, 8*time.Second) },
	},
	{
		name: "postgres-crash", about: []string{"known", "settled", "resumed", "durable"},
		what: "Postgres dies and comes back", smoke: true, nodes: 2, people: 700, private: true,
		strike: func(ctx context.Context, f *fleet) error { return f.crashPostgres(ctx, 6*time.Second, nil) },
	},
	{
		name: "cut-api-long", about: []string{"once", "late", "capped"},
		what: "the owner is cut from the API for 20 s, with bytes in flight", nodes: 2, people: 900,
		way:    300 * time.Millisecond,
		strike: func(ctx context.Context, f *fleet) error { return cutAPI(ctx, f, 20*time.Second) },
	},
	{
		name: "clogged", about: []string{"owned", "paced", "durable", "late"},
		what: "every link is cut and healed at random for 25 s", nodes: 3, people: 1100,
		strike: func(ctx context.Context, f *fleet) error { return clog(ctx, f, 25*time.Second) },
	},
	{
		name: "postgres-outage", about: []string{"known", "settled", "resumed", "durable"},
		what: "Postgres dies and is away for 20 s", nodes: 2, people: 900, private: true,
		strike: func(ctx context.Context, f *fleet) error { return f.crashPostgres(ctx, 20*time.Second, nil) },
	},
	{
		name: "postgres-outage-kill", about: []string{"known", "once", "late", "tended"},
		what: "Postgres is away for 20 s, and the owner is killed meanwhile", nodes: 2, people: 900, private: true,
		strike: outageAndKill,
	},
	{
		name: "postgres-slow", about: []string{"paced", "owned", "settled"},
		what: "every statement takes 200 to 400 ms longer", nodes: 2, people: 1000,
		strike: func(ctx context.Context, f *fleet) error { return slowPostgres(ctx, f, 20*time.Second) },
	},
	{
		name: "fail-over", about: []string{"held", "undoubled", "owned"},
		what: "Postgres fails over to a standby that has lost the last commits", nodes: 2, people: 1000, private: true, standby: true,
		strike: failOver,
	},
	{
		name: "clock-steps", about: []string{"owned", "paced", "settled"},
		what: "Postgres's clock is set a minute ahead, a minute back, and right again", nodes: 2, people: 1100, private: true, skewed: true,
		strike: stepClock,
	},
	{
		name: "import", about: []string{"conserved", "paced"},
		what: "a million people are imported while others are sent to", nodes: 2, people: 2400,
		strike: func(ctx context.Context, f *fleet) error { return f.importBeside(ctx, 1_000_000) },
	},
}

// suffix makes a fault's name mean: with an operator.
const suffix = "+operator"

// choose finds faults by name; all is each of them, alone and with an operator.
func choose(names string) (chosen []fault, err error) {
	for name := range strings.SplitSeq(names, ",") {
		before := len(chosen)
		for _, f := range faults {
			if name == "all" || name == f.name || name == "smoke" && f.smoke {
				chosen = append(chosen, f)
			}
			f.name, f.operated, f.about = f.name+suffix, true, append([]string{"silent"}, f.about...)
			if name == "all" || name == f.name {
				chosen = append(chosen, f)
			}
		}
		if len(chosen) == before {
			known := make([]string, len(faults))
			for i, f := range faults {
				known[i] = f.name
			}
			return nil, fmt.Errorf("fault %q is unknown: use smoke, all, or one of %s (each also with %s)", name, strings.Join(known, ", "), suffix)
		}
	}
	return chosen, nil
}

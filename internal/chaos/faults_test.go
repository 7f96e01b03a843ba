//go:build !race

package chaos

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
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

	private bool          // breaks its own Postgres
	deaf    bool          // webhooks are away for longer than the window
	skewed  bool          // sets Postgres's clock
	way     time.Duration // what its links add to a request's way
}

// warm is how many requests are made before the fault: two seconds' worth.
func (f fault) warm() int64 {
	const pace = 3 * numberLimit * (1 - headroom)
	return int64(2 * pace)
}

// patience is how long a run may take, on a slow machine.
func (f fault) patience() time.Duration { return 6 * time.Minute }

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
}

// choose finds faults by name.
func choose(names string) (chosen []fault, err error) {
	for name := range strings.SplitSeq(names, ",") {
		before := len(chosen)
		for _, f := range faults {
			if name == "all" || name == f.name || name == "smoke" && f.smoke {
				chosen = append(chosen, f)
			}
		}
		if len(chosen) == before {
			known := slices.Collect(func(yield func(string) bool) {
				for _, f := range faults {
					if !yield(f.name) {
						return
					}
				}
			})
			return nil, fmt.Errorf("fault %q is unknown: use smoke, all, or one of %s", name, strings.Join(known, ", "))
		}
	}
	return chosen, nil
}

// kill ends the owner without a word.
func (f *fleet) kill(ctx context.Context, restart bool) error {
	p, err := f.owner(ctx)
	if err != nil {
		return err
	}
	f.mark(MarkKill, p.node)
	p.node.destroy()
	if restart {
		return f.start(p)
	}
	return nil
}

func rollingRestart(ctx context.Context, f *fleet) error {
	for _, p := range f.places {
		over := f.mark(MarkLeave, p.node)
		if err := p.node.signal(syscall.SIGTERM); err != nil {
			return err
		}
		if err := p.node.ended(ctx); err != nil {
			return err
		}
		over()
		if p.node.err != nil {
			return fmt.Errorf("node %s was asked to end: %w", p.node.id, p.node.err)
		}
		if err := errors.Join(f.start(p), f.ready(ctx, p)); err != nil {
			return err
		}
		if err := hold(ctx, 2*time.Second); err != nil {
			return err
		}
	}
	return nil
}

// beyond is longer than any lease and its quarantine last.
const beyond = leaseTTL + quarantine + 3*time.Second

func stopContinue(ctx context.Context, f *fleet) error {
	p, err := f.owner(ctx)
	if err != nil {
		return err
	}
	over := f.mark(MarkStop, p.node)
	defer over()
	if err := p.node.signal(syscall.SIGSTOP); err != nil {
		return err
	}
	return errors.Join(hold(ctx, beyond), p.node.signal(syscall.SIGCONT))
}

func cutPostgres(ctx context.Context, f *fleet) error {
	p, err := f.owner(ctx)
	if err != nil {
		return err
	}
	over := f.mark(MarkCutDB, p.node)
	defer over()
	if err := p.db.cut(); err != nil {
		return err
	}
	return errors.Join(hold(ctx, beyond), p.db.heal(ctx))
}

// cutAPI slows the owner's way to the API first, so that requests and answers
// are on it when it is cut.
func cutAPI(ctx context.Context, f *fleet, lasts time.Duration) error {
	p, err := f.owner(ctx)
	if err != nil {
		return err
	}
	if err := errors.Join(p.api.slow("upstream", 200, 100), p.api.slow("downstream", 200, 100), hold(ctx, 2*time.Second)); err != nil {
		return err
	}
	over := f.mark(MarkCut, p.node)
	defer over()
	return errors.Join(p.api.cut(), hold(ctx, lasts), p.api.heal(ctx))
}

// crashPostgres kills the server and brings it back; meanwhile is done while
// it is away.
func (f *fleet) crashPostgres(ctx context.Context, away time.Duration, meanwhile func(context.Context) error) error {
	over := f.mark(MarkDown, nil)
	defer over()
	if err := f.server.local.Crash(ctx); err != nil {
		return err
	}
	if meanwhile != nil {
		if err := meanwhile(ctx); err != nil {
			return err
		}
	}
	return errors.Join(hold(ctx, away), f.server.restart(ctx))
}

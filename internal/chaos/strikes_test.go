//go:build !race

package chaos

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/weirhq/weir/internal/sim"
)

// kill ends the owner without a word. Webhooks are late meanwhile: what the
// platform took from the dead one must not be known before its rows are judged.
func (f *fleet) kill(ctx context.Context, restart bool) error {
	p, err := f.owner(ctx)
	if err != nil {
		return err
	}
	late, err := f.platform.Misbehave(sim.Behavior{Kind: sim.WebhookBlackout})
	if err != nil {
		return err
	}
	dead := p.node
	f.mark(MarkKill, dead)
	dead.destroy()
	if restart {
		if err := f.start(p); err != nil {
			return err
		}
	}
	if err := f.succeeded(ctx, dead); err != nil {
		return err
	}
	err = hold(ctx, 2*time.Second)
	f.platform.Behave(late)
	return err
}

// succeeded waits until others send for every number that a node had.
func (f *fleet) succeeded(ctx context.Context, dead *node) error {
	return until(ctx, "node "+dead.id+" has a successor", func() (bool, error) {
		var left int
		err := f.pool.QueryRow(ctx, "SELECT count(*) FROM number_leases WHERE holder = $1 OR ready_at > now()", dead.id).Scan(&left)
		return left == 0, err
	})
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

// clog cuts a few links at random for a while, and others after them. The
// receivers are never cut off all at once.
func clog(ctx context.Context, f *fleet, lasts time.Duration) error {
	defer f.mark(MarkClog, nil)()
	for end := f.now() + lasts; f.now() < end; {
		var mend []func() error
		deaf := false
		for range 1 + f.rng.IntN(4) {
			p := f.places[f.rng.IntN(len(f.places))]
			l, kind := p.db, MarkCutDB
			switch f.rng.IntN(3) {
			case 1:
				l, kind = p.api, MarkCut
			case 2:
				if l, kind = p.hook, MarkDeaf; deaf {
					continue
				}
				deaf = true
			}
			if len(l.in) > 0 {
				continue
			}
			over := f.mark(kind, p.node)
			if err := l.cut(); err != nil {
				return err
			}
			mend = append(mend, func() error { defer over(); return l.heal(ctx) })
		}
		err := hold(ctx, between(f.rng, 300, 4000))
		for _, heal := range mend {
			err = errors.Join(err, heal())
		}
		if err = errors.Join(err, hold(ctx, between(f.rng, 0, 1000))); err != nil {
			return err
		}
	}
	return nil
}

// importBeside imports people whom nobody is to send to yet.
func (f *fleet) importBeside(ctx context.Context, people int) error {
	defer f.mark("importing", nil)()
	if err := f.campaign(ctx, "big", people, 30_000_000); err != nil {
		return err
	}
	var there int
	err := f.pool.QueryRow(ctx, "SELECT count(*) FROM recipients WHERE campaign_id = $1 AND status = 'pending'", f.ids["big"]).Scan(&there)
	if err == nil && there != people {
		return fmt.Errorf("%d of %d people were imported", there, people)
	}
	return err
}

//go:build !race

package chaos

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

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
	if err := errors.Join(hold(ctx, away), f.server.restart(ctx)); err != nil {
		return err
	}
	return f.follow()
}

// follow leads every link to where the server came back: another program may
// have taken its port meanwhile.
func (f *fleet) follow() error {
	addr, err := f.server.addr()
	if err != nil || addr == f.own.proxy.Upstream {
		return err
	}
	return f.repoint(f.server)
}

func outageAndKill(ctx context.Context, f *fleet) error {
	p, err := f.owner(ctx)
	if err != nil {
		return err
	}
	return f.crashPostgres(ctx, 20*time.Second, func(context.Context) error {
		f.mark(MarkKill, p.node)
		p.node.destroy()
		return nil
	})
}

func slowPostgres(ctx context.Context, f *fleet, lasts time.Duration) error {
	defer f.mark("Postgres slow", nil)()
	for _, p := range f.places {
		if err := p.db.slow("downstream", 300, 100); err != nil {
			return err
		}
	}
	err := hold(ctx, lasts)
	for _, p := range f.places {
		err = errors.Join(err, p.db.heal(ctx))
	}
	return err
}

// failOver cuts the standby off, lets the fleet go on for a while, and then
// gives it the standby, which knows nothing of that while. Nothing may be sent
// until an operator has vouched for it.
func failOver(ctx context.Context, f *fleet) error {
	lost := f.mark(MarkLost, nil)
	if err := errors.Join(f.replication.cut(), hold(ctx, 3*time.Second)); err != nil {
		return err
	}
	down := f.mark(MarkDown, nil)
	if err := f.server.local.Crash(ctx); err != nil {
		return err
	}
	lost()
	if err := f.standby.local.Promote(ctx); err != nil {
		return err
	}
	if err := f.repoint(f.standby); err != nil {
		return err
	}
	down()
	held := f.mark(MarkHold, nil)
	if err := hold(ctx, 6*time.Second); err != nil {
		return err
	}
	if _, err := f.weir(ctx, "database", "confirm", "--yes"); err != nil {
		return err
	}
	held()
	return f.recall(ctx)
}

// repoint leads every link to another server.
func (f *fleet) repoint(s *server) error {
	addr, err := s.addr()
	if err != nil {
		return err
	}
	err = f.own.repoint(addr)
	for _, p := range f.places {
		err = errors.Join(err, p.db.repoint(addr))
	}
	return err
}

// recall reads what the server that was left behind had noted: the history of
// what was lost.
func (f *fleet) recall(ctx context.Context) error {
	if err := f.server.restart(ctx); err != nil {
		return err
	}
	pool, err := pgxpool.New(ctx, f.server.local.LoopbackURL(f.name))
	if err != nil {
		return fmt.Errorf("connect to the server that was left: %w", err)
	}
	defer pool.Close()
	f.past = &History{}
	return f.notes(ctx, pool, f.past)
}

// stepClock sets Postgres's clock, for ten seconds each.
func stepClock(ctx context.Context, f *fleet) error {
	defer f.mark("clock set", nil)()
	for _, to := range []string{"+60s", "-60s", "+0s"} {
		if err := os.WriteFile(f.server.clock, []byte(to+"\n"), 0o644); err != nil {
			return fmt.Errorf("set Postgres's clock: %w", err)
		}
		if err := hold(ctx, 10*time.Second); err != nil {
			return err
		}
	}
	return nil
}

// fakeClock is the environment of a server whose clock the named file sets.
func fakeClock(file string) ([]string, error) {
	found, err := filepath.Glob("/usr/lib/*/faketime/libfaketime.so.1")
	if err != nil || len(found) == 0 {
		return nil, errors.New("no libfaketime: apt-get install libfaketime")
	}
	return []string{
		"LD_PRELOAD=" + found[0], "FAKETIME_TIMESTAMP_FILE=" + file, "FAKETIME_NO_CACHE=1",
		"FAKETIME_DONT_FAKE_MONOTONIC=1", "FAKETIME_DISABLE_SHM=1",
	}, os.WriteFile(file, []byte("+0s\n"), 0o644)
}

package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/weirhq/weir/internal/store/db"
)

// Stop is a stop of everything: no campaign is claimed from, started or resumed
// until it is released. It outlives every node.
type Stop struct {
	Since      time.Time // zero: nothing is stopped
	By, Reason string
	Campaigns  int // that it paused, and that go on with its end
	Awaited    int // of which something may still go out
}

// Stands says whether everything is stopped.
func (s Stop) Stands() bool { return !s.Since.IsZero() }

// StopEverything pauses what runs and keeps everything else from running: nothing
// is claimed anywhere from its commit on, and once ConfirmControls has confirmed
// the pauses (Stop.Awaited is 0) nothing can go out. Stopping twice is stopping
// once, and the first word on who and why stands.
func (s *Store) StopEverything(ctx context.Context, who, reason string) error {
	err := again(func() error {
		return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
			if err := s.q.StopEverything(ctx, tx, &db.StopEverythingParams{Who: clean(who), Reason: clean(reason)}); err != nil {
				return err
			}
			_, err := s.q.StopRunning(ctx, tx)
			return err
		})
	})
	return wrap("stop everything", err)
}

// ReleaseEverything ends the stop of everything, and says how many campaigns go
// on by that; released is false when nothing was stopped. What its operator
// paused stays paused.
func (s *Store) ReleaseEverything(ctx context.Context, who string) (released bool, resumed int, err error) {
	var r db.ReleaseEverythingRow
	err = again(func() (err error) {
		r, err = s.q.ReleaseEverything(ctx, s.pool, clean(who))
		return err
	})
	if err != nil {
		return false, 0, fmt.Errorf("release everything: %w", err)
	}
	return r.Released > 0, int(r.Resumed), nil
}

// Stopped reads whether everything is stopped, and how far that has come.
func (s *Store) Stopped(ctx context.Context) (Stop, error) { return s.stopped(ctx, s.pool) }

func (s *Store) stopped(ctx context.Context, from db.DBTX) (Stop, error) {
	r, err := s.q.StopStands(ctx, from)
	if err != nil {
		return Stop{}, fmt.Errorf("read whether everything is stopped: %w", err)
	}
	return Stop{Since: r.StoppedAt.Time, By: r.StoppedBy, Reason: r.Reason, Campaigns: int(r.Campaigns), Awaited: int(r.Awaited)}, nil
}

// refused is what a stop of everything says to whoever wants something to run.
func (s Stop) refused() error {
	return refuse(ErrRefused, "everything is stopped since %s by %s%s: weir go lets campaigns run again",
		s.Since.UTC().Format(time.RFC3339), s.By, parenthesis(s.Reason))
}

func parenthesis(text string) string {
	if text == "" {
		return ""
	}
	return " (" + text + ")"
}

// holdStops keeps a stop of everything out until tx ends, or answers ErrRefused
// under one that stands. Whoever holds a campaign's row must not call it.
func (s *Store) holdStops(ctx context.Context, tx pgx.Tx) error {
	free, err := s.q.HoldStops(ctx, tx)
	if err != nil || free {
		return err
	}
	stop, err := s.stopped(ctx, tx)
	if err != nil {
		return err
	}
	return stop.refused()
}

package store

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/weirhq/weir/engine"
	"github.com/weirhq/weir/internal/store/db"
)

// PauseCampaign is [Store.PauseCampaignUntil] an operator resumes it.
func (s *Store) PauseCampaign(ctx context.Context, id int64) error {
	return s.PauseCampaignUntil(ctx, id, time.Time{})
}

// PauseCampaignUntil asks for a pause: nothing is claimed from its commit on, and
// it is paused once ConfirmControls finds that nothing can go out any more. It goes
// on with ResumeCampaign, or with ResumeDue once until has come; the zero time
// never comes. Pausing twice is pausing once, until what was said last. It answers
// ErrNotFound, or ErrRefused for a campaign that neither runs nor is scheduled, and
// for one that stopped by itself when it is to go on so.
func (s *Store) PauseCampaignUntil(ctx context.Context, id int64, until time.Time) error {
	until = until.Truncate(time.Microsecond) // as Postgres keeps it
	n, err := s.q.PauseCampaign(ctx, s.pool, &db.PauseCampaignParams{Campaign: id, Until: instant(until)})
	if err != nil {
		return fmt.Errorf("pause campaign: %w", err)
	}
	if n > 0 {
		return nil
	}
	c, err := s.FindCampaign(ctx, strconv.FormatInt(id, 10))
	switch {
	case err != nil:
		return err
	case c.State != Pausing && c.State != Paused:
		return refuse(ErrRefused, "campaign %q cannot be paused: it is %s, and only a running or scheduled one can", c.Name, c.State)
	case !c.ResumeAt.Equal(until) && !until.IsZero():
		return refuse(ErrRefused, "campaign %q is %s (%s), and does not go on by itself: resume it once that is mended", c.Name, c.State, c.Reason)
	}
	return nil
}

// ResumeDue goes on with the campaigns whose pause was until a time that has come,
// and lists them. It changes nothing twice, and nothing that an operator has
// moved meanwhile.
func (s *Store) ResumeDue(ctx context.Context) ([]int64, error) {
	due, err := s.q.ResumesDue(ctx, s.pool)
	if err != nil {
		return nil, fmt.Errorf("look for pauses that are over: %w", err)
	}
	var resumed []int64
	for _, id := range due {
		p := &db.StartCampaignParams{ID: id, Due: true, States: []string{string(Pausing), string(Paused)}}
		rows, err := s.q.StartCampaign(ctx, s.pool, p)
		if err != nil {
			return resumed, fmt.Errorf("resume campaign %d: %w", id, err)
		}
		if len(rows) > 0 {
			resumed = append(resumed, id)
		}
	}
	return resumed, nil
}

// CancelCampaign ends a campaign for good: nothing is claimed from its commit on;
// once ConfirmControls finds that nothing can go out any more, FinishCampaign
// cancels what waits, and the campaign when every row is settled. A draft, a
// scheduled and a paused one need no confirmation. Canceling twice is canceling
// once. It answers ErrNotFound, or ErrRefused for an import that has not ended
// and for a finished campaign.
func (s *Store) CancelCampaign(ctx context.Context, id int64) error {
	n, err := s.q.CancelCampaign(ctx, s.pool, id)
	if err != nil {
		return fmt.Errorf("cancel campaign: %w", err)
	}
	if n > 0 {
		return nil
	}
	c, err := s.FindCampaign(ctx, strconv.FormatInt(id, 10))
	switch {
	case err != nil || c.State == Canceling || c.State == Canceled:
		return err
	case c.State == Importing:
		return refuse(ErrRefused, "campaign %q cannot be canceled: its import has not finished; drop it", c.Name)
	default:
		return refuse(ErrRefused, "campaign %q cannot be canceled: it is %s, nothing of it is left to send", c.Name, c.State)
	}
}

// Acknowledge writes that a lease sends nothing more under one version of a
// control, and confirms what all have acknowledged. The confirmation is a
// statement after the commit, not in it: of two lanes that acknowledge at the
// same time neither would see the other, and the pause would wait for a tender.
func (s *Store) Acknowledge(ctx context.Context, a engine.Ack) error {
	err := again(func() error {
		_, err := s.q.AcknowledgeControl(ctx, s.pool, &db.AcknowledgeControlParams{
			Number: a.Lease.Number, Lease: a.Lease.ID, Campaign: a.Campaign, Version: a.Version,
		})
		return err
	})
	if err != nil {
		return fmt.Errorf("acknowledge control: %w", err)
	}
	_, _, err = s.ConfirmControls(ctx, a.Quarantine)
	return err
}

// Confirmed is a pause or a cancel after which nothing can go out any more.
type Confirmed struct {
	Campaign int64
	State    CampaignState // Paused or Canceling
	Took     time.Duration // since it was asked for
}

// Awaited is a number whose lane may still send for a campaign that is Pausing
// or Canceling.
type Awaited struct {
	Campaign int64
	Number   string
	Holder   string // node id of its lease
}

// ConfirmControls confirms every pause and cancel that can be broken no more,
// and says who is awaited for the others. quarantine is how long after a lease's
// expiry its holder's last bytes may still arrive. It is cheap, changes nothing
// twice, and may be called by anyone at any time.
func (s *Store) ConfirmControls(ctx context.Context, quarantine time.Duration) ([]Confirmed, []Awaited, error) {
	var rows []db.ConfirmControlsRow
	err := again(func() (err error) {
		rows, err = s.q.ConfirmControls(ctx, s.pool, quarantine.Seconds())
		return err
	})
	if err != nil {
		return nil, nil, fmt.Errorf("confirm pauses and cancels: %w", err)
	}
	var done []Confirmed
	var open []Awaited
	for _, r := range rows {
		if r.NumberID == "" {
			done = append(done, Confirmed{Campaign: r.CampaignID, State: CampaignState(r.State), Took: duration(r.Seconds)})
		} else {
			open = append(open, Awaited{Campaign: r.CampaignID, Number: r.NumberID, Holder: r.Holder})
		}
	}
	return done, open, nil
}

// ControlTimes is how long the pauses and cancels of running campaigns took so
// far, by Postgres's clock: a histogram.
type ControlTimes struct {
	Count   uint64
	Seconds float64            // of all of them
	AtMost  map[float64]uint64 // by bound, in seconds
}

// ControlTimes reads how many took at most each of some bounds, in seconds.
func (s *Store) ControlTimes(ctx context.Context, bounds []float64) (ControlTimes, error) {
	rows, err := s.q.ControlTimes(ctx, s.pool, append(bounds[:len(bounds):len(bounds)], math.Inf(1)))
	if err != nil {
		return ControlTimes{}, fmt.Errorf("read how long pauses took: %w", err)
	}
	times := ControlTimes{AtMost: make(map[float64]uint64, len(bounds))}
	for _, r := range rows {
		if math.IsInf(r.Most, 1) {
			times.Count, times.Seconds = uint64(r.N), r.TotalSeconds
		} else {
			times.AtMost[r.Most] = uint64(r.N)
		}
	}
	return times, nil
}

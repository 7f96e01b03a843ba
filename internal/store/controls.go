package store

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/weirhq/weir/engine"
	"github.com/weirhq/weir/internal/store/db"
)

// PauseCampaign asks for a pause: nothing is claimed from its commit on, and it
// is paused once ConfirmControls finds that nothing can go out any more.
// ResumeCampaign goes on with it. Pausing twice is pausing once. It answers
// ErrNotFound, or ErrRefused for a campaign that neither runs nor is scheduled.
func (s *Store) PauseCampaign(ctx context.Context, id int64) error {
	n, err := s.q.PauseCampaign(ctx, s.pool, id)
	if err != nil {
		return fmt.Errorf("pause campaign: %w", err)
	}
	if n > 0 {
		return nil
	}
	c, err := s.FindCampaign(ctx, strconv.FormatInt(id, 10))
	if err != nil || c.State == Pausing || c.State == Paused {
		return err
	}
	return refuse(ErrRefused, "campaign %q cannot be paused: it is %s, and only a running or scheduled one can", c.Name, c.State)
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

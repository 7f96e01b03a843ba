package store

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/weirhq/weir/internal/store/db"
)

// Started is what became of a start.
type Started struct {
	Was     CampaignState // before; Running: it had been started already
	State   CampaignState // Running or Scheduled
	StartAt time.Time     // Scheduled: when it will run
}

// StartCampaign starts a draft. When its start time is still to come it is
// scheduled, unless atOnce overrides the time. Starting twice is starting once,
// and what was paused only ResumeCampaign takes up: a start that is given again
// must not undo a pause. It answers ErrNotFound, or ErrRefused with the reason
// and the next step.
func (s *Store) StartCampaign(ctx context.Context, id int64, atOnce bool) (Started, error) {
	return s.launch(ctx, &db.StartCampaignParams{ID: id, AtOnce: atOnce, States: []string{string(Draft), string(Scheduled)}})
}

// ResumeCampaign goes on with a campaign that is paused or being paused; one
// that was paused before its time is scheduled again. Resuming twice is resuming
// once. It answers ErrNotFound, or ErrRefused with the reason and the next step.
func (s *Store) ResumeCampaign(ctx context.Context, id int64) (Started, error) {
	return s.launch(ctx, &db.StartCampaignParams{ID: id, States: []string{string(Pausing), string(Paused)}})
}

func (s *Store) launch(ctx context.Context, p *db.StartCampaignParams) (Started, error) {
	rows, err := s.q.StartCampaign(ctx, s.pool, p)
	if err != nil {
		return Started{}, fmt.Errorf("start campaign: %w", err)
	}
	if len(rows) > 0 {
		r := rows[0]
		return Started{Was: CampaignState(r.Was), State: CampaignState(r.State), StartAt: r.StartAt.Time}, nil
	}
	c, err := s.FindCampaign(ctx, strconv.FormatInt(p.ID, 10))
	switch {
	case err != nil:
		return Started{}, err
	case c.State == Running:
		return Started{Was: Running, State: Running, StartAt: c.StartAt}, nil
	case !slices.Contains(p.States, string(c.State)):
		return Started{}, c.refuseState()
	}
	stop, err := s.Stopped(ctx)
	switch {
	case err != nil:
		return Started{}, err
	case stop.Stands():
		return Started{}, stop.refused()
	case c.Import.Accepted == 0:
		return Started{}, refuse(ErrRefused, "campaign %q cannot start: it has no recipients, every row of its file was rejected; "+
			"mend the file (the rejects say how), drop the campaign and create it anew", c.Name)
	default:
		return Started{}, refuse(ErrRefused, "campaign %q cannot start: it expires at %s, before it could send; create one with a later time",
			c.Name, c.ExpireAt.Format(time.RFC3339))
	}
}

// refuseState says why a campaign in its state cannot be started, or resumed.
func (c Campaign) refuseState() error {
	switch c.State {
	case Importing:
		if c.Reason != "" {
			return refuse(ErrRefused, "campaign %q cannot start: it is %s; drop it again", c.Name, c.Reason)
		}
		return refuse(ErrRefused, "campaign %q cannot start: its import has not finished (%d rows read so far); "+
			"import the same file again to go on where it stopped, or drop the campaign", c.Name, c.Import.Read)
	case Draft, Scheduled:
		return refuse(ErrRefused, "campaign %q cannot be resumed: it is %s, nobody has paused it; start it", c.Name, c.State)
	case Pausing, Paused:
		return refuse(ErrRefused, "campaign %q cannot be started again: it is %s (%s); resume it to go on", c.Name, c.State, c.Reason)
	default:
		return refuse(ErrRefused, "campaign %q cannot go on: it is %s; create another for more recipients", c.Name, c.State)
	}
}

// MarkScheduledStart runs a scheduled campaign whose start time has come, and
// reports whether it did. wait is how long there is still to wait, 0 when
// there is nothing to wait for.
func (s *Store) MarkScheduledStart(ctx context.Context, id int64) (started bool, wait time.Duration, err error) {
	r, err := s.q.MarkScheduledStart(ctx, s.pool, id)
	if err != nil {
		return false, 0, fmt.Errorf("mark scheduled start: %w", err)
	}
	return r.Started, duration(r.WaitSeconds), nil
}

// DropCampaign removes a campaign that has not been started, and all that was
// imported for it. A drop that is cut short can be repeated, and leaves
// nothing that could start. It answers ErrNotFound, ErrRefused, or ErrBusy
// while an import of it runs.
func (s *Store) DropCampaign(ctx context.Context, id int64) error {
	conn, err := s.importConn(ctx, id)
	if err != nil {
		return err
	}
	defer closeConn(conn)
	condemned, err := s.q.CondemnCampaign(ctx, conn, id)
	if err != nil {
		return fmt.Errorf("condemn campaign: %w", err)
	}
	if condemned == 0 {
		return s.whyNotDropped(ctx, id)
	}
	ranges, err := s.q.CampaignRanges(ctx, conn, id)
	if err != nil {
		return fmt.Errorf("read campaign's ranges: %w", err)
	}
	const step = 50_000 // ids a transaction: short enough that vacuum and others go on
	for _, r := range ranges {
		for lo := r.Lo; lo <= r.Hi; lo += step {
			piece := &db.DropRecipientsParams{Campaign: id, Lo: lo, Hi: min(lo+step-1, r.Hi)}
			if err := s.q.DropRecipients(ctx, conn, piece); err != nil {
				return fmt.Errorf("drop recipients: %w", err)
			}
		}
	}
	gone, err := s.q.DropCampaign(ctx, conn, id)
	if err != nil {
		return fmt.Errorf("drop campaign: %w", err)
	}
	if gone == 0 {
		return errOvertaken(id)
	}
	return nil
}

func (s *Store) whyNotDropped(ctx context.Context, id int64) error {
	c, err := s.FindCampaign(ctx, strconv.FormatInt(id, 10))
	if err != nil {
		return err
	}
	return refuse(ErrRefused, "campaign %q cannot be dropped: it is %s, and what was sent must stay provable; pause it if it should stop", c.Name, c.State)
}

package store

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/weirhq/weir/engine"
	"github.com/weirhq/weir/internal/store/db"
)

// RunningCounts are the recipients of each running campaign, by its name and
// their status: display only.
func (s *Store) RunningCounts(ctx context.Context) (map[string]map[engine.Status]int64, error) {
	rows, err := s.q.RunningCounts(ctx, s.pool)
	if err != nil {
		return nil, fmt.Errorf("count recipients: %w", err)
	}
	counts := map[string]map[engine.Status]int64{}
	for _, r := range rows {
		status, err := engine.ParseStatus(r.Status)
		if err != nil {
			return nil, err
		}
		if counts[r.Name] == nil {
			counts[r.Name] = map[engine.Status]int64{}
		}
		counts[r.Name][status] = r.N
	}
	return counts, nil
}

// NumberWork is whether a number has somebody to send to, and somebody who does.
type NumberWork struct {
	ID      string
	Owned   bool // by a living node
	Waiting bool // somebody is due whom it could send to, if it were owned and its breakers closed
}

// NumberWork tells it of every number, by id: display only.
func (s *Store) NumberWork(ctx context.Context) ([]NumberWork, error) {
	rows, err := s.q.NumberWork(ctx, s.pool)
	if err != nil {
		return nil, fmt.Errorf("look for numbers' work: %w", err)
	}
	all := make([]NumberWork, len(rows))
	for i, r := range rows {
		all[i] = NumberWork(r)
	}
	return all, nil
}

// Senders are a campaign's numbers and what holds each back, primaries first,
// as of the database's time that it returns with them: display only.
func (s *Store) Senders(ctx context.Context, campaign int64) (senders []Sender, at time.Time, err error) {
	moment, err := s.q.PersonMoment(ctx, s.pool)
	if err != nil {
		return nil, at, fmt.Errorf("read the database's time: %w", err)
	}
	rows, err := s.q.PersonSenders(ctx, s.pool, []int64{campaign})
	if err != nil {
		return nil, at, fmt.Errorf("read numbers: %w", err)
	}
	for _, r := range rows {
		senders = append(senders, sender(r))
	}
	return senders, moment.Now.Time, nil
}

// StuckSending is how many recipients lie in claim batches older than a
// minute, far longer than any call may take: it should be 0.
func (s *Store) StuckSending(ctx context.Context) (int64, error) {
	n, err := s.q.StuckSending(ctx, s.pool)
	if err != nil {
		return 0, fmt.Errorf("count stuck recipients: %w", err)
	}
	return n, nil
}

// SampleValues are the template values of the recipient on a line of the
// campaign's file; line 0 is the first recipient. It answers ErrNotFound.
func (s *Store) SampleValues(ctx context.Context, campaign, line int64) ([]string, error) {
	rows, err := s.q.SampleValues(ctx, s.pool, &db.SampleValuesParams{Campaign: campaign, Line: line})
	if err != nil {
		return nil, fmt.Errorf("read a recipient's values: %w", err)
	}
	if len(rows) == 0 {
		return nil, refuse(ErrNotFound, "no recipient came from line %d of the campaign's file: rejected and duplicate rows have none", line)
	}
	return rows[0].Params, nil
}

// SetStart moves a campaign's start time, as long as it does not run. It
// answers ErrRefused when it does, or is over.
func (s *Store) SetStart(ctx context.Context, campaign int64, at time.Time) error {
	n, err := s.q.SetStart(ctx, s.pool, &db.SetStartParams{Campaign: campaign, StartAt: pgtype.Timestamptz{Time: at, Valid: true}})
	if err != nil {
		return fmt.Errorf("set start: %w", err)
	}
	if n > 0 {
		return nil
	}
	c, err := s.FindCampaign(ctx, strconv.FormatInt(campaign, 10))
	switch {
	case err != nil:
		return err
	case c.State == Pausing || c.State == Paused:
		return c.refuseState()
	default:
		return refuse(ErrRefused, "the start of a campaign that runs or is over cannot be moved")
	}
}

// DisableNumber stops a number until EnableNumber, for a reason that its
// operator will read. It answers ErrNotFound.
func (s *Store) DisableNumber(ctx context.Context, id, reason string) error {
	n, err := s.q.DisableNumber(ctx, s.pool, &db.DisableNumberParams{Number: id, Reason: reason})
	if err != nil {
		return fmt.Errorf("disable number: %w", err)
	}
	if n == 0 {
		return noNumber(id)
	}
	return nil
}

package store

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/weirhq/weir/internal/store/db"
)

// MayFinish is a cheap look whether FinishCampaign might have something to do:
// nothing of the campaign is pending, sending or unknown, or what is pending
// will not be sent any more; and the database is the one that an operator
// vouches for.
func (s *Store) MayFinish(ctx context.Context, id int64) (bool, error) {
	look, err := s.q.CampaignBusy(ctx, s.pool, id)
	if err != nil {
		return false, fmt.Errorf("look for unsettled recipients: %w", err)
	}
	return look.Vouched && (look.Waiting && look.Ends || !look.Waiting && !look.Called), nil
}

// FinishCampaign finishes a running campaign when no row of it is pending,
// sending or unknown, and reports whether it did. Of one whose time is over,
// running or paused, it expires what is pending first, up to the whole audience
// a call; of one whose cancel is confirmed it cancels that, and in the end the
// campaign. A look that finds it busy is cheap; the deciding one reads every row
// and mends the counts on display, under the lock of the campaign's row, which
// only other steps of its life wait for: one or two seconds per million recipients.
// Nothing is expired or finished on a database that nobody vouches for (Identity).
func (s *Store) FinishCampaign(ctx context.Context, id int64) (bool, error) {
	look, err := s.q.CampaignBusy(ctx, s.pool, id)
	if err == nil && look.Vouched && look.Waiting && look.Ends {
		if err := s.endRecipients(ctx, id); err != nil {
			return false, fmt.Errorf("expire or cancel recipients: %w", err)
		}
		look, err = s.q.CampaignBusy(ctx, s.pool, id)
	}
	if err != nil {
		return false, fmt.Errorf("look for unsettled recipients: %w", err)
	}
	if look.Waiting || look.Called || !look.Vouched {
		return false, nil
	}
	finished := false
	err = s.patiently(ctx, pgx.TxOptions{}, func(tx pgx.Tx) error {
		finished, err = s.finish(ctx, tx, id)
		return err
	})
	if err != nil {
		return false, fmt.Errorf("finish campaign: %w", err)
	}
	return finished, nil
}

// finish locks, then looks: a replay takes the same lock, so neither can miss
// the other's rows.
func (s *Store) finish(ctx context.Context, tx pgx.Tx, id int64) (bool, error) {
	locked, err := s.q.LockCampaign(ctx, tx, id)
	if err != nil || !mayFinish(locked) {
		return false, err
	}
	unsettled, err := s.q.RecountCampaign(ctx, tx, id)
	if err != nil || unsettled > 0 {
		return false, err
	}
	n, err := s.q.FinishCampaign(ctx, tx, id)
	return n == 1, err
}

// mayFinish: a campaign that ends can never go on, a paused one neither.
func mayFinish(locked []db.LockCampaignRow) bool {
	if len(locked) == 0 {
		return false
	}
	return CampaignState(locked[0].State) == Running || locked[0].Ends
}

// endRecipients takes what waits off a campaign that ends, piece by piece, each
// under the campaign's lock, so that others of its steps get in between.
func (s *Store) endRecipients(ctx context.Context, id int64) error {
	ranges, err := s.q.CampaignRanges(ctx, s.pool, id)
	if err != nil {
		return err
	}
	const step = 10_000 // ids a transaction
	for _, r := range ranges {
		for lo := r.Lo; lo <= r.Hi; lo += step {
			piece := &db.EndRecipientsParams{Campaign: id, Lo: lo, Hi: min(lo+step-1, r.Hi)}
			if err := again(func() error { return s.endPiece(ctx, piece) }); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *Store) endPiece(ctx context.Context, piece *db.EndRecipientsParams) error {
	return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		if _, err := s.q.LockCampaign(ctx, tx, piece.Campaign); err != nil {
			return err
		}
		return s.q.EndRecipients(ctx, tx, piece)
	})
}

// patiently runs f in a transaction without the pool's limit on a statement's
// time: some questions read every row of a campaign.
func (s *Store) patiently(ctx context.Context, opts pgx.TxOptions, f func(pgx.Tx) error) error {
	return pgx.BeginTxFunc(ctx, s.pool, opts, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SET LOCAL statement_timeout = 0"); err != nil {
			return err
		}
		return f(tx)
	})
}

package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/weirhq/weir/engine"
	"github.com/weirhq/weir/internal/store/db"
)

// retryPages is how many pages one RetryUnmatched tries: an account that
// another application floods must not make it endless.
const retryPages = 100

// RetryUnmatched looks once more for the recipients of statuses that found
// none, as far as they are due for it (8 tries in 7 days, most of them early),
// at most 100 pages (of 500 when page is 0), and says how many found theirs. A
// page that fails is put off like the others: what is wrong with it is told,
// and the rest is tried. It changes nothing twice.
func (s *Store) RetryUnmatched(ctx context.Context, page int) (placed int, err error) {
	if page <= 0 {
		page = 500
	}
	var errs []error
	for range retryPages {
		rows, err := s.q.TakeUnmatched(ctx, s.pool, int32(page))
		if err != nil {
			return placed, errors.Join(append(errs, fmt.Errorf("take unmatched statuses: %w", err))...)
		}
		n, err := s.retryPage(ctx, rows)
		placed += n
		if err != nil {
			errs = append(errs, fmt.Errorf("retry unmatched statuses: %w", err))
		}
		if len(rows) < page {
			break
		}
	}
	return placed, errors.Join(errs...)
}

func (s *Store) retryPage(ctx context.Context, rows []db.TakeUnmatchedRow) (placed int, err error) {
	var ids, unreadable []int64
	var updates []engine.StatusUpdate
	for _, r := range rows {
		if update, err := readLost(r.Body); err != nil {
			unreadable = append(unreadable, r.ID)
		} else {
			ids, updates = append(ids, r.ID), append(updates, update)
		}
	}
	if len(unreadable) > 0 {
		if err := s.q.GiveUpUnmatched(ctx, s.pool, unreadable); err != nil {
			return 0, err
		}
	}
	got, err := s.apply(ctx, updates)
	if err == nil {
		err = s.heed(ctx, updates, got)
	}
	if err != nil {
		return 0, err
	}
	still := make(map[int]bool, len(got.lost))
	for _, i := range got.lost {
		still[i] = true
	}
	var done []int64
	for i, id := range ids {
		if !still[i] {
			done = append(done, id)
		}
	}
	if len(done) == 0 {
		return 0, nil
	}
	return len(done), s.q.ForgetUnmatched(ctx, s.pool, done)
}

func readLost(body []byte) (engine.StatusUpdate, error) {
	var lost lostStatus
	if err := json.Unmarshal(body, &lost); err != nil {
		return engine.StatusUpdate{}, err
	}
	return lost.update()
}

// DropEvents deletes the webhook events whose time is over: inbound messages
// and account events after 30 days, statuses that never found their recipient
// after 7.
func (s *Store) DropEvents(ctx context.Context) error {
	const piece = 10_000
	for {
		n, err := s.q.DropEvents(ctx, s.pool, piece)
		if err != nil {
			return fmt.Errorf("drop old webhook events: %w", err)
		}
		if n < piece {
			return nil
		}
	}
}

package store

import (
	"context"
	"fmt"

	"github.com/weirhq/weir/engine"
)

// FoldCounts replaces the log of counts by its sums. Run it every minute or
// so; counts are right at any time, folding only keeps reading them cheap.
func (s *Store) FoldCounts(ctx context.Context) error {
	err := again(func() error {
		_, err := s.q.FoldCounts(ctx, s.pool)
		return err
	})
	return wrap("fold counts", err)
}

// Counts is a campaign's recipients by status, as of the last commit. A status
// that no recipient has is not in the map. For display: nothing may decide by it.
func (s *Store) Counts(ctx context.Context, campaign int64) (map[engine.Status]int, error) {
	rows, err := s.q.Counts(ctx, s.pool, campaign)
	if err != nil {
		return nil, fmt.Errorf("read counts: %w", err)
	}
	counts := make(map[engine.Status]int, len(rows))
	for _, r := range rows {
		status, err := engine.ParseStatus(r.Status)
		if err != nil {
			return nil, err
		}
		if r.N != 0 {
			counts[status] = int(r.N)
		}
	}
	return counts, nil
}

package store

import (
	"context"
	"fmt"
	"time"
)

// FallbackWait is how long a campaign's fallback numbers leave it to its
// primaries, unless it says otherwise.
const FallbackWait = time.Minute

// Fallback is when a campaign's fallback numbers send. They claim what waits,
// and nothing else: whoever was sent to by another number stays that number's.
type Fallback struct {
	// Wait is how long no primary number must have been able to send before
	// they stand in: stopped, paused, or its breaker not closed. From 1 s to
	// 24 h; 0 = FallbackWait. One that is able again ends it.
	Wait time.Duration
	// After lets them try, primaries or not, whom so many attempts did not
	// reach; less than MaxAttempts, 0: nobody.
	After int
}

// checkNumbers judges a campaign's numbers and when its fallback numbers send.
func (c CampaignSpec) checkNumbers() error {
	primaries, seen := 0, map[string]bool{}
	for _, n := range c.Numbers {
		if seen[n.ID] {
			return refuse(ErrRefused, "number %s is named twice: name each number once, as a primary or as a fallback", n.ID)
		}
		seen[n.ID] = true
		if !n.Fallback {
			primaries++
		}
	}
	switch {
	case primaries == 0:
		return refuse(ErrRefused, "a campaign needs a primary number besides its fallback numbers")
	case c.Fallback.Wait < time.Second || c.Fallback.Wait > 24*time.Hour:
		return refuse(ErrRefused, "fallback numbers must wait from 1s to 24h for the primaries: 60s is usual")
	case c.Fallback.After < 0:
		return refuse(ErrRefused, "fallback numbers can try whom 1 attempt or more did not reach, not %d", c.Fallback.After)
	case c.Fallback.After >= c.MaxAttempts:
		return refuse(ErrRefused, "whom %d attempts did not reach is given up (max attempts %d): let fallback numbers try sooner, or allow more attempts", c.Fallback.After, c.MaxAttempts)
	case c.Fallback.After > 0 && primaries == len(c.Numbers):
		return refuse(ErrRefused, "the campaign has no fallback number that could try after %d attempts", c.Fallback.After)
	}
	return nil
}

// FallbackChange says that a campaign's fallback numbers began to stand in for its
// primaries, or stepped back.
type FallbackChange struct {
	Campaign int64
	Name     string
	Began    bool
}

// TellFallbacks writes a notice of every campaign whose fallback numbers have
// begun to stand in or have stepped back since it was last asked, and returns
// those. Of several askers one is given a change. Claims do not depend on it.
func (s *Store) TellFallbacks(ctx context.Context) ([]FallbackChange, error) {
	var changes []FallbackChange
	err := again(func() error {
		rows, err := s.q.TellFallbacks(ctx, s.pool)
		changes = make([]FallbackChange, len(rows))
		for i, r := range rows {
			changes[i] = FallbackChange{Campaign: r.ID, Name: r.Name, Began: r.Begins}
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("tell of fallback numbers: %w", err)
	}
	return changes, nil
}

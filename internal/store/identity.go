package store

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/weirhq/weir/internal/store/db"
)

// Identity is which database answers, and which one an operator vouches for.
// On another one (a standby that was promoted, a backup that was restored)
// commits may be missing: nothing is claimed there, no campaign is expired or
// finished and no unknown recipient is decided, until an operator vouches for
// it. What webhooks say is recorded.
type Identity struct {
	Cluster     Cluster   // that answers
	Vouched     Cluster   // the operator's
	ConfirmedAt time.Time // when

	Campaigns int64         // that are scheduled, running, pausing or paused
	Waiting   int64         // recipients of those, still to be sent to
	Ambiguous int64         // recipients of all campaigns in sending or unknown
	Heard     time.Duration // since the last webhook; negative: there was none
}

// Confirmed says whether the database that answers is the operator's.
func (i Identity) Confirmed() bool { return i.Cluster == i.Vouched }

// Cluster names one history of commits: Postgres's system identifier, which is
// made with a cluster, and its timeline, which is new after every promotion and
// every recovery to a point in time.
type Cluster string

// System is the system identifier.
func (c Cluster) System() string {
	system, _, _ := strings.Cut(string(c), ".")
	return system
}

// Timeline is the timeline, as eight hexadecimal digits.
func (c Cluster) Timeline() string {
	_, timeline, _ := strings.Cut(string(c), ".")
	return timeline
}

// Identity reads which database this is and what waits in it.
func (s *Store) Identity(ctx context.Context) (Identity, error) {
	r, err := s.q.Identity(ctx, s.pool)
	if err != nil {
		return Identity{}, fmt.Errorf("read the database's identity: %w", err)
	}
	return Identity{
		Cluster: Cluster(r.Cluster), Vouched: Cluster(r.Vouched), ConfirmedAt: r.ConfirmedAt.Time,
		Campaigns: r.Campaigns, Waiting: r.Waiting, Ambiguous: r.Ambiguous, Heard: duration(r.HeardSeconds),
	}, nil
}

// Confirmed is [Identity.Confirmed], asked as often as one likes.
func (s *Store) Confirmed(ctx context.Context) (bool, error) {
	vouched, err := s.q.Vouched(ctx, s.pool)
	return vouched, wrap("read whether the database is confirmed", err)
}

// Confirm vouches for a database as an operator, who, has seen it. It answers
// ErrRefused when another one answers by now.
func (s *Store) Confirm(ctx context.Context, seen Cluster, who string) error {
	n, err := s.q.VouchFor(ctx, s.pool, &db.VouchForParams{Cluster: string(seen), Who: clean(who)})
	if err != nil {
		return fmt.Errorf("confirm the database: %w", err)
	}
	if n == 0 {
		return refuse(ErrRefused, "the database has changed again meanwhile: weir database status shows what it is now")
	}
	return nil
}

package store

import (
	"context"
	"fmt"
	"time"

	"github.com/weirhq/weir/internal/store/db"
)

// receiverGap is the longest silence of a webhook receiver that does not start
// its time anew. Longer than a restart; receivers report every few seconds.
const receiverGap = time.Minute

// Resolved counts what ResolveUnknowns did.
type Resolved struct {
	Dead    int // given up: unknown_outcome
	Resent  int // pending again, by a campaign that resends
	Held    int // past their window and waiting for an operator
	Orphans int // entries dropped whose recipient had moved on
}

// ResolveUnknowns applies the campaigns' policies to the recipients whose
// outcome has been unknown for a window of healthy webhook time (a status of a
// later message of the number has arrived; without later messages, a receiver
// up for two windows). A webhook that comes later still counts.
func (s *Store) ResolveUnknowns(ctx context.Context, window time.Duration) (Resolved, error) {
	var total Resolved
	for {
		var row db.ResolveUnknownsRow
		err := again(func() (err error) {
			row, err = s.q.ResolveUnknowns(ctx, s.pool, &db.ResolveUnknownsParams{
				WindowSeconds: window.Seconds(), GapSeconds: receiverGap.Seconds(),
			})
			return err
		})
		if err != nil {
			return total, fmt.Errorf("resolve unknowns: %w", err)
		}
		total.Dead += int(row.Dead)
		total.Resent += int(row.Resent)
		total.Orphans += int(row.Orphans)
		if row.Dead+row.Resent == 0 {
			break
		}
	}
	held, err := s.q.HeldUnknowns(ctx, s.pool, window.Seconds())
	total.Held = int(held)
	return total, wrap("count held unknowns", err)
}

// ReceiverSeen says that this node's webhook receiver is up, and whether it has
// heard a signed webhook since the last time. Call it every few seconds.
func (s *Store) ReceiverSeen(ctx context.Context, node string, heard bool) error {
	err := s.q.SeeReceiver(ctx, s.pool, &db.SeeReceiverParams{Node: node, Heard: heard, GapSeconds: receiverGap.Seconds()})
	return wrap("report receiver", err)
}

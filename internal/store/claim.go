package store

import (
	"context"
	"fmt"

	"github.com/weirhq/weir/engine"
	"github.com/weirhq/weir/internal/store/db"
)

// What a claim notes of those it settles without a message: the words of an
// attempt, in exports and counts too.
const (
	ReasonOptedOut = "opted_out"       // on an operator's list, or by Meta's word
	ReasonSaidStop = "said_stop"       // by their own, in a message to us
	ReasonAbsent   = "not_on_whatsapp" // when a message to them last failed (131026)
	ReasonCap      = "frequency_cap"   // enough marketing of any campaign lately
)

// Claim takes at most ask.Free due recipients, never more than 500. Whom it
// finds opted out, not on WhatsApp or over the campaign's cap it settles, with
// the reason, and returns as Suppressed; whom it finds to be left
// in peace for a while it puts off and returns as Waiting. Nothing comes back
// when a gate is closed; which one, the statement does not say.
func (s *Store) Claim(ctx context.Context, ask engine.Ask) ([]engine.Recipient, error) {
	p := claimParams(ask)
	var rows []db.ClaimRecipientsRow
	err := again(func() (err error) {
		if !ask.Capped {
			rows, err = s.q.ClaimRecipients(ctx, s.pool, p)
			return err
		}
		tx := &pipeline{pool: s.pool}
		if err := s.q.LockCaps(ctx, tx); err != nil {
			return err
		}
		rows, err = s.q.ClaimRecipients(ctx, tx, p)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("claim recipients: %w", err)
	}
	taken := make([]engine.Recipient, len(rows))
	for i, r := range rows {
		taken[i] = engine.Recipient{
			ID: r.ID, Campaign: r.CampaignID, Claim: r.Claim, Attempt: int(r.Attempt), Due: r.DueAt.Time,
			Code: int(r.Code), Phone: r.Phone, Values: r.Params,
			Suppressed: r.Status == engine.Suppressed.String(), Waiting: r.Status == engine.Pending.String(),
		}
	}
	return taken, nil
}

func claimParams(ask engine.Ask) *db.ClaimRecipientsParams {
	p := &db.ClaimRecipientsParams{
		Number: ask.Lease.Number, Lease: ask.Lease.ID, Seq: ask.Seq, Free: int32(min(max(ask.Free, 0), 500)), Probe: ask.Probe,
		Capped: ask.Capped, FreshSeconds: ask.Fresh.Seconds(),
	}
	for i, slice := range ask.Slices {
		p.Campaigns = append(p.Campaigns, slice.Campaign)
		p.Zones = append(p.Zones, slice.Zone)
		p.Shares = append(p.Shares, int32(min(max(slice.Share, 0), 500)))
		p.Turns = append(p.Turns, int32(i))
	}
	return p
}

// GiveBack returns the rows of burned claim calls to pending, with their old
// due time and their attempt, and says how many. A call that has not committed
// yet gives nothing back: ask again later, and before the lease is released.
func (s *Store) GiveBack(ctx context.Context, lease engine.LeaseID, seqs []int64) (int, error) {
	if len(seqs) == 0 {
		return 0, nil
	}
	return s.moved("give back claims", func() (int64, error) {
		return s.q.GiveBackClaims(ctx, s.pool, &db.GiveBackClaimsParams{Number: lease.Number, Lease: lease.ID, Seqs: seqs})
	})
}

// Reclaim turns what other leases of this number left claimed into unknown and
// says how many rows it turned, or engine.ErrNotReady when the lease may not
// reclaim: still in quarantine, run out, released or another's.
func (s *Store) Reclaim(ctx context.Context, lease engine.LeaseID) (int, error) {
	var got db.ReclaimRecipientsRow
	err := again(func() (err error) {
		got, err = s.q.ReclaimRecipients(ctx, s.pool, &db.ReclaimRecipientsParams{Number: lease.Number, Lease: lease.ID})
		return err
	})
	if err == nil && !got.Ready {
		err = engine.ErrNotReady
	}
	if err != nil {
		return 0, fmt.Errorf("reclaim recipients: %w", err)
	}
	return int(got.Turned), nil
}

// moved runs a statement that counts the rows it moved.
func (s *Store) moved(what string, statement func() (int64, error)) (n int, err error) {
	err = again(func() error {
		moved, err := statement()
		n = int(moved)
		return err
	})
	return n, wrap(what, err)
}

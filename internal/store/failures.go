package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/weirhq/weir/engine"
	"github.com/weirhq/weir/internal/store/db"
)

// fallen is a message that was accepted and shows failed.
type fallen struct {
	campaign int64
	number   string
	at       time.Time // when it was accepted, by Postgres's clock
	update   engine.StatusUpdate
}

// fallenOf finds what has failed among what was judged.
func fallenOf(words []word, judged []db.ApplyEvidenceRow) (all []fallen) {
	updates := make(map[int64]engine.StatusUpdate, len(words))
	for _, w := range words {
		updates[w.row.id] = w.update
	}
	for _, r := range judged {
		if r.Failed {
			all = append(all, fallen{campaign: r.CampaignID, number: r.NumberID, at: r.AcceptedAt.Time, update: updates[r.ID]})
		}
	}
	return all
}

// stopFailing stops what failed messages say is out of order, as an answer to a
// call would: at once where the code says so, and a campaign whose messages all
// fail. It asks Postgres how things stand, not these messages alone, so that a
// repeated call stops what the first one did not come to.
func (s *Store) stopFailing(ctx context.Context, all []fallen) error {
	if len(all) == 0 {
		return nil
	}
	var errs []error
	last := map[int64]fallen{} // of each campaign
	for _, f := range all {
		if last[f.campaign].at.IsZero() || !f.at.Before(last[f.campaign].at) {
			last[f.campaign] = f
		}
	}
	for _, r := range restraints(all) {
		errs = append(errs, s.Restrain(ctx, r))
	}
	var campaigns []int64
	for id := range last {
		campaigns = append(campaigns, id)
	}
	failing, err := s.q.Failing(ctx, s.pool, campaigns)
	errs = append(errs, wrap("look at failed messages", err))
	for _, r := range failing {
		how := engine.Failing{Failures: int(r.Failures), Suspects: int(r.Suspects), Span: duration(r.SpanSeconds)}
		if (engine.Policy{}).Hopeless(how) {
			errs = append(errs, s.Restrain(ctx, hopeless(last[r.ID].update, r)))
		}
	}
	return errors.Join(errs...)
}

// restraints are what codes ask to stop, each once, by the latest message.
func restraints(all []fallen) (orders []engine.Restraint) {
	for _, f := range all {
		r, ok := f.update.Asks.Stops(f.number, f.campaign)
		if !ok {
			continue
		}
		r.Told = f.at
		same := func(o engine.Restraint) bool { o.Told = r.Told; return o == r }
		if i := slices.IndexFunc(orders, same); i < 0 {
			orders = append(orders, r)
		} else if r.Told.After(orders[i].Told) {
			orders[i].Told = r.Told
		}
	}
	return orders
}

// hopeless stops a campaign, in the words of its last failure.
func hopeless(last engine.StatusUpdate, r db.FailingRow) engine.Restraint {
	return engine.Restraint{
		Kind: engine.HaltCampaign, Scope: engine.ScopeCampaign, Campaign: r.ID, Code: last.Code, Advice: last.Asks.Advice, Told: r.LastAt.Time,
		Reason: fmt.Sprintf("%s; the last %d messages were accepted and then failed, and no other went through", last.Title, r.Failures),
	}
}

// ForgetFailures deletes the failures that say nothing of their campaigns any more.
func (s *Store) ForgetFailures(ctx context.Context) error {
	return wrap("forget failures", s.q.ForgetFailures(ctx, s.pool))
}

package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weirhq/weir/engine"
	"github.com/weirhq/weir/internal/store/db"
)

// word is what was said about one message, and the row and claim it is of.
type word struct {
	row    rowClaim
	update engine.StatusUpdate
	answer bool // by the API when it took the message, not by a webhook
}

// ApplyStatuses applies folded updates, forward only, and keeps events and the
// updates that found no recipient; what events say is done. When it returns nil,
// all of it is committed; after an error some may be, and the same call again
// changes nothing twice but what has no key, which is kept again. An error that wraps
// engine.ErrRefused will come again with the same call.
func (s *Store) ApplyStatuses(ctx context.Context, updates []engine.StatusUpdate, events []engine.Event) (engine.Applied, error) {
	got, err := s.apply(ctx, updates)
	if err != nil {
		return engine.Applied{}, fmt.Errorf("apply statuses: %w", refusedData(err))
	}
	if err := s.heed(ctx, updates, got); err != nil {
		return engine.Applied{}, err
	}
	if err := s.grantWishes(ctx, events); err != nil {
		return engine.Applied{}, err
	}
	kept := make([]engine.StatusUpdate, len(got.lost))
	for i, at := range got.lost {
		kept[i] = updates[at]
	}
	if err := s.keep(ctx, kept, events); err != nil {
		return engine.Applied{}, fmt.Errorf("keep webhook events: %w", refusedData(err))
	}
	if err := s.hear(ctx, events); err != nil {
		return engine.Applied{}, err
	}
	return engine.Applied{Matched: len(updates) - len(got.lost), Unmatched: len(got.lost)}, nil
}

// heed does what failed messages ask for beyond their rows. The stops come
// first: a message that is to be sent anew is no longer its row's, and a
// delivery that is repeated could not stop anything by it any more.
func (s *Store) heed(ctx context.Context, updates []engine.StatusUpdate, got applied) error {
	if err := s.stopFailing(ctx, got.fallen); err != nil {
		return err
	}
	return errors.Join(s.spareFailed(ctx, updates, got.rows), s.retryFailed(ctx, updates, got.rows))
}

// applied is what became of updates.
type applied struct {
	rows   []rowClaim // each update's; id 0: none
	lost   []int      // indexes of those that found none
	fallen []fallen
}

func (s *Store) apply(ctx context.Context, updates []engine.StatusUpdate) (got applied, err error) {
	got.rows, err = s.place(ctx, updates)
	if err != nil {
		return applied{}, err
	}
	var placed []int
	for i, row := range got.rows {
		if row.id == 0 {
			got.lost = append(got.lost, i)
		} else {
			placed = append(placed, i)
		}
	}
	for _, round := range rounds(placed, func(i int) rowClaim { return got.rows[i] }) {
		words := make([]word, len(round))
		for k, i := range round {
			words[k] = word{row: got.rows[i], update: updates[i]}
		}
		found, fell, err := s.applyRound(ctx, words)
		if err != nil {
			return applied{}, err
		}
		got.fallen = append(got.fallen, fell...)
		for _, i := range round {
			if !found[got.rows[i].id] {
				got.lost, got.rows[i] = append(got.lost, i), rowClaim{}
			}
		}
	}
	return got, nil
}

// applyRound takes at most one word a row, and returns the rows it found and
// what has failed.
func (s *Store) applyRound(ctx context.Context, words []word) (map[int64]bool, []fallen, error) {
	var plain, rest []word
	for _, w := range words {
		if w.update.Status == engine.Failed || !w.update.FailedAt.IsZero() {
			rest = append(rest, w)
		} else {
			plain = append(plain, w)
		}
	}
	found, err := s.applyPlain(ctx, plain)
	if err != nil {
		return nil, nil, err
	}
	for _, w := range plain {
		if !found[w.row.id] {
			rest = append(rest, w)
		}
	}
	judged, err := s.evidence(ctx, rest)
	for _, r := range judged {
		found[r.ID] = true
	}
	return found, fallenOf(rest, judged), err
}

func (s *Store) applyPlain(ctx context.Context, words []word) (map[int64]bool, error) {
	if len(words) == 0 {
		return map[int64]bool{}, nil
	}
	p := statusParams(words)
	found := make(map[int64]bool, len(words))
	err := again(func() error {
		rows, err := s.q.ApplyStatuses(ctx, s.pool, p)
		for _, r := range rows {
			found[r.ID] = true
		}
		return err
	})
	return found, err
}

func statusParams(words []word) *db.ApplyStatusesParams {
	p := &db.ApplyStatusesParams{}
	for _, w := range words {
		p.Ids = append(p.Ids, w.row.id)
		p.Claims = append(p.Claims, w.row.claim)
		p.Statuses = append(p.Statuses, w.update.Status.String())
		p.MessageIds = append(p.MessageIds, clean(w.update.MessageID))
		p.SentMs = append(p.SentMs, millis(w.update.SentAt))
		p.DeliveredMs = append(p.DeliveredMs, millis(w.update.DeliveredAt))
		p.ReadMs = append(p.ReadMs, millis(w.update.ReadAt))
	}
	return p
}

// evidence applies what needs a look at the row's other messages, at most one
// word a row, and returns the verdicts on the rows that exist. The lock comes
// first, so that the look is at what the lock protects.
func (s *Store) evidence(ctx context.Context, words []word) (judged []db.ApplyEvidenceRow, err error) {
	if len(words) == 0 {
		return nil, nil
	}
	p := evidenceParams(words)
	err = again(func() error {
		tx := &pipeline{pool: s.pool}
		if err := s.q.LockRecipients(ctx, tx, p.Ids); err != nil {
			return err
		}
		judged, err = s.q.ApplyEvidence(ctx, tx, p)
		return err
	})
	return judged, err
}

func evidenceParams(words []word) *db.ApplyEvidenceParams {
	p := &db.ApplyEvidenceParams{}
	for _, w := range words {
		p.Ids = append(p.Ids, w.row.id)
		p.Claims = append(p.Claims, w.row.claim)
		p.Statuses = append(p.Statuses, w.update.Status.String())
		p.MessageIds = append(p.MessageIds, clean(w.update.MessageID))
		p.Codes = append(p.Codes, int32(w.update.Code))
		p.Titles = append(p.Titles, clean(w.update.Title))
		p.SentMs = append(p.SentMs, millis(w.update.SentAt))
		p.DeliveredMs = append(p.DeliveredMs, millis(w.update.DeliveredAt))
		p.ReadMs = append(p.ReadMs, millis(w.update.ReadAt))
		p.FailedMs = append(p.FailedMs, millis(w.update.FailedAt))
		p.Suspects = append(p.Suspects, w.update.Asks.Suspect)
		p.Answers = append(p.Answers, w.answer)
	}
	return p
}

// millis is 0 for no time.
func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

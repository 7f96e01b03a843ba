package store

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/weirhq/weir/engine"
	"github.com/weirhq/weir/internal/store/db"
)

// spareResults writes whom results ask to leave in peace. It comes before the
// results themselves: a row that is settled is not looked at, so that a repeated
// call counts nothing twice, and what is lost with a crash in between is only
// the result.
func (s *Store) spareResults(ctx context.Context, results []engine.Result) error {
	p := &db.SparePersonsParams{}
	for _, r := range results {
		if r.Spare != engine.SpareNobody {
			addSpared(p, spared{row: rowClaim{r.Recipient, r.Claim}, spare: r.Spare, span: r.SpareFor, code: r.Code})
		}
	}
	return s.sparePersons(ctx, p)
}

// spareFailed writes whom failed messages ask to leave in peace: the person of
// the row, or, where no row was found, of the phone. The pair's limit is not
// kept for a row that is not ours.
func (s *Store) spareFailed(ctx context.Context, updates []engine.StatusUpdate, rows []rowClaim) error {
	p := &db.SparePersonsParams{}
	for i, u := range updates {
		if u.Asks.Spare == engine.SpareNobody {
			continue
		}
		one := spared{number: u.Number, spare: u.Asks.Spare, span: u.Asks.After, code: u.Code, at: u.FailedAt}
		if one.row.id = rows[i].id; one.row.id != 0 {
			addSpared(p, one)
			continue
		}
		for _, phone := range phones(u.Phone) {
			if one.phone = phone; one.spare != engine.SparePair {
				addSpared(p, one)
			}
		}
	}
	return s.sparePersons(ctx, p)
}

// spared is one person to leave in peace.
type spared struct {
	row    rowClaim // claim 0: whatever became of the row
	phone  string   // without a row: E.164 with +
	number string   // "": the row's
	spare  engine.Spare
	span   time.Duration
	code   int
	at     time.Time // zero: now
}

func addSpared(p *db.SparePersonsParams, one spared) {
	p.Ids = append(p.Ids, one.row.id)
	p.Claims = append(p.Claims, one.row.claim)
	p.Phones = append(p.Phones, one.phone)
	p.Numbers = append(p.Numbers, clean(one.number))
	p.Accounts = append(p.Accounts, "")
	p.Spares = append(p.Spares, one.spare.String())
	p.ForMs = append(p.ForMs, one.span.Milliseconds())
	p.AtMs = append(p.AtMs, millis(one.at))
	p.Reasons = append(p.Reasons, strconv.Itoa(one.code))
}

func (s *Store) sparePersons(ctx context.Context, p *db.SparePersonsParams) error {
	if len(p.Ids) == 0 {
		return nil
	}
	return wrap("spare persons", refusedData(again(func() error { return s.q.SparePersons(ctx, s.pool, p) })))
}

// retryFailed makes rows wait again whose message failed and is worth another.
func (s *Store) retryFailed(ctx context.Context, updates []engine.StatusUpdate, rows []rowClaim) error {
	p := &db.RetryFailedParams{}
	for i, u := range updates {
		if u.Asks.Action != engine.Reschedule || rows[i].id == 0 {
			continue
		}
		p.Ids = append(p.Ids, rows[i].id)
		p.Claims = append(p.Claims, rows[i].claim)
		p.MessageIds = append(p.MessageIds, clean(u.MessageID))
		p.Codes = append(p.Codes, int32(u.Code))
		p.Onces = append(p.Onces, u.Asks.Once)
		p.DelaysMs = append(p.DelaysMs, u.Asks.After.Milliseconds())
	}
	if len(p.Ids) == 0 {
		return nil
	}
	err := again(func() error {
		tx := &pipeline{pool: s.pool}
		if err := s.q.ShareCampaignsOf(ctx, tx, p.Ids); err != nil {
			return err
		}
		_, err := s.q.RetryFailed(ctx, tx, p)
		return err
	})
	return wrap("retry failed messages", refusedData(err))
}

// DropWaits deletes what keeps persons in peace for a time (waits, and not being
// on WhatsApp) once it has been over for a day.
func (s *Store) DropWaits(ctx context.Context) error {
	const piece = 10_000
	for {
		n, err := s.q.DropWaits(ctx, s.pool, piece)
		if err != nil {
			return fmt.Errorf("drop old waits: %w", err)
		}
		if n < piece {
			return nil
		}
	}
}

package store

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/weirhq/weir/engine"
	"github.com/weirhq/weir/internal/store/db"
)

// rowClaim names one claim of one recipient.
type rowClaim struct {
	id    int64
	claim int32
}

// Record writes results, in one commit for what the rows' own claims say, and
// one more for acceptances that turn out to be about another message of their
// row. Then, and only under a lease that is still this one, it forgets the
// claim batches in done. An error that wraps engine.ErrRefused will come again
// with the same batch.
func (s *Store) Record(ctx context.Context, lease engine.LeaseID, results []engine.Result, done []int64) error {
	if err := s.spareResults(ctx, results); err != nil {
		return err
	}
	for _, round := range rounds(results, func(r engine.Result) rowClaim { return rowClaim{r.Recipient, r.Claim} }) {
		if err := s.record(ctx, round); err != nil {
			return fmt.Errorf("record results: %w", refusedData(err))
		}
	}
	if len(done) == 0 {
		return nil
	}
	_, err := s.moved("forget claims", func() (int64, error) {
		return s.q.ForgetClaims(ctx, s.pool, &db.ForgetClaimsParams{Number: lease.Number, Lease: lease.ID, Seqs: done})
	})
	return err
}

func (s *Store) record(ctx context.Context, results []engine.Result) error {
	p := resultParams(results)
	var rows []db.RecordResultsRow
	err := again(func() (err error) {
		rows, err = s.q.RecordResults(ctx, s.pool, p)
		return err
	})
	if err != nil {
		return err
	}
	matched := make(map[rowClaim]bool, len(rows))
	for _, r := range rows {
		matched[rowClaim{r.ID, r.Claim}] = true
	}
	var facts []word
	for _, r := range results {
		accepted := r.Status == engine.Accepted || r.Status == engine.Held
		if accepted && !matched[rowClaim{r.Recipient, r.Claim}] {
			facts = append(facts, word{
				row:    rowClaim{r.Recipient, r.Claim},
				update: engine.StatusUpdate{MessageID: r.MessageID, Status: r.Status},
				answer: true,
			})
		}
	}
	_, err = s.evidence(ctx, facts)
	return err
}

func resultParams(results []engine.Result) *db.RecordResultsParams {
	p := &db.RecordResultsParams{}
	for _, r := range results {
		p.Ids = append(p.Ids, r.Recipient)
		p.Claims = append(p.Claims, r.Claim)
		p.Statuses = append(p.Statuses, r.Status.String())
		p.MessageIds = append(p.MessageIds, clean(r.MessageID))
		p.Codes = append(p.Codes, int32(r.Code))
		p.Titles = append(p.Titles, clean(r.Title))
		p.DelaysMs = append(p.DelaysMs, r.Delay.Milliseconds())
		p.Refunds = append(p.Refunds, r.Refund)
		p.KeepDues = append(p.KeepDues, r.KeepDue)
		p.Dues = append(p.Dues, pgtype.Timestamptz{Time: r.Due, Valid: true})
	}
	return p
}

// rounds sorts items by row and splits them so that no row is twice in one:
// UPDATE … FROM would pick either. There is one round but for odd batches.
// Every statement takes its locks in the order of the ids.
func rounds[T any](items []T, key func(T) rowClaim) [][]T {
	sorted := slices.SortedStableFunc(slices.Values(items), func(a, b T) int {
		return cmp.Or(cmp.Compare(key(a).id, key(b).id), cmp.Compare(key(a).claim, key(b).claim))
	})
	var split [][]T
	nth := 0
	for i, item := range sorted {
		if i > 0 && key(item).id == key(sorted[i-1]).id {
			nth++
		} else {
			nth = 0
		}
		if nth == len(split) {
			split = append(split, nil)
		}
		split[nth] = append(split[nth], item)
	}
	return split
}

// clean makes text storable: Postgres takes neither NUL nor broken UTF-8, and
// the platform's words must not be able to stop a batch.
func clean(s string) string {
	if utf8.ValidString(s) && !strings.Contains(s, "\x00") {
		return s
	}
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

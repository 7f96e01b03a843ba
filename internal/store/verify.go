package store

import (
	"context"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5"

	"github.com/weirhq/weir/engine"
	"github.com/weirhq/weir/internal/store/db"
)

// Check is one promise held against the rows.
type Check struct {
	Name  string // stable, for scripts
	Says  string // the promise
	OK    bool
	Found int64 // what the rows say
	Want  int64
	Hint  string // what to do when it does not hold
}

// Verification is a campaign's proof, all of one moment.
type Verification struct {
	Checks   []Check
	Statuses map[engine.Status]int64 // recounted from the rows
	Missing  int64                   // accepted or held, and no status webhook has been heard
	Waiting  int64                   // unknown outcomes, still to be resolved
	Orphaned int64                   // in the hands of a dead node: their number's next owner takes them up
	Doubled  int64                   // rows with two living messages that the campaign allows: resends and replays
}

// OK reports whether every check holds.
func (v Verification) OK() bool {
	for _, c := range v.Checks {
		if !c.OK {
			return false
		}
	}
	return true
}

// Verify proves conservation from the rows: it reads all of a campaign's in
// one snapshot, a few seconds per million, and changes nothing. It may run at
// any time. It answers ErrNotFound.
func (s *Store) Verify(ctx context.Context, campaign int64) (Verification, error) {
	c, err := s.FindCampaign(ctx, strconv.FormatInt(campaign, 10))
	if err != nil {
		return Verification{}, err
	}
	var f findings
	snapshot := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	err = s.patiently(ctx, snapshot, func(tx pgx.Tx) error { return s.look(ctx, tx, campaign, &f) })
	if err != nil {
		return Verification{}, fmt.Errorf("verify campaign: %w", err)
	}
	return f.judge(c.OnUnknown)
}

// findings is everything the judgement needs, read in one snapshot.
type findings struct {
	imported db.CampaignsRow
	rows     []db.VerifyRowsRow
	totals   db.VerifyTotalsRow
	counts   []db.VerifyCountsRow
}

func (s *Store) look(ctx context.Context, tx pgx.Tx, campaign int64, f *findings) error {
	found, err := s.q.Campaigns(ctx, tx, &db.CampaignsParams{Ref: strconv.FormatInt(campaign, 10), ID: campaign, States: []string{}})
	if err != nil {
		return err
	}
	if len(found) == 0 {
		return refuse(ErrNotFound, "campaign %d was dropped meanwhile", campaign)
	}
	f.imported = found[0]
	if f.rows, err = s.q.VerifyRows(ctx, tx, campaign); err != nil {
		return err
	}
	if f.totals, err = s.q.VerifyTotals(ctx, tx, campaign); err != nil {
		return err
	}
	f.counts, err = s.q.VerifyCounts(ctx, tx, campaign)
	return err
}

// judge turns what was found into checks.
func (f *findings) judge(policy engine.OnUnknown) (Verification, error) {
	v := Verification{Statuses: map[engine.Status]int64{}}
	var sum db.VerifyRowsRow
	for _, r := range f.rows {
		status, err := engine.ParseStatus(r.Status)
		if err != nil {
			return v, err
		}
		v.Statuses[status] = r.N
		sum.N += r.N
		sum.WrongDue += r.WrongDue
		sum.NoParams += r.NoParams
		sum.WrongMessage += r.WrongMessage
		sum.WrongTimes += r.WrongTimes
		sum.WrongAttempts += r.WrongAttempts
		sum.Stuck += r.Stuck
		sum.Unlisted += r.Unlisted
		sum.Unreasoned += r.Unreasoned
		v.Orphaned += r.Orphaned
	}
	v.Missing = v.Statuses[engine.Accepted] + v.Statuses[engine.Held]
	v.Waiting = v.Statuses[engine.Unknown]
	v.Doubled = f.totals.DoubledByReplay
	twice := f.totals.Doubled
	if policy == engine.UnknownResends { // at least once, by its operator's choice
		v.Doubled, twice = v.Doubled+twice, 0
	}
	v.Checks = append(f.conservation(sum), rowChecks(sum)...)
	v.Checks = append(v.Checks,
		check("sent_once", "no recipient has two living messages", twice, 0,
			"campaign export shows the rows with more than one attempt; please report this with the log of the time"),
		check("counts", "the counts on display are the rows'", f.displayGap(v.Statuses), 0,
			"the display is wrong, the rows are right; finishing the campaign recounts them"))
	return v, nil
}

// conservation holds the file, the recipients and their values together.
func (f *findings) conservation(sum db.VerifyRowsRow) []Check {
	i, t := f.imported, f.totals
	left := t.Params - (sum.N - sum.NoParams) // params without a recipient
	return []Check{
		check("rows_read", "rows read = accepted + rejected + duplicate", i.Accepted+i.Rejected+i.Duplicate, i.RowsRead,
			"the import's record has been changed by hand: compare it with the file"),
		check("recipients", "every accepted row of the file is a recipient, and no other", sum.N, i.Accepted,
			"recipients have been added or removed by hand: restore them from a backup"),
		check("params", "every recipient has its phone and values, and none is left over", sum.NoParams+left, 0,
			"rows have been added or removed by hand: restore them from a backup"),
		check("ranges", "no id belongs to two campaigns", t.Overlaps, 0, "please report this: ids have been handed out twice"),
		check("due_index", "every waiting recipient can be claimed, and no other", t.Waiting, f.pending(),
			"rows lie outside the campaign's ids, or the index is damaged: REINDEX INDEX CONCURRENTLY recipients_due, and verify again"),
	}
}

// rowChecks hold each row to the promises that a row can keep or break alone.
func rowChecks(sum db.VerifyRowsRow) []Check {
	const byHand = "please report this, with the log of the time; rows changed by hand look like this too"
	return []Check{
		check("due", "a recipient is due exactly while it is pending", sum.WrongDue, 0, byHand),
		check("message_id", "a recipient has a message id exactly when it is shown accepted or further", sum.WrongMessage, 0, byHand),
		check("delivered", "delivered and read times stand beside a status at least as far, so read implies delivered", sum.WrongTimes, 0, byHand),
		check("attempts", "no recipient has spent more attempts than the campaign allows", sum.WrongAttempts, 0, byHand),
		check("stuck", "every recipient that is being sent is in a lane's hands", sum.Stuck, 0, byHand),
		check("unknown", "every unknown outcome is listed to be resolved", sum.Unlisted, 0, byHand),
		check("suppressed", "every recipient that was left out has its reason", sum.Unreasoned, 0, byHand),
	}
}

func check(name, says string, found, want int64, hint string) Check {
	c := Check{Name: name, Says: says, Found: found, Want: want, OK: found == want}
	if !c.OK {
		c.Hint = hint
	}
	return c
}

func (f *findings) pending() int64 {
	for _, r := range f.rows {
		if r.Status == engine.Pending.String() {
			return r.N
		}
	}
	return 0
}

// displayGap is by how many rows the display is off, over all statuses.
func (f *findings) displayGap(actual map[engine.Status]int64) int64 {
	gaps := map[string]int64{}
	for _, c := range f.counts {
		gaps[c.Status] = c.N
	}
	for status, n := range actual {
		gaps[status.String()] -= n
	}
	total := int64(0)
	for _, gap := range gaps {
		total += max(gap, -gap)
	}
	return total
}

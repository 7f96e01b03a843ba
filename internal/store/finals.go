package store

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/weirhq/weir/engine"
	"github.com/weirhq/weir/internal/store/db"
)

// Report is what a campaign came to, counted from its rows in one snapshot. It
// is kept as JSON: fields are added to it and never change their meaning.
type Report struct {
	ID    int64         `json:"id"`
	Name  string        `json:"name"`
	State CampaignState `json:"state"`
	At    time.Time     `json:"at"` // the snapshot's
	Final bool          `json:"final"`

	Rows     ReportRows       `json:"rows"`
	Statuses map[string]int64 `json:"statuses"` // every status, by name
	// Failures are the recipients that ended failed or dead, most frequent first;
	// LeftOut the suppressed, by reason.
	Failures []ReportFailure  `json:"failures"`
	LeftOut  map[string]int64 `json:"left_out"`
	// Duplicates are messages accepted beside the one that a recipient shows;
	// Unheard recipients whose message was taken and never heard of since;
	// Unknown those whose outcome is open.
	Duplicates int64 `json:"duplicates"`
	Unheard    int64 `json:"unheard"`
	Unknown    int64 `json:"unknown"`

	StartedAt  *time.Time      `json:"started_at"`
	FinishedAt *time.Time      `json:"finished_at"`
	Seconds    float64         `json:"seconds"` // from the start to the end, or to At
	Numbers    []ReportNumber  `json:"numbers"`
	Pauses     []ReportPause   `json:"pauses"` // confirmed ones, and the cancel
	Checks     []ReportedCheck `json:"checks"`
}

// ReportRows are the rows of the campaign's file.
type ReportRows struct {
	Read      int64 `json:"read"`
	Accepted  int64 `json:"accepted"`
	Rejected  int64 `json:"rejected"`
	Duplicate int64 `json:"duplicate"`
}

// ReportFailure is one kind of end that was not a message received.
type ReportFailure struct {
	Status     string `json:"status"` // failed: the platform's word; dead: given up
	Code       int    `json:"code"`   // Meta's; 0: none, and Title tells them apart
	Title      string `json:"title"`
	Recipients int64  `json:"recipients"`
}

// ReportNumber is what one number sent of the campaign: the messages that its
// recipients show. Rate is their mean per second from the first to the last, 0 for one.
type ReportNumber struct {
	ID       string    `json:"id"`
	Accepted int64     `json:"accepted"`
	First    time.Time `json:"first_at"`
	Last     time.Time `json:"last_at"`
	Rate     float64   `json:"mean_rate"`
}

// ReportPause is a pause or a cancel after which nothing went out.
type ReportPause struct {
	Kind        string     `json:"kind"` // pause, cancel
	Reason      string     `json:"reason"`
	AskedAt     time.Time  `json:"asked_at"`
	ConfirmedAt time.Time  `json:"confirmed_at"`
	EndedAt     *time.Time `json:"ended_at"`
}

// ReportedCheck is a [Check].
type ReportedCheck struct {
	Name  string `json:"name"`
	Says  string `json:"says"`
	OK    bool   `json:"ok"`
	Found int64  `json:"found"`
	Want  int64  `json:"want"`
	Hint  string `json:"hint,omitempty"`
}

// Over reports whether a campaign in this state is at its end.
func (s CampaignState) Over() bool { return s == Finished || s == Canceled }

// Report counts what a campaign has come to by now, its verification included: as
// dear as Verify, a few seconds per million rows. It answers ErrNotFound.
func (s *Store) Report(ctx context.Context, campaign int64) (Report, error) {
	var r Report
	snapshot := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	err := s.patiently(ctx, snapshot, func(tx pgx.Tx) error {
		var f findings
		if err := s.look(ctx, tx, campaign, &f); err != nil {
			return err
		}
		if err := r.head(f); err != nil {
			return err
		}
		return s.detail(ctx, tx, &r)
	})
	if err != nil {
		return Report{}, fmt.Errorf("report on campaign: %w", err)
	}
	return r, nil
}

// head takes what the verification found.
func (r *Report) head(f findings) error {
	c, err := campaign(f.imported)
	if err != nil {
		return err
	}
	v, err := f.judge(c.OnUnknown)
	if err != nil {
		return err
	}
	*r = Report{
		ID: c.ID, Name: c.Name, State: c.State, Final: c.State.Over(), StartedAt: whenever(c.StartedAt), FinishedAt: whenever(c.FinishedAt),
		Rows:     ReportRows{Read: c.Import.Read, Accepted: c.Import.Accepted, Rejected: c.Import.Rejected, Duplicate: c.Import.Duplicate},
		Statuses: map[string]int64{}, LeftOut: map[string]int64{}, Failures: []ReportFailure{}, Numbers: []ReportNumber{}, Pauses: []ReportPause{},
		Unheard: v.Missing, Unknown: v.Waiting,
	}
	for _, status := range engine.Statuses() {
		r.Statuses[status.String()] = v.Statuses[status]
	}
	for _, k := range v.Checks {
		r.Checks = append(r.Checks, ReportedCheck(k))
	}
	return nil
}

// detail adds what the verification does not ask.
func (s *Store) detail(ctx context.Context, tx pgx.Tx, r *Report) error {
	at, err := s.q.ReportMoment(ctx, tx)
	if err != nil {
		return err
	}
	if r.At = at.Time; r.StartedAt != nil {
		end := r.At
		if r.Final && r.FinishedAt != nil {
			end = *r.FinishedAt
		}
		r.Seconds = end.Sub(*r.StartedAt).Seconds()
	}
	if r.Duplicates, err = s.q.CountDuplicates(ctx, tx, r.ID); err != nil {
		return err
	}
	reasons, err := s.q.SuppressedByReason(ctx, tx, r.ID)
	if err != nil {
		return err
	}
	for _, x := range reasons {
		r.LeftOut[x.Reason] = x.N
	}
	failures, err := s.q.ReportFailures(ctx, tx, r.ID)
	if err != nil {
		return err
	}
	for _, x := range failures {
		r.Failures = append(r.Failures, ReportFailure{Status: x.Status, Code: int(x.Code), Title: x.Title, Recipients: x.N})
	}
	return s.times(ctx, tx, r)
}

// times adds when and how fast numbers sent, and when they did not.
func (s *Store) times(ctx context.Context, tx pgx.Tx, r *Report) error {
	numbers, err := s.q.ReportNumbers(ctx, tx, r.ID)
	if err != nil {
		return err
	}
	for _, n := range numbers {
		number := ReportNumber{ID: n.NumberID, Accepted: n.N, First: n.FirstAt.Time, Last: n.LastAt.Time}
		if n.Seconds > 0 {
			number.Rate = float64(n.N-1) / n.Seconds
		}
		r.Numbers = append(r.Numbers, number)
	}
	controls, err := s.q.ReportControls(ctx, tx, r.ID)
	if err != nil {
		return err
	}
	for _, k := range controls {
		r.Pauses = append(r.Pauses, ReportPause{
			Kind: k.Kind, Reason: k.Reason, AskedAt: k.AskedAt.Time, ConfirmedAt: k.ConfirmedAt.Time, EndedAt: whenever(k.EndedAt.Time),
		})
	}
	return nil
}

// KeepReport writes the report of a campaign that is over and has none of this
// end yet, and says whether it did. Twice is once.
func (s *Store) KeepReport(ctx context.Context, campaign int64) (bool, error) {
	if _, kept, err := s.KeptReport(ctx, campaign); err != nil || kept {
		return false, err
	}
	r, err := s.Report(ctx, campaign)
	if err != nil || !r.Final || r.FinishedAt == nil {
		return false, err
	}
	body, err := json.Marshal(r)
	if err != nil {
		return false, fmt.Errorf("encode report: %w", err)
	}
	n, err := s.q.KeepReport(ctx, s.pool, &db.KeepReportParams{Campaign: campaign, FinishedAt: instant(*r.FinishedAt), Body: body})
	return n == 1, wrap("keep report", err)
}

// KeptReport reads the report of a campaign's end; kept is false when there is
// none, because it is not over or its report is still to be written.
func (s *Store) KeptReport(ctx context.Context, campaign int64) (r Report, kept bool, err error) {
	bodies, err := s.q.KeptReport(ctx, s.pool, campaign)
	if err != nil || len(bodies) == 0 {
		return Report{}, false, wrap("read report", err)
	}
	if err := json.Unmarshal(bodies[0], &r); err != nil {
		return Report{}, false, fmt.Errorf("decode report of campaign %d: %w", campaign, err)
	}
	return r, true, nil
}

// Unreported lists the campaigns that are over and whose report is still to be written.
func (s *Store) Unreported(ctx context.Context) ([]int64, error) {
	ids, err := s.q.Unreported(ctx, s.pool)
	return ids, wrap("look for campaigns without a report", err)
}

// whenever is nil for the zero time.
func whenever(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

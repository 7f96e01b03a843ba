package store

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/weirhq/weir/engine"
	"github.com/weirhq/weir/internal/store/db"
)

// ExportRow is what an operator can know of one recipient. It holds the phone
// number and the message id: it is for files, not for logs.
type ExportRow struct {
	Line      int64 // of the imported file
	Phone     string
	Values    []string // of the campaign's Columns, in their order
	Status    engine.Status
	Attempts  int // spent so far; a replay starts again
	Number    string
	MessageID string
	// ErrorCode and ErrorTitle say why the row is not sent; 0 and "" once it is.
	ErrorCode  int
	ErrorTitle string
	// Zero: it has not come so far. AcceptedAt is our clock's, the rest Meta's.
	AcceptedAt, SentAt, DeliveredAt, ReadAt, FailedAt time.Time
	Duplicates                                        int // messages accepted beside the one of MessageID, as far as is known
}

// exportIDs is how many ids one page of an export covers.
const exportIDs = 5_000

// Export yields the recipients of a campaign in the order of its file, those in
// one of the statuses or all when none is given, with at most 5 000 in memory.
// Each page is as of when it was read: the rows of a running campaign move on
// between two pages. An error ends it.
func (s *Store) Export(ctx context.Context, campaign int64, statuses ...engine.Status) iter.Seq2[ExportRow, error] {
	only := make([]string, len(statuses))
	for i, status := range statuses {
		only[i] = status.String()
	}
	return func(yield func(ExportRow, error) bool) {
		ranges, err := s.q.CampaignRanges(ctx, s.pool, campaign)
		if err != nil {
			yield(ExportRow{}, fmt.Errorf("read campaign's ranges: %w", err))
			return
		}
		for _, r := range ranges {
			for lo := r.Lo; lo <= r.Hi; lo += exportIDs {
				page := &db.ExportPageParams{Campaign: campaign, Lo: lo, Hi: min(lo+exportIDs-1, r.Hi), Statuses: only}
				if !s.exportPage(ctx, page, yield) {
					return
				}
			}
		}
	}
}

// exportPage yields one page's rows and reports whether to go on.
func (s *Store) exportPage(ctx context.Context, page *db.ExportPageParams, yield func(ExportRow, error) bool) bool {
	rows, err := s.q.ExportPage(ctx, s.pool, page)
	if err != nil {
		yield(ExportRow{}, fmt.Errorf("export recipients: %w", err))
		return false
	}
	for _, r := range rows {
		row, err := exportRow(r)
		if !yield(row, err) || err != nil {
			return false
		}
	}
	return true
}

func exportRow(r db.ExportPageRow) (ExportRow, error) {
	status, err := engine.ParseStatus(r.Status)
	return ExportRow{
		Line: r.Line, Phone: r.Phone, Values: r.Params, Status: status, Attempts: int(r.Attempt), Number: r.NumberID, MessageID: r.MessageID,
		ErrorCode: int(r.ErrorCode), ErrorTitle: r.ErrorTitle,
		AcceptedAt: r.AcceptedAt.Time, SentAt: r.SentAt.Time, DeliveredAt: r.DeliveredAt.Time, ReadAt: r.ReadAt.Time, FailedAt: r.FailedAt.Time,
		Duplicates: int(r.Duplicates),
	}, err
}

// Duplicates is how many messages of a campaign were accepted beside the one
// that their recipient shows: late evidence after a resend or a replay. It is
// cheap enough to ask every second.
func (s *Store) Duplicates(ctx context.Context, campaign int64) (int64, error) {
	n, err := s.q.CountDuplicates(ctx, s.pool, campaign)
	if err != nil {
		return 0, fmt.Errorf("count duplicates: %w", err)
	}
	return n, nil
}

// CodeCount is one kind of error of a campaign.
type CodeCount struct {
	Code     int    // Meta's; 0: none, and Title tells them apart
	Title    string // one that was seen with the code
	Attempts int64  // attempts that met it
}

// ErrorsByCode counts a campaign's errors, most frequent first. Its cost grows
// with the errors, not with the audience: over half a second of Postgres's time
// per million, so it is nothing to ask every second.
func (s *Store) ErrorsByCode(ctx context.Context, campaign int64) ([]CodeCount, error) {
	rows, err := s.q.ErrorsByCode(ctx, s.pool, campaign)
	if err != nil {
		return nil, fmt.Errorf("count errors by code: %w", err)
	}
	counts := make([]CodeCount, len(rows))
	for i, r := range rows {
		counts[i] = CodeCount{Code: int(r.Code), Title: r.Title, Attempts: r.Attempts}
	}
	return counts, nil
}

// SuppressedByReason counts those of a campaign that a claim settled without a
// message, by one of the Reasons. Its cost is as that of
// ErrorsByCode.
func (s *Store) SuppressedByReason(ctx context.Context, campaign int64) (map[string]int64, error) {
	rows, err := s.q.SuppressedByReason(ctx, s.pool, campaign)
	if err != nil {
		return nil, fmt.Errorf("count suppressed by reason: %w", err)
	}
	counts := make(map[string]int64, len(rows))
	for _, r := range rows {
		counts[r.Reason] = r.N
	}
	return counts, nil
}

// NumberPace is how far one number of a campaign has come, and what holds it.
type NumberPace struct {
	engine.Number
	Display    string
	Fallback   bool
	StandsIn   bool          // Fallback: no primary can send, and has not for long enough
	Away       time.Duration // how long it has been unable to send, the platform's trouble apart; 0: it is able
	Why        string        // it is away
	Owned      bool          // a node holds its lease
	StopReason string        // why it is not enabled
	Accepted   int64         // messages accepted so far, of all its campaigns; display only
}

// Pace looks at each number of a campaign: what was accepted between two looks,
// by the time between them, is its pace. It is cheap enough to ask every second.
func (s *Store) Pace(ctx context.Context, campaign int64) ([]NumberPace, error) {
	rows, err := s.q.CampaignPace(ctx, s.pool, campaign)
	if err != nil {
		return nil, fmt.Errorf("look at the campaign's numbers: %w", err)
	}
	paces := make([]NumberPace, len(rows))
	for i, r := range rows {
		paces[i] = NumberPace{
			Number: engine.Number{
				ID: r.NumberID, Limit: r.MpsLimit, Headroom: r.Headroom, Burst: int(r.Burst),
				Enabled: r.Enabled, Paused: duration(r.PausedSeconds),
			},
			Display: r.Display, Fallback: r.Role == role(true), Owned: r.Owned, StopReason: r.StopReason,
			Accepted: r.Accepted, StandsIn: r.StandsIn, Why: r.Why,
		}
		if r.Why != "" {
			paces[i].Away = max(duration(r.AwaySeconds), 1)
		}
	}
	return paces, nil
}

// InstanceKey is the key that signs this database's callback ids: a secret.
func (s *Store) InstanceKey(ctx context.Context) ([]byte, error) {
	key, err := s.q.InstanceKey(ctx, s.pool)
	if err != nil {
		return nil, fmt.Errorf("read instance key: %w", err)
	}
	return key, nil
}

// WebhookHeard is when a node last received a signed webhook; zero: never.
func (s *Store) WebhookHeard(ctx context.Context) (time.Time, error) {
	at, err := s.q.WebhookHeard(ctx, s.pool)
	if err != nil {
		return time.Time{}, fmt.Errorf("read receivers: %w", err)
	}
	return at.Time, nil
}

package store

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/weirhq/weir/internal/store/db"
)

// Why a breaker's feed cannot be followed from where somebody stands: what was
// missed can only be read off the breaker as it is now.
var (
	ErrRestarted = errors.New("the numbers have begun anew") // another cluster answers, which may have forgotten moves
	ErrAhead     = errors.New("not reached yet")             // of the very epoch: nobody can have been told of that
	ErrForgotten = errors.New("no longer kept")              // older than 90 days
)

// Mark is a place in a breaker's feed: after the event of that number. The zero
// Mark is before the oldest event that is kept of the breaker's present epoch.
type Mark struct {
	Epoch string // UUID
	Seq   int64
}

// String is the form that ParseMark reads: EPOCH.SEQ.
func (m Mark) String() string { return m.Epoch + "." + strconv.FormatInt(m.Seq, 10) }

// ParseMark reads EPOCH.SEQ, or "" as the zero Mark. It answers ErrRefused.
func ParseMark(text string) (Mark, error) {
	if text == "" {
		return Mark{}, nil
	}
	epoch, number, _ := strings.Cut(text, ".")
	var id pgtype.UUID
	seq, err := strconv.ParseInt(number, 10, 64)
	if err != nil || seq < 0 || id.Scan(epoch) != nil {
		return Mark{}, refuse(ErrRefused, "not a place in a feed: it is EPOCH.SEQ, as the last answer's next or a breaker's mark")
	}
	return Mark{Epoch: id.String(), Seq: seq}, nil
}

// BreakerEvent is one move of a breaker, as the statement that made it wrote it.
type BreakerEvent struct {
	Mark
	At                time.Time
	Prev, State       string
	Reason            string
	Note              string // an operator's words with it
	Samples, Failures int64  // what was judged
	Reporters         int    // nodes that had a say
}

// MostEvents is the longest page of a feed.
const MostEvents = 1000

// BreakerEvents reads what a breaker did after a mark, oldest first, at most so
// many, and without a gap: the first follows the mark, each other the one before
// it. next is the mark to go on from. It answers ErrNotFound for no such breaker,
// and ErrRestarted, ErrAhead or ErrForgotten when the feed does not lead on from
// the mark; never an event that is not the next one.
func (s *Store) BreakerEvents(ctx context.Context, scope string, after Mark, most int) (events []BreakerEvent, next Mark, err error) {
	rows, err := s.q.BreakerEventsAfter(ctx, s.pool, &db.BreakerEventsAfterParams{
		Scope: scope, Epoch: after.Epoch, Seq: after.Seq, Most: int32(min(max(most, 1), MostEvents)),
	})
	switch {
	case err != nil:
		return nil, after, fmt.Errorf("read breaker's events: %w", err)
	case len(rows) == 0:
		return nil, after, noBreaker(scope)
	}
	next = after
	for _, r := range rows {
		if r.EventSeq == 0 || r.EventSeq != next.Seq+1 && next != (Mark{}) {
			break
		}
		next = Mark{Epoch: r.EventEpoch, Seq: r.EventSeq}
		events = append(events, BreakerEvent{
			Mark: next, At: r.At.Time, Prev: r.Prev, State: r.State, Reason: r.Reason, Note: r.Note,
			Samples: r.Samples, Failures: r.Failures, Reporters: int(r.Reporters),
		})
	}
	if len(events) > 0 {
		return events, next, nil
	}
	next, err = follows(after, rows[0])
	return nil, next, err
}

// follows says whether a mark after which no event stands is where the row is,
// and where that is.
func follows(after Mark, row db.BreakerEventsAfterRow) (Mark, error) {
	now := Mark{Epoch: row.Epoch, Seq: row.Seq}
	const advice = "; take the breaker as it is now, and go on from its mark"
	switch {
	case after == Mark{} || after == now:
		return now, nil
	case after.Epoch != now.Epoch || after.Seq > now.Seq && row.Elsewhere:
		return after, refuse(ErrRestarted, "another database answers (a fail-over or a restore), which may have forgotten moves: the numbers begin anew under another epoch%s", advice)
	case after.Seq > now.Seq:
		return after, refuse(ErrAhead, "the breaker has only come to %d of this epoch%s", now.Seq, advice)
	default:
		return after, refuse(ErrForgotten, "events older than 90 days are not kept%s", advice)
	}
}

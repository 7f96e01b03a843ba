package store

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/weirhq/weir/engine"
	"github.com/weirhq/weir/internal/store/db"
)

// Reasons of Dead that the store itself writes; engine.ReasonAttempts is the
// lane's. Whose message may have gone out is sent again only by force.
const (
	ReasonUnknown = "unknown_outcome"    // the campaign's policy gave up waiting for word of it
	ReasonClosed  = "closed_by_operator" // an operator did
)

// DeadLetter is a recipient that failed or was given up, or whose outcome a
// campaign holds for its operator. It holds the phone number: not for logs.
type DeadLetter struct {
	Recipient int64
	Claim     int32
	Status    engine.Status // Dead, Failed, or Unknown while the campaign holds it
	Code      int           // Meta's; 0: none
	Reason    string        // Meta's words, or why it was given up
	Number    string        // that it was last sent from
	Country   string        // of the phone; "" when that cannot be told
	Phone     string
	Line      int64     // of the imported file
	At        time.Time // when it came to this
	Replays   int       // so far

	lastReplay string
	inHand     bool // its claim batch is not over: a call may still be under way
}

// Sent reports whether its message may have gone out: nobody knows.
func (l DeadLetter) Sent() bool {
	return l.Status == engine.Unknown || l.Status == engine.Dead && (l.Reason == ReasonUnknown || l.Reason == ReasonClosed)
}

// Countries tells the country of a phone number, as two letters, or "".
type Countries func(phone string) string

// deadIDs is how many ids one page of dead letters covers: large, because in
// most campaigns few of them are any.
const deadIDs = 100_000

// DeadLetters yields a campaign's dead letters in the order of its file, each
// page as of when it was read. The cost grows with the dead letters and hardly
// with the audience: a few seconds per million. An error ends it.
func (s *Store) DeadLetters(ctx context.Context, campaign int64, countries Countries) iter.Seq2[DeadLetter, error] {
	return func(yield func(DeadLetter, error) bool) {
		for page, err := range s.pages(ctx, campaign, deadIDs) {
			if err != nil {
				yield(DeadLetter{}, err)
				return
			}
			letters, err := s.deadPage(ctx, page, countries)
			if err != nil {
				yield(DeadLetter{}, err)
				return
			}
			for _, l := range letters {
				if !yield(l, nil) {
					return
				}
			}
		}
	}
}

// idPage is a piece of a campaign's ids.
type idPage struct{ campaign, lo, hi int64 }

// pages splits a campaign's ids into pages of at most n.
func (s *Store) pages(ctx context.Context, campaign, n int64) iter.Seq2[idPage, error] {
	return func(yield func(idPage, error) bool) {
		ranges, err := s.q.CampaignRanges(ctx, s.pool, campaign)
		if err != nil {
			yield(idPage{}, fmt.Errorf("read campaign's ranges: %w", err))
			return
		}
		for _, r := range ranges {
			for lo := r.Lo; lo <= r.Hi; lo += n {
				if !yield(idPage{campaign, lo, min(lo+n-1, r.Hi)}, nil) {
					return
				}
			}
		}
	}
}

func (s *Store) deadPage(ctx context.Context, p idPage, countries Countries) ([]DeadLetter, error) {
	rows, err := s.q.DeadLetters(ctx, s.pool, &db.DeadLettersParams{Campaign: p.campaign, Lo: p.lo, Hi: p.hi})
	if err != nil {
		return nil, fmt.Errorf("read dead letters: %w", err)
	}
	letters := make([]DeadLetter, len(rows))
	for i, r := range rows {
		status, err := engine.ParseStatus(r.Status)
		if err != nil {
			return nil, err
		}
		letters[i] = DeadLetter{
			Recipient: r.ID, Claim: r.Claim, Status: status, Code: int(r.Code), Reason: r.Title, Number: r.NumberID,
			Country: countries(r.Phone), Phone: r.Phone, Line: r.Line, At: r.At.Time, Replays: int(r.Replays),
			lastReplay: r.LastReplayID, inHand: r.InHand,
		}
	}
	return letters, nil
}

// DeadFilter chooses among a campaign's dead letters; its zero value takes all.
// A replay that goes on must be given the same one.
type DeadFilter struct {
	Code    *int   `json:"code,omitempty"` // 0: those without a code
	Number  string `json:"number,omitempty"`
	Country string `json:"country,omitempty"` // two letters
	Status  string `json:"status,omitempty"`  // dead or failed
}

// Takes reports whether the filter lets a dead letter through.
func (f DeadFilter) Takes(l DeadLetter) bool {
	return (f.Code == nil || *f.Code == l.Code) && (f.Number == "" || f.Number == l.Number) &&
		(f.Country == "" || f.Country == l.Country) && (f.Status == "" || f.Status == l.Status.String())
}

// DeadKey is what the dead letters of one group have in common.
type DeadKey struct {
	Status  engine.Status
	Code    int
	Reason  string // why it was given up, or the words for what has no code
	Country string
	Number  string
}

// DeadGroup is a group of dead letters.
type DeadGroup struct {
	DeadKey
	Rows        int64
	First, Last time.Time
	Line        int64 // of the imported file: the first of them
}

// key leaves out Meta's words where there is a code: they differ from one answer
// to the next.
func (l DeadLetter) key() DeadKey {
	k := DeadKey{Status: l.Status, Code: l.Code, Country: l.Country, Number: l.Number}
	if l.Code == 0 || l.Status == engine.Dead {
		k.Reason = l.Reason
	}
	return k
}

// GroupDead groups the dead letters that take lets through, the many first.
func GroupDead(letters iter.Seq2[DeadLetter, error], take func(DeadLetter) bool) ([]DeadGroup, error) {
	groups := map[DeadKey]*DeadGroup{}
	for l, err := range letters {
		if err != nil {
			return nil, err
		}
		if !take(l) {
			continue
		}
		g := groups[l.key()]
		if g == nil {
			g = &DeadGroup{DeadKey: l.key(), First: l.At, Last: l.At, Line: l.Line}
			groups[g.DeadKey] = g
		}
		g.Rows++
		g.Line = min(g.Line, l.Line)
		if l.At.Before(g.First) {
			g.First = l.At
		}
		if l.At.After(g.Last) {
			g.Last = l.At
		}
	}
	sorted := make([]DeadGroup, 0, len(groups))
	for _, g := range groups {
		sorted = append(sorted, *g)
	}
	slices.SortFunc(sorted, func(a, b DeadGroup) int { return cmp.Or(cmp.Compare(b.Rows, a.Rows), cmp.Compare(a.Line, b.Line)) })
	return sorted, nil
}

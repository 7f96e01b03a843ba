package store

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/weirhq/weir/engine"
	"github.com/weirhq/weir/internal/store/db"
)

// ReportBreakers adds a node's tallies, moves the breakers that they trip and
// says how the host's and the tallied scopes' stand. A report without tallies
// is not needed: Breakers reads.
func (s *Store) ReportBreakers(ctx context.Context, r engine.Report) ([]engine.Breaker, error) {
	p := reportParams(r)
	var rows []db.ReportBreakersRow
	err := again(func() (err error) {
		tx := &pipeline{pool: s.pool}
		if err = s.q.LockBreakers(ctx, tx, p.Scopes); err != nil {
			return err
		}
		rows, err = s.q.ReportBreakers(ctx, tx, p)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("report to breakers: %w", err)
	}
	all := make([]engine.Breaker, len(rows))
	for i, row := range rows {
		if all[i], err = breaker(db.ReadBreakersRow(row)); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func reportParams(r engine.Report) *db.ReportBreakersParams {
	p := &db.ReportBreakersParams{
		Node: r.Node, Seq: r.Seq, InRow: int32(r.Policy.Failures), Storm: int32(r.Policy.Throttles),
		Least: int32(r.Policy.Samples), Share: r.Policy.Share, WindowSeconds: r.Policy.Window.Seconds(),
		AbstainSeconds: r.Policy.Abstain.Seconds(), BaseSeconds: r.Policy.Base.Seconds(),
	}
	for _, t := range r.Tallies {
		p.Scopes = append(p.Scopes, t.Scope())
		p.Leases = append(p.Leases, t.Lease.ID)
		p.Samples = append(p.Samples, int32(t.Samples))
		p.Failures = append(p.Failures, int32(t.Failures))
		p.Streaks = append(p.Streaks, int32(t.Streak))
		p.Storms = append(p.Storms, int32(t.Storm))
		p.Times = append(p.Times, arrayText(t.Times[:]))
	}
	return p
}

// arrayText is an int[] as Postgres writes it: an array of arrays would have
// to be one of equal lengths, and is unnested to its numbers.
func arrayText(numbers []int) string {
	b := []byte{'{'}
	for i, n := range numbers {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(n), 10)
	}
	return string(append(b, '}'))
}

// Breakers says how the host's breaker and those of the scopes stand, by scope,
// and whether the calls of others than node go well.
func (s *Store) Breakers(ctx context.Context, node string, scopes []string) ([]engine.Breaker, error) {
	rows, err := s.q.ReadBreakers(ctx, s.pool, &db.ReadBreakersParams{Node: node, Scopes: scopes})
	if err != nil {
		return nil, fmt.Errorf("read breakers: %w", err)
	}
	all := make([]engine.Breaker, len(rows))
	for i, row := range rows {
		if all[i], err = breaker(row); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func breaker(r db.ReadBreakersRow) (engine.Breaker, error) {
	state, err := engine.ParseBreakerState(r.State)
	if err != nil {
		return engine.Breaker{}, err
	}
	b := engine.Breaker{Scope: r.Scope, State: state, Mark: r.Mark, Age: duration(r.AgeSeconds), Forced: r.Forced, Others: duration(r.OthersSeconds)}
	if state != engine.BreakerClosed {
		b.Wait = max(0, duration(r.WaitSeconds))
	}
	return b, nil
}

// TakePermit takes the one probe of a scope, if it can be had now, and makes it
// half-open: the token that a claim of one row needs. "" is no.
func (s *Store) TakePermit(ctx context.Context, ask engine.PermitAsk) (token string, err error) {
	tokens, err := s.q.TakePermit(ctx, s.pool, &db.TakePermitParams{
		Scope: ask.Scope, Number: ask.Lease.Number, Lease: ask.Lease.ID, PermitSeconds: ask.For.Seconds(),
	})
	if err != nil {
		return "", fmt.Errorf("take probe permit: %w", err)
	}
	if len(tokens) == 0 {
		return "", nil
	}
	return tokens[0], nil
}

// SettleProbe moves a breaker by what its probe came to. The late word of a
// permit that has run out, or that an operator's force has ended, changes
// nothing and is no error.
func (s *Store) SettleProbe(ctx context.Context, p engine.Probed) error {
	_, err := s.q.SettleProbe(ctx, s.pool, &db.SettleProbeParams{
		Scope: p.Scope, Token: p.Token, Outcome: p.End.String(),
		BaseSeconds: p.Policy.Base.Seconds(), CapSeconds: p.Policy.Cap.Seconds(),
	})
	return wrap("settle probe", err)
}

// Force is an operator's word, or another system's, about a breaker.
type Force struct {
	Scope string              // host, or number:ID
	State engine.BreakerState // open or closed
	For   time.Duration       // at most MaxForce; then it is judged by calls again, from half-open when it was open
	Note  string              // why; people will read it
	Who   string              // for the record
}

// MaxForce is the longest that a breaker can be forced at once.
const MaxForce = 7 * 24 * time.Hour

// ForceBreaker holds a breaker open or closed for a time, whatever calls come
// to. It answers ErrRefused or ErrNotFound.
func (s *Store) ForceBreaker(ctx context.Context, f Force) error {
	note := strings.TrimSpace(clean(f.Note))
	switch {
	case f.State != engine.BreakerOpen && f.State != engine.BreakerClosed:
		return refuse(ErrRefused, "a breaker can be forced open or closed, not %s", f.State)
	case f.For < time.Second || f.For > MaxForce:
		return refuse(ErrRefused, "a breaker is forced for a time of 1s to %s, not %s: give it again when that is over", MaxForce, f.For)
	case note == "":
		return refuse(ErrRefused, "a forced breaker needs a reason: it is what others will read")
	}
	n, err := s.q.ForceBreaker(ctx, s.pool, &db.ForceBreakerParams{
		Scope: f.Scope, State: f.State.String(), ForSeconds: f.For.Seconds(), Note: note, Who: clean(f.Who),
	})
	if err != nil {
		return fmt.Errorf("force breaker: %w", err)
	}
	if n == 0 {
		return noBreaker(f.Scope)
	}
	return nil
}

func noBreaker(scope string) error {
	return refuse(ErrNotFound, "there is no breaker %q: breaker list shows those there are (host, and number:ID for each number)", scope)
}

// BreakerInfo is a breaker as people look at it.
type BreakerInfo struct {
	Scope      string
	State      engine.BreakerState
	Since      time.Time
	Reason     string        // of its last move
	Note       string        // an operator's words with it
	Cause      string        // why it last opened; "" when it never has
	ForcedLeft time.Duration // an operator holds it for so much longer
	Epoch      string
	Seq        int64 // of its last move in the epoch

	Openings int64         // in the last 24 hours
	MeanOpen time.Duration // of those, from opening to closing

	Samples, Failures int64 // calls of the last minute that say something of the platform
	P95, P99          time.Duration
}

// BreakerList tells of every breaker, by scope.
func (s *Store) BreakerList(ctx context.Context) ([]BreakerInfo, error) {
	rows, err := s.q.ListBreakers(ctx, s.pool)
	if err != nil {
		return nil, fmt.Errorf("list breakers: %w", err)
	}
	times, err := s.breakerTimes(ctx)
	if err != nil {
		return nil, err
	}
	list := make([]BreakerInfo, len(rows))
	for i, r := range rows {
		state, err := engine.ParseBreakerState(r.State)
		if err != nil {
			return nil, err
		}
		list[i] = BreakerInfo{
			Scope: r.Scope, State: state, Since: r.Since.Time, Reason: r.Reason, Note: r.Note, Cause: r.Cause,
			ForcedLeft: duration(r.ForcedSeconds), Epoch: r.Epoch, Seq: r.Seq,
			Openings: r.Openings, MeanOpen: duration(r.MeanOpenSeconds), Samples: r.Samples, Failures: r.Failures,
			P95: times[r.Scope].Quantile(.95), P99: times[r.Scope].Quantile(.99),
		}
	}
	return list, nil
}

func (s *Store) breakerTimes(ctx context.Context) (map[string]engine.Times, error) {
	rows, err := s.q.BreakerTimes(ctx, s.pool)
	if err != nil {
		return nil, fmt.Errorf("read times of calls: %w", err)
	}
	all := map[string]engine.Times{}
	for _, r := range rows {
		t := all[r.Scope]
		if i := int(r.Class) - 1; i >= 0 && i < len(t) { // another version may have other classes
			t[i] = int(r.N)
		}
		all[r.Scope] = t
	}
	return all, nil
}

// BreakerMoves are a breaker's state, whether anybody waits behind it, and how
// often it has come into each state: for metrics.
type BreakerMoves struct {
	Scope string
	State engine.BreakerState
	Waits bool // it is not closed, and somebody could be sent to if it were
	To    map[engine.BreakerState]int64
}

// BreakerMoves reads every breaker's, by scope.
func (s *Store) BreakerMoves(ctx context.Context) ([]BreakerMoves, error) {
	rows, err := s.q.BreakerMoves(ctx, s.pool)
	if err != nil {
		return nil, fmt.Errorf("count breakers' moves: %w", err)
	}
	all := make([]BreakerMoves, len(rows))
	for i, r := range rows {
		state, err := engine.ParseBreakerState(r.State)
		if err != nil {
			return nil, err
		}
		all[i] = BreakerMoves{Scope: r.Scope, State: state, Waits: r.Waits, To: map[engine.BreakerState]int64{
			engine.BreakerClosed: r.ToClosed, engine.BreakerHalfOpen: r.ToHalfOpen, engine.BreakerOpen: r.ToOpen,
		}}
	}
	return all, nil
}

// ForgetBreakerEvents deletes moves older than 90 days: who follows a breaker
// must not fall further behind.
func (s *Store) ForgetBreakerEvents(ctx context.Context) error {
	_, err := s.q.ForgetBreakerEvents(ctx, s.pool)
	return wrap("forget old breaker events", err)
}

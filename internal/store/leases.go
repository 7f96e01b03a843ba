package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/weirhq/weir/engine"
	"github.com/weirhq/weir/internal/store/db"
)

var (
	_ engine.Store       = (*Store)(nil)
	_ engine.StatusStore = (*Store)(nil)
)

// Census lists the numbers that need an owner, by id, those with a living
// lease too (a bidder must have watched a lease stand still before it bids), and
// the nodes seen within ttl, also apart those that cannot reach the platform. Like all that is about leases it has connections of
// its own and waits for no other work.
func (s *Store) Census(ctx context.Context, ttl time.Duration) (engine.Census, error) {
	rows, err := s.q.Census(ctx, s.leases, ttl.Seconds())
	if err != nil {
		return engine.Census{}, fmt.Errorf("list numbers that need an owner: %w", err)
	}
	var census engine.Census
	for _, r := range rows {
		census.Nodes, census.Apart = r.Nodes, r.Apart
		if r.NumberID == "" {
			break
		}
		census.Candidates = append(census.Candidates, engine.Candidate{
			Number: r.NumberID, LeaseID: r.LeaseID, Beats: r.Hb, Holder: r.Holder,
			Free: r.Free, Expired: duration(r.ExpiredSeconds),
		})
	}
	return census, nil
}

// Acquire takes a lease or answers engine.ErrLeaseTaken. It waits for a claim
// of the old owner that is under way.
func (s *Store) Acquire(ctx context.Context, bid engine.Bid) (engine.Grant, error) {
	if bid.Seen.LeaseID == "" {
		if err := s.q.EnsureLease(ctx, s.leases, bid.Seen.Number); err != nil {
			return engine.Grant{}, fmt.Errorf("make lease row: %w", err)
		}
	}
	row, err := s.q.AcquireLease(ctx, s.leases, &db.AcquireLeaseParams{
		Number: bid.Seen.Number, Node: bid.Node, SeenLease: bid.Seen.LeaseID, SeenHb: bid.Seen.Beats,
		TtlSeconds: bid.TTL.Seconds(), QuarantineSeconds: bid.Quarantine.Seconds(),
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return engine.Grant{}, engine.ErrLeaseTaken
	}
	if err != nil {
		return engine.Grant{}, fmt.Errorf("acquire lease: %w", err)
	}
	return engine.Grant{
		Lease: engine.LeaseID{Number: bid.Seen.Number, ID: row.LeaseID},
		Ready: duration(row.ReadySeconds),
	}, nil
}

// Heartbeat says that a node lives, or leaves, and whether it reaches the
// platform, and renews its leases, on a connection that nothing else uses.
func (s *Store) Heartbeat(ctx context.Context, beat engine.Beat) (engine.Pulse, error) {
	p := &db.HeartbeatParams{Node: beat.Node, Leaving: beat.Leaving, Apart: beat.Apart, TtlSeconds: beat.TTL.Seconds()}
	for _, l := range beat.Leases {
		p.Numbers = append(p.Numbers, l.Number)
		p.Leases = append(p.Leases, l.ID)
	}
	var row db.HeartbeatRow
	err := again(func() (err error) {
		row, err = s.q.Heartbeat(ctx, s.beats, p)
		return err
	})
	if err != nil {
		return engine.Pulse{}, fmt.Errorf("renew leases: %w", err)
	}
	pulse := engine.Pulse{Cluster: row.Cluster, Held: make([]engine.LeaseID, len(row.Numbers))}
	for i, number := range row.Numbers {
		pulse.Held[i] = engine.LeaseID{Number: number, ID: row.Leases[i]}
	}
	return pulse, nil
}

// Release gives a lease back; one that is no longer held stays as it is.
func (s *Store) Release(ctx context.Context, lease engine.LeaseID) error {
	if _, err := s.q.ReleaseLease(ctx, s.leases, &db.ReleaseLeaseParams{Number: lease.Number, Lease: lease.ID}); err != nil {
		return fmt.Errorf("release lease: %w", err)
	}
	return nil
}

// Work reads the number's settings, what it may claim from now, higher priority
// first, and which pauses and cancels the lease has not acknowledged yet. A zone
// that is closed, and a campaign without an open one, are left out.
func (s *Store) Work(ctx context.Context, lease engine.LeaseID) (engine.Work, error) {
	number, err := s.FindNumber(ctx, lease.Number)
	if err != nil {
		return engine.Work{}, err
	}
	rows, err := s.q.WorkCampaigns(ctx, s.pool, lease.Number)
	if err != nil {
		return engine.Work{}, fmt.Errorf("read running campaigns: %w", err)
	}
	controls, err := s.q.WorkControls(ctx, s.pool, &db.WorkControlsParams{Number: lease.Number, Lease: lease.ID})
	if err != nil {
		return engine.Work{}, fmt.Errorf("read pauses and cancels: %w", err)
	}
	work := engine.Work{Number: number.Number, Campaigns: make([]engine.Campaign, len(rows))}
	for _, c := range controls {
		work.Controls = append(work.Controls, engine.Control{Campaign: c.ID, Version: c.ControlVersion})
	}
	for i, r := range rows {
		t := &engine.Template{Name: r.Template, Language: r.Language, Category: engine.Category(r.Category)}
		if err := json.Unmarshal(r.Params, &t.Params); err != nil {
			return engine.Work{}, fmt.Errorf("decode template parameters of campaign %d: %w", r.ID, err)
		}
		work.Campaigns[i] = engine.Campaign{
			ID: r.ID, Priority: int(r.Priority), Zones: r.Zones, Template: t, Capped: r.Capped,
			Retry: engine.Retry{MaxAttempts: int(r.MaxAttempts), Jitter: engine.Jitter(r.Jitter)},
		}
	}
	return work, nil
}

// Restrain holds a number (or its account's numbers, or all of its app's) or a
// campaign (or all that send its template) back, for every node, from the next
// claim on. What an operator or an earlier answer holds back for longer stays
// so. It is the one way to stop something, whoever heard the platform say so.
func (s *Store) Restrain(ctx context.Context, r engine.Restraint) error {
	switch r.Kind {
	case engine.PauseNumber:
		_, err := s.q.PauseNumbers(ctx, s.pool, &db.PauseNumbersParams{
			Number: r.Number, Reach: reach(r.Scope), PauseSeconds: r.For.Seconds(),
			LearnedMps: r.Learned.Rate, LearnedCeiling: r.Learned.Ceiling,
		})
		return wrap("pause number", err)
	case engine.HaltNumber:
		_, err := s.q.HaltNumbers(ctx, s.pool, &db.HaltNumbersParams{Number: r.Number, Reach: reach(r.Scope), Reason: reason(r), ToldAt: instant(r.Told)})
		return wrap("stop number", err)
	case engine.HaltCampaign:
		_, err := s.q.HaltCampaigns(ctx, s.pool, &db.HaltCampaignsParams{
			Campaign: r.Campaign, Number: r.Number, Reach: reach(r.Scope), Reason: reason(r), ToldAt: instant(r.Told),
		})
		return wrap("stop campaign", err)
	case engine.PauseCampaign:
		_, err := s.q.PauseCampaigns(ctx, s.pool, &db.PauseCampaignsParams{
			Campaign: r.Campaign, Number: r.Number, Reach: reach(r.Scope), Reason: reason(r), PauseSeconds: r.For.Seconds(), ToldAt: instant(r.Told),
		})
		return wrap("pause campaign", err)
	default:
		return fmt.Errorf("restrain: no restraint of kind %d", r.Kind)
	}
}

// reach is a scope in the words of the statements that pause and halt.
func reach(s engine.Scope) string {
	switch s {
	case engine.ScopeApp:
		return "app"
	case engine.ScopeWABA:
		return "waba"
	case engine.ScopeTemplate:
		return "template"
	default:
		return "number"
	}
}

// reason is what an operator reads: the platform's code, what happened, and what
// to do about it.
func reason(r engine.Restraint) string {
	text := clean(r.Reason)
	if r.Code != 0 {
		text = fmt.Sprintf("%d: %s", r.Code, text)
	}
	if r.Advice != "" {
		text += "; " + clean(r.Advice)
	}
	return text
}

// wrap is nil for nil.
func wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}

package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weirhq/weir/internal/store/db"
)

// Notices are kept for NoticeDays, and NoticesKept of them at most, whether or
// not everybody has been told: a receiver that was away for longer finds their
// numbers missing.
const (
	NoticeDays  = 7
	NoticesKept = 10_000
)

// StaysOpenAfter is how long a breaker may be open before people are told again.
const StaysOpenAfter = 2 * time.Minute

// Notice is something that somebody should be told, as a statement wrote it.
type Notice struct {
	Seq     int64     // its place in the log: 1, 2, 3 …
	Key     string    // UUID; receivers know it by it
	Origin  string    // UUID of the log
	Kind    string    // as campaign.stopped
	Subject string    // as campaign:12
	Body    []byte    // JSON
	At      time.Time // when it happened
}

// EndpointClaim is the right to deliver to one endpoint, for a time.
type EndpointClaim struct {
	Endpoint string
	ID       string // UUID
	Seq      int64  // of the last notice that the endpoint took
	Failures int    // in a row, before this
}

// GatherNotices writes the notices of what breakers did, and of a database that
// nobody vouches for, and numbers all that are new. It returns how many those were.
func (s *Store) GatherNotices(ctx context.Context) (int, error) {
	var numbered []int64
	err := again(func() error {
		tx := &pipeline{pool: s.pool}
		err := errors.Join(s.q.LockNotices(ctx, tx), s.q.TellMoves(ctx, tx), s.q.TellLongOpen(ctx, tx, StaysOpenAfter.Seconds()), s.q.TellUnconfirmed(ctx, tx))
		if err != nil {
			return err
		}
		numbered, err = s.q.NumberNotices(ctx, tx)
		return err
	})
	if err != nil || len(numbered) == 0 {
		return 0, wrap("gather notices", err)
	}
	return int(numbered[0]), nil
}

// SeeEndpoints says which endpoints this node knows, by key, with what people
// call them. One that is new is told of what happens from now on.
func (s *Store) SeeEndpoints(ctx context.Context, names map[string]string) error {
	p := &db.SeeEndpointsParams{}
	for key, name := range names {
		p.Endpoints = append(p.Endpoints, key)
		p.Names = append(p.Names, name)
	}
	if err := again(func() error { return s.q.SeeEndpoints(ctx, s.pool, p) }); err != nil {
		return fmt.Errorf("see endpoints: %w", err)
	}
	return nil
}

// DueEndpoints are the endpoints that have something to be told and to which
// nobody delivers, by key, with the claim that was last taken.
func (s *Store) DueEndpoints(ctx context.Context) (map[string]string, error) {
	rows, err := s.q.DueEndpoints(ctx, s.pool)
	if err != nil {
		return nil, fmt.Errorf("look for notices to deliver: %w", err)
	}
	due := map[string]string{}
	for _, r := range rows {
		due[r.Endpoint] = r.Claim
	}
	return due, nil
}

// ClaimEndpoint takes the right to deliver to an endpoint for hold, and reports
// whether it did: one at a time has it. Within hold the caller must advance,
// fail or leave, or another takes over.
func (s *Store) ClaimEndpoint(ctx context.Context, endpoint string, hold time.Duration) (EndpointClaim, bool, error) {
	rows, err := s.q.ClaimEndpoint(ctx, s.pool, &db.ClaimEndpointParams{Endpoint: endpoint, HoldSeconds: hold.Seconds()})
	if err != nil {
		return EndpointClaim{}, false, fmt.Errorf("claim endpoint: %w", err)
	}
	if len(rows) == 0 {
		return EndpointClaim{}, false, nil
	}
	r := rows[0]
	return EndpointClaim{Endpoint: endpoint, ID: r.Claim, Seq: r.Seq, Failures: int(r.Failures)}, true, nil
}

// NoticesAfter reads the next notices of the log, a page.
func (s *Store) NoticesAfter(ctx context.Context, seq int64) ([]Notice, error) {
	rows, err := s.q.NoticesAfter(ctx, s.pool, seq)
	if err != nil {
		return nil, fmt.Errorf("read notices: %w", err)
	}
	notices := make([]Notice, len(rows))
	for i, r := range rows {
		notices[i] = Notice{Seq: r.Seq, Key: r.Key, Origin: r.Origin, Kind: r.Kind, Subject: r.Subject, Body: r.Body, At: r.At.Time}
	}
	return notices, nil
}

// AdvanceEndpoint commits that the endpoint has taken everything up to seq,
// holds on for another hold, and reports whether the claim was still good.
func (s *Store) AdvanceEndpoint(ctx context.Context, c EndpointClaim, seq int64, hold time.Duration) (bool, error) {
	n, err := s.q.AdvanceEndpoint(ctx, s.pool, &db.AdvanceEndpointParams{
		Endpoint: c.Endpoint, Claim: c.ID, Seq: seq, HoldSeconds: hold.Seconds(),
	})
	if err != nil {
		return false, fmt.Errorf("advance endpoint: %w", err)
	}
	return n == 1, nil
}

// FailEndpoint ends a claim whose last attempt failed: nobody tries again for
// delay. trouble is kept for people; it must hold no secret.
func (s *Store) FailEndpoint(ctx context.Context, c EndpointClaim, trouble string, delay time.Duration) error {
	err := s.q.FailEndpoint(ctx, s.pool, &db.FailEndpointParams{
		Endpoint: c.Endpoint, Claim: c.ID, Trouble: clean(trouble), DelaySeconds: delay.Seconds(),
	})
	return wrap("note endpoint's failure", err)
}

// LeaveEndpoint ends a claim.
func (s *Store) LeaveEndpoint(ctx context.Context, c EndpointClaim) error {
	return wrap("leave endpoint", s.q.LeaveEndpoint(ctx, s.pool, &db.LeaveEndpointParams{Endpoint: c.Endpoint, Claim: c.ID}))
}

// DropNotices deletes notices that are older than NoticeDays or beyond
// NoticesKept, and endpoints that no node has known for as long.
func (s *Store) DropNotices(ctx context.Context) error {
	return wrap("drop old notices", s.q.DropNotices(ctx, s.pool, &db.DropNoticesParams{Days: NoticeDays, Most: NoticesKept}))
}

// NoticeLag is how long the oldest notice that an endpoint has not taken waits,
// by what people call the endpoint; 0 when it has been told everything.
func (s *Store) NoticeLag(ctx context.Context) (map[string]time.Duration, error) {
	rows, err := s.q.NoticeLag(ctx, s.pool)
	if err != nil {
		return nil, fmt.Errorf("measure notices' lag: %w", err)
	}
	lag := map[string]time.Duration{}
	for _, r := range rows {
		lag[r.Name] = duration(r.Seconds)
	}
	return lag, nil
}

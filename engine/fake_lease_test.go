package engine

import (
	"context"
	"errors"
	"fmt"
	"time"
)

func (m *memory) Candidates(ctx context.Context) ([]Candidate, error) {
	if err := m.begin(ctx, "candidates", nil); err != nil {
		return nil, err
	}
	var out []Candidate
	for _, n := range m.numbers {
		needed := false
		for _, c := range m.campaigns {
			needed = needed || !c.halted
		}
		for k := range m.claims {
			needed = needed || k.lease.Number == n.ID
		}
		if needed {
			out = append(out, Candidate{
				Number: n.ID, LeaseID: n.lease.ID, Beats: n.beats, Holder: n.holder,
				Free: n.lease.ID == "" || n.released, Expired: time.Since(n.expires),
			})
		}
	}
	return out, m.end("candidates", nil)
}

func (m *memory) Acquire(ctx context.Context, bid Bid) (Grant, error) {
	if err := m.begin(ctx, "acquire", bid); err != nil {
		return Grant{}, err
	}
	n, now := m.numbers[bid.Seen.Number], time.Now()
	free := n.lease.ID == "" || n.released
	if !free && (now.Before(n.expires) || n.lease.ID != bid.Seen.LeaseID || n.beats != bid.Seen.Beats) {
		m.mu.Unlock()
		return Grant{}, ErrLeaseTaken
	}
	m.grants++
	if free {
		n.ready = later(n.ready, now)
	} else {
		n.ready = later(n.expires, now).Add(bid.Quarantine)
	}
	n.lease = LeaseID{Number: n.ID, ID: fmt.Sprint("lease-", m.grants)}
	n.holder, n.beats, n.released, n.expires = bid.Node, 0, false, now.Add(bid.TTL)
	return Grant{Lease: n.lease, Ready: n.ready.Sub(now)}, m.end("acquire", bid)
}

func (m *memory) Heartbeat(ctx context.Context, ttl time.Duration, leases []LeaseID) ([]LeaseID, error) {
	if err := m.begin(ctx, "heartbeat", leases); err != nil {
		return nil, err
	}
	var kept []LeaseID
	for _, id := range leases {
		if n := m.numbers[id.Number]; n.lease == id && !n.released {
			n.beats++
			n.expires = time.Now().Add(ttl)
			kept = append(kept, id)
		}
	}
	return kept, m.end("heartbeat", leases)
}

func (m *memory) Release(ctx context.Context, id LeaseID) error {
	if err := m.begin(ctx, "release", id); err != nil {
		return err
	}
	if n := m.numbers[id.Number]; n.lease == id {
		n.released = true
	}
	return m.end("release", id)
}

func (m *memory) Reclaim(ctx context.Context, id LeaseID) (int, error) {
	if err := m.begin(ctx, "reclaim", id); err != nil {
		return 0, err
	}
	if m.fenced(id) {
		return 0, errors.Join(m.end("reclaim", id), ErrNotReady)
	}
	turned := 0
	for k, b := range m.claims {
		if k.lease.Number != id.Number || k.lease == id {
			continue
		}
		for i, rid := range b.ids {
			if r := m.row(rid); r.status == Sending && r.claim == b.fences[i] {
				r.status = Unknown
				turned++
			}
		}
		delete(m.claims, k)
	}
	return turned, m.end("reclaim", id)
}

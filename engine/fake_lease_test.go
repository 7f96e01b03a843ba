package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

func (m *memory) Census(ctx context.Context, ttl time.Duration) (Census, error) {
	if err := m.begin(ctx, "census", nil); err != nil {
		return Census{}, err
	}
	var out Census
	for _, id := range slices.Sorted(maps.Keys(m.numbers)) {
		n := m.numbers[id]
		needed := false
		for _, c := range m.campaigns {
			needed = needed || !c.halted
		}
		for k := range m.claims {
			needed = needed || k.lease.Number == n.ID
		}
		if needed {
			out.Candidates = append(out.Candidates, Candidate{
				Number: n.ID, LeaseID: n.lease.ID, Beats: n.beats, Holder: n.holder,
				Free: n.lease.ID == "" || n.released, Expired: time.Since(n.expires),
			})
		}
	}
	for _, id := range slices.Sorted(maps.Keys(m.nodes)) {
		if time.Since(m.nodes[id]) < ttl {
			out.Nodes = append(out.Nodes, id)
			if m.apart[id] {
				out.Apart = append(out.Apart, id)
			}
		}
	}
	return out, m.end("census", nil)
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

func (m *memory) Heartbeat(ctx context.Context, beat Beat) (Pulse, error) {
	if err := m.begin(ctx, "heartbeat", beat); err != nil {
		return Pulse{}, err
	}
	now := time.Now()
	m.nodes[beat.Node], m.apart[beat.Node] = now, beat.Apart
	if beat.Leaving {
		delete(m.nodes, beat.Node)
	}
	pulse := Pulse{Cluster: m.cluster}
	for _, id := range beat.Leases {
		if n := m.numbers[id.Number]; n.lease == id && !n.released {
			n.beats++
			n.expires = now.Add(beat.TTL)
			pulse.Held = append(pulse.Held, id)
		}
	}
	return pulse, m.end("heartbeat", beat)
}

func (m *memory) Release(ctx context.Context, id LeaseID) error {
	if err := m.begin(ctx, "release", id); err != nil {
		return err
	}
	if n := m.numbers[id.Number]; n.lease == id {
		n.released, n.expires = true, time.Now()
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

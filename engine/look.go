package engine

import (
	"context"
	"maps"
	"slices"
	"time"
)

// look reads which numbers need an owner and which nodes live, takes or gives
// what is due, ends the lanes of numbers that need no owner, and returns how
// long to rest until the next look.
func (n *Node) look(ctx context.Context) time.Duration {
	rest := jittered(n.opts.Poll)
	call, cancel := context.WithTimeout(ctx, n.opts.CallTimeout)
	defer cancel()
	census, err := n.opts.Store.Census(call, n.opts.TTL)
	if err != nil {
		if ctx.Err() == nil {
			n.log.Warn("numbers without an owner not read; trying again", "err", err)
		}
		return rest
	}
	n.stats.living.Set(float64(len(census.Nodes)))
	now := time.Now()
	n.observe(census.Candidates, now)
	posts := n.posts(census.Nodes, now)
	nodes, able := n.counted(census, posts, now)
	m := spread(n.opts.ID, nodes, posts)
	if !able {
		m.give = nil
	}
	for number, w := range n.watches {
		w.to = m.left[number]
		n.watches[number] = w
	}
	for _, number := range m.bids {
		n.acquire(ctx, n.watches[number].seen)
	}
	for _, number := range m.give {
		n.give(number)
	}
	n.retire()
	return min(rest, n.next(now))
}

// observe keeps the watches up to what a census shows.
func (n *Node) observe(candidates []Candidate, now time.Time) {
	watches := make(map[string]watch, len(candidates))
	for _, c := range candidates {
		n.decline(c)
		w := n.watches[c.Number].observed(c, now, n.opts.TTL)
		if w.opened.IsZero() && !w.told && !n.holds(c.Number) && w.silent(now, n.opts.Heartbeat+n.opts.CallTimeout) {
			w.told = true
			n.log.Info("number is leased to a node that is silent; if that one is dead, another takes over after the quarantine",
				"number", c.Number, "holder", c.Holder, "lease", c.LeaseID,
				"wait", (w.remaining(now, n.opts.TTL) + n.opts.Quarantine).Round(time.Second))
		}
		watches[c.Number] = w
	}
	n.watches = watches
}

func (n *Node) holds(number string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.held[number] != nil
}

// posts are the numbers that need an owner, by id, with those that have one.
// A lease in this node's name that it does not hold is a former life's.
func (n *Node) posts(living []string, now time.Time) []post {
	n.mu.Lock()
	defer n.mu.Unlock()
	posts := make([]post, 0, len(n.watches))
	for _, number := range slices.Sorted(maps.Keys(n.watches)) {
		w, h, x := n.watches[number], n.held[number], post{number: number}
		switch holder := w.seen.Holder; {
		case h != nil && !h.ending:
			x.holder = n.opts.ID
		case w.opened.IsZero() && holder != n.opts.ID && slices.Contains(living, holder):
			x.holder = holder
		case !w.opened.IsZero() && h == nil:
			x.open, x.round = true, w.round(now, n.turn())
		}
		posts = append(posts, x)
	}
	return posts
}

// counted are the nodes that numbers are shared out among: this one and those
// that live, without those that let a number pass, and without those that cannot
// reach the platform, be it this one. When that leaves nobody able all count for
// what has no owner, and the others stay where they are: none would be better off
// elsewhere.
func (n *Node) counted(census Census, posts []post, now time.Time) (nodes []string, able bool) {
	living := census.Nodes
	load := make(map[string]int, len(living))
	for _, x := range posts {
		load[x.holder]++
	}
	for _, x := range posts {
		if to := n.watches[x.number].to; to != "" && x.open && x.round > 0 {
			n.shy.passed(to, load[to], now)
		}
	}
	maps.DeleteFunc(n.shy, func(node string, _ pass) bool { return !slices.Contains(living, node) })
	var all, well []string
	for _, node := range slices.Concat(living, []string{n.opts.ID}) {
		if node != n.opts.ID && !n.shy.counts(node, load[node], now) || slices.Contains(all, node) {
			continue
		}
		all = append(all, node)
		if !slices.Contains(census.Apart, node) {
			well = append(well, node)
		}
	}
	if able = well != nil; able {
		all = well
	}
	slices.Sort(all)
	return all, able
}

// turn is how long an open number is left to the node that it should go to:
// longer than that one's rest between two looks.
func (n *Node) turn() time.Duration { return n.opts.Poll * 3 / 2 }

// next is how long until a watched lease can be asked for, or until another
// node has had its turn.
func (n *Node) next(now time.Time) time.Duration {
	first := n.opts.TTL
	for number, w := range n.watches {
		switch {
		case w.to != "":
			first = min(first, n.turn()-now.Sub(w.opened)%n.turn())
		case w.opened.IsZero() && !n.holds(number):
			first = min(first, max(w.remaining(now, n.opts.TTL), 0))
		}
	}
	return first + time.Millisecond
}

// give ends the lane of a number that another node should have.
func (n *Node) give(number string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if h := n.held[number]; h != nil {
		n.log.Info("number is given up for a node that has fewer, or that reaches the platform", "number", number)
		h.stop(errShare)
	}
}

// retire ends the lanes of numbers that need no owner.
func (n *Node) retire() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for number, h := range n.held {
		if _, needed := n.watches[number]; !needed && h.lane != nil && h.lane.idle.Load() {
			h.stop(errIdle)
		}
	}
}

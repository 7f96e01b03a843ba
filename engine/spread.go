package engine

import (
	"slices"
	"time"
)

const (
	shyLeast = 10 * time.Second // how long a node that let a number pass is not counted; doubles
	shyMost  = time.Hour
	// lastRound is when anyone takes an open number: others have had their turn,
	// and those that were counted on instead of them.
	lastRound = 2
)

// post is a number that needs an owner, as one node sees it at one look.
type post struct {
	number string
	holder string // the living node that owns it; "" = none
	open   bool   // it has none and may be bid for now
	round  int    // how often whoever could take it has had the time to
}

// moves are what a node makes of one look.
type moves struct {
	bids []string          // numbers to bid for now
	left map[string]string // open numbers that are another's to take → that node
	give []string          // numbers to drain and release
}

// spread shares numbers out among nodes (me among them, in order of id), so
// that they end within one of even and then stay where they are. Every node
// decides for itself, and as long as they see the same they decide the same:
// an open number goes to whichever holds least, the first by id of several. A
// number that has been left to others for lastRound rounds is taken all the
// same. A number moves from a living owner only when none lacks one: then those
// above their share give one each, at a time. A node that is not among nodes
// takes nothing and gives all it has.
func spread(me string, nodes []string, posts []post) moves {
	load := make(map[string]int, len(nodes))
	for _, n := range nodes {
		load[n] = 0
	}
	m, owned := moves{left: make(map[string]string)}, true
	for _, x := range posts {
		if _, counts := load[x.holder]; counts {
			load[x.holder]++
		}
		owned = owned && x.holder != ""
	}
	_, counts := load[me]
	switch mine := held(me, posts); {
	case !counts:
		m.give = mine
		return m
	case owned && load[me] > share(me, nodes, load):
		m.give = mine[len(mine)-1:]
	}
	for _, x := range posts {
		if !x.open {
			continue
		}
		to := slices.MinFunc(nodes, func(a, b string) int { return load[a] - load[b] })
		load[to]++
		if to == me || x.round >= lastRound {
			m.bids = append(m.bids, x.number)
		} else {
			m.left[x.number] = to
		}
	}
	return m
}

// share is how many of what they hold a node may keep: as many as every other,
// and those that hold most keep the remainder, so that the fewest move.
func share(me string, nodes []string, load map[string]int) int {
	total, ahead := 0, 0
	for _, n := range nodes {
		total += load[n]
		if load[n] > load[me] || (load[n] == load[me] && n < me) {
			ahead++
		}
	}
	if ahead < total%len(nodes) {
		return total/len(nodes) + 1
	}
	return total / len(nodes)
}

// held is my numbers.
func held(me string, posts []post) (numbers []string) {
	for _, x := range posts {
		if x.holder == me {
			numbers = append(numbers, x.number)
		}
	}
	return numbers
}

// shy is a node's memory of others that live and let numbers pass that were
// theirs to take. They are not counted for a while, or numbers would be given
// up for them again and again. One that comes to hold more is counted at once.
type shy map[string]pass

type pass struct {
	load  int // what the node held then
	wait  time.Duration
	until time.Time
}

// passed notes that a node that holds load numbers let one pass.
func (s shy) passed(node string, load int, now time.Time) {
	if p, ok := s[node]; !ok || !now.Before(p.until) {
		wait := min(max(2*p.wait, shyLeast), shyMost)
		s[node] = pass{load: load, wait: wait, until: now.Add(wait)}
	}
}

// counts reports whether a node is counted on.
func (s shy) counts(node string, load int, now time.Time) bool {
	p, ok := s[node]
	if ok && load > p.load {
		delete(s, node)
		return true
	}
	return !ok || !now.Before(p.until)
}

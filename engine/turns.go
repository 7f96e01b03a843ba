package engine

import (
	"cmp"
	"slices"
)

// turns orders the campaigns of one number: higher priority first, equal ones
// in rotation. Whoever has been tried goes to the back of its equals, so a
// small campaign waits one claim, not ten million rows; and one that was idle
// has saved up nothing to take at once later.
type turns struct {
	last map[int64]int64 // campaign → seq of the last claim that tried it
}

// slices is the order of an Ask for free rows. Every share is the whole ask:
// the statement takes them in order and stops when it has enough, so that an
// idle campaign's share is never left unused.
func (t *turns) slices(campaigns []Campaign, seq int64, free int) []Slice {
	order := slices.Clone(campaigns)
	slices.SortStableFunc(order, func(a, b Campaign) int {
		return cmp.Or(
			cmp.Compare(b.Priority, a.Priority),
			cmp.Compare(t.last[a.ID], t.last[b.ID]),
			cmp.Compare(a.ID, b.ID),
		)
	})
	var out []Slice
	for _, c := range order {
		for i := range c.Zones { // zones of one campaign rotate too
			zone := c.Zones[(i+int(seq%int64(len(c.Zones))))%len(c.Zones)]
			out = append(out, Slice{Campaign: c.ID, Zone: zone, Share: free})
		}
	}
	return out
}

// took moves the campaigns that a claim has tried to the back: all of them
// when it found fewer rows than asked, else those up to the last that gave any.
func (t *turns) took(asked []Slice, seq int64, free int, rows []Recipient) {
	tried := len(asked)
	if len(rows) >= free {
		gave := make(map[int64]bool)
		for _, r := range rows {
			gave[r.Campaign] = true
		}
		for tried > 0 && !gave[asked[tried-1].Campaign] {
			tried--
		}
	}
	last := make(map[int64]int64, len(asked))
	for i, s := range asked {
		if i < tried {
			last[s.Campaign] = seq
		} else if _, ok := last[s.Campaign]; !ok {
			last[s.Campaign] = t.last[s.Campaign]
		}
	}
	t.last = last // campaigns that are gone are forgotten
}

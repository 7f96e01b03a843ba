package chaos

import (
	"cmp"
	"slices"
	"time"
)

// evidence is a history with its facts laid side by side.
type evidence struct {
	*History
	rows      map[int64]*Row
	campaigns map[int64]*Campaign
	sends     map[int64][]*Request // by recipient, in order
	message   map[string]*Request  // by message
	heard     map[uint64][]word    // by request: acknowledged statuses
	told      map[uint64]int       // by request: greatest rank told, acknowledged or not
	claimed   map[fence][]*Claim   // in order
	byNumber  map[string]*ownership
}

// word is a status that a webhook told and a node acknowledged.
type word struct {
	status string
	at     time.Duration
}

// fence names one claim of one recipient.
type fence struct {
	recipient int64
	claim     int32
}

// ownership is one number's life: its leases and its calls, each in order.
type ownership struct {
	number   Number
	events   []Lease
	grants   []Lease
	order    map[string]int // lease → place among grants
	requests []*Request
}

func gather(h *History) *evidence {
	e := &evidence{
		History: h, rows: map[int64]*Row{}, campaigns: map[int64]*Campaign{}, sends: map[int64][]*Request{},
		message: map[string]*Request{}, heard: map[uint64][]word{}, told: map[uint64]int{},
		claimed: map[fence][]*Claim{}, byNumber: map[string]*ownership{},
	}
	for i := range h.Rows {
		e.rows[h.Rows[i].ID] = &h.Rows[i]
	}
	for i := range h.Campaigns {
		e.campaigns[h.Campaigns[i].ID] = &h.Campaigns[i]
	}
	e.gatherClaims()
	for _, n := range h.Run.Numbers {
		e.byNumber[n.ID] = &ownership{number: n, order: map[string]int{}}
	}
	e.gatherLeases()
	e.gatherRequests()
	for i := range h.Tries {
		e.hear(&h.Tries[i])
	}
	return e
}

func (e *evidence) gatherRequests() {
	for i := range e.Requests {
		r := &e.Requests[i]
		if r.Message != "" {
			e.message[r.Message] = r
		}
		if r.Recipient != 0 {
			e.sends[r.Recipient] = append(e.sends[r.Recipient], r)
		}
		if o := e.byNumber[r.Number]; o != nil {
			o.requests = append(o.requests, r)
		}
	}
}

func (e *evidence) gatherLeases() {
	for _, l := range e.Leases {
		o := e.byNumber[l.Number]
		if o == nil {
			continue
		}
		o.events = append(o.events, l)
		if l.Kind == "grant" {
			o.order[l.Lease] = len(o.grants)
			o.grants = append(o.grants, l)
		}
	}
}

func (e *evidence) gatherClaims() {
	for i := range e.Claims {
		c := &e.Claims[i]
		for k, id := range c.IDs {
			f := fence{id, c.Fences[k]}
			e.claimed[f] = append(e.claimed[f], c)
		}
	}
	for _, list := range e.claimed {
		slices.SortStableFunc(list, func(a, b *Claim) int { return cmp.Compare(a.At, b.At) })
	}
}

func (e *evidence) hear(t *Try) {
	for _, told := range t.Told {
		e.told[told.Seq] = max(e.told[told.Seq], rank(told.Status))
		if t.HTTP != 200 {
			continue
		}
		e.heard[told.Seq] = append(e.heard[told.Seq], word{told.Status, t.Over})
	}
}

// claimOf is the claim batch that a request was made under: with a database
// that forgot commits, the same fence can have been given out twice.
func (e *evidence) claimOf(r *Request) *Claim {
	list := e.claimed[fence{r.Recipient, r.Claim}]
	for i := len(list) - 1; i >= 0; i-- {
		if e.Run.Skewed || list[i].At <= r.At {
			return list[i]
		}
	}
	return nil
}

// campaignOf is the campaign that a request was made for.
func (e *evidence) campaignOf(r *Request) *Campaign {
	if row := e.rows[r.Recipient]; row != nil {
		return e.campaigns[row.Campaign]
	}
	return nil
}

// lost tells that the database may have forgotten something about a request:
// its claim, its result, or a webhook about it.
func (e *evidence) lost(r *Request) bool {
	return slices.ContainsFunc(e.Marks, func(m Mark) bool {
		within := func(at, slack time.Duration) bool { return m.From-slack <= at && at <= m.Over+slack }
		return m.Kind == MarkLost && (within(r.At, e.Run.ClaimAge) ||
			slices.ContainsFunc(e.heard[r.Seq], func(w word) bool { return within(w.at, clocks) }))
	})
}

// unheard tells that no webhook about the request had been acknowledged by then.
func (e *evidence) unheard(r *Request, by time.Duration) bool {
	return !slices.ContainsFunc(e.heard[r.Seq], func(w word) bool { return w.at <= by })
}

// failed tells that the platform had called the request's message failed by then.
func (e *evidence) failed(r *Request, by time.Duration) bool {
	return slices.ContainsFunc(e.heard[r.Seq], func(w word) bool { return w.status == "failed" && w.at <= by })
}

// work is when there was something to send: from the first campaign's start to
// the last one's end.
func (e *evidence) work() (from, to time.Duration) {
	for _, c := range e.Campaigns {
		if c.Started != 0 && (from == 0 || c.Started < from) {
			from = c.Started
		}
		end := c.Finished
		if end == 0 {
			end = e.Run.Ended
		}
		to = max(to, end)
	}
	return from, to
}

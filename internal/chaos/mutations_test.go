package chaos

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// mutation breaks a healthy history so that one property, at least, must be
// found broken. apply tells whether the history had what it breaks.
type mutation struct {
	property, name string
	apply          func(h *History, pick func(int) int) bool
}

func mutations() []mutation {
	return slices.Concat(rowMutations, callMutations, fleetMutations)
}

var rowMutations = []mutation{
	{"conserved", "a recipient is gone", func(h *History, pick func(int) int) bool {
		i := pick(len(h.Rows))
		h.Rows = slices.Delete(h.Rows, i, i+1)
		return true
	}},
	{"conserved", "a recipient is there twice", func(h *History, pick func(int) int) bool {
		h.Rows = append(h.Rows, h.Rows[pick(len(h.Rows))])
		return true
	}},
	{"conserved", "a person is there twice", func(h *History, pick func(int) int) bool {
		twin := h.Rows[pick(len(h.Rows))]
		twin.ID = 99999
		h.Rows = append(h.Rows, twin)
		h.Campaigns[twin.Campaign-1].Accepted++
		h.Campaigns[twin.Campaign-1].Read++
		h.Campaigns[twin.Campaign-1].Counts[twin.Status]++
		return true
	}},
	{"conserved", "a row of the file is not accounted for", func(h *History, _ func(int) int) bool {
		h.Campaigns[0].Read++
		return true
	}},
	{"conserved", "the program's own proof fails", func(h *History, _ func(int) int) bool {
		h.Campaigns[0].Unproven = "one recipient is lost"
		return true
	}},
	{"conserved", "the counts shown are not the rows'", func(h *History, _ func(int) int) bool {
		h.Campaigns[1].Counts["delivered"]++
		return true
	}},
	{"conserved", "a recipient of no campaign", row(func(r *Row) bool { r.Campaign = 9; return true })},
	{"conserved", "a status that does not exist", row(func(r *Row) bool { r.Status = "sented"; return true })},
	{"discreet", "a phone number in a log", func(h *History, _ func(int) int) bool {
		h.Leaks = append(h.Leaks, Leak{"a.1.log", 7, "phone number"})
		return true
	}},
	{"settled", "a recipient is still sending", row(func(r *Row) bool { r.Status = "sending"; return true })},
	{"settled", "a recipient waits for ever", row(func(r *Row) bool { r.Status = "pending"; return true })},
	{"settled", "a recipient stays unknown", row(func(r *Row) bool { r.Status = "unknown"; return true })},
	{"settled", "a campaign does not end", func(h *History, _ func(int) int) bool { h.Campaigns[0].State = "running"; return true }},
	{"settled", "a claim batch is left", func(h *History, _ func(int) int) bool { h.Campaigns[0].ClaimsLeft = 1; return true }},
	{"settled", "an entry of an unknown recipient is left", func(h *History, _ func(int) int) bool { h.Campaigns[1].UnknownsLeft = 1; return true }},
	{"known", "an accepted recipient is shown dead", sentRow(func(r *Row) bool { r.Status, r.Message = "dead", ""; return true })},
	{"known", "an accepted recipient is shown pending", sentRow(func(r *Row) bool { r.Status, r.Message = "pending", ""; return true })},
	{"real", "a message that nobody accepted", sentRow(func(r *Row) bool { r.Message = "no such"; return true })},
	{"real", "sent without a message", sentRow(func(r *Row) bool { r.Message = ""; return true })},
	{"real", "failed without a refusal", func(h *History, pick func(int) int) bool {
		return row(func(r *Row) bool {
			r.Status, r.Message = "failed", ""
			return !slices.ContainsFunc(h.Requests, func(q Request) bool { return q.Recipient == r.ID && q.Refused })
		})(h, pick)
	}},
	{"real", "somebody else's message", func(h *History, pick func(int) int) bool {
		i, k := pick(len(h.Rows)), pick(len(h.Rows))
		h.Rows[i].Message, h.Rows[k].Message = h.Rows[k].Message, h.Rows[i].Message
		return i != k && h.Rows[i].Message != "" && h.Rows[k].Message != ""
	}},
	{"durable", "an acknowledged webhook was forgotten", sentRow(func(r *Row) bool { r.Status = "accepted"; return true })},
	{"durable", "a status that nobody told", sentRow(func(r *Row) bool {
		was := r.Status
		r.Status = "read"
		return was != "read"
	})},
}

// row changes a row; change tells whether that was a change.
func row(change func(*Row) bool) func(*History, func(int) int) bool {
	return func(h *History, pick func(int) int) bool { return change(&h.Rows[pick(len(h.Rows))]) }
}

// sentRow is row for one that was sent.
func sentRow(change func(*Row) bool) func(*History, func(int) int) bool {
	return row(func(r *Row) bool { return r.Message != "" && change(r) })
}

var callMutations = []mutation{
	{"once", "called again at once", again(1, func(r Request) bool { return r.Message != "" }, time.Second)},
	{"once", "called again after the window", again(1, func(r Request) bool { return r.Message != "" }, 20*time.Second)},
	{"late", "called again within the window", again(2, func(r Request) bool { return r.Message != "" }, 3*time.Second)},
	{"late", "called again in spite of a webhook", again(2, func(r Request) bool { return r.Message != "" }, 20*time.Second)},
	{"undoubled", "two messages for one person", again(2, func(r Request) bool { return r.Message != "" }, 20*time.Second)},
	{"capped", "more calls than allowed", func(h *History, pick func(int) int) bool {
		i := pick(len(h.Requests))
		for k := range 6 {
			sendAgain(h, i, time.Duration(k+1)*time.Second)
		}
		return true
	}},
	{"capped", "a call that was not spent", sentRow(func(r *Row) bool { r.Attempt = 0; return true })},
	{"capped", "attempts spent on nothing", row(func(r *Row) bool { r.Attempt += 2; return r.Attempt <= 5 })},
	{"clean", "a node that was asked to end leaves an unknown", func(h *History, _ func(int) int) bool {
		h.Marks = slices.DeleteFunc(h.Marks, func(m Mark) bool { return m.Kind == MarkKill })
		return len(h.Doubts) > 0
	}},
	{"held", "calls before an operator has confirmed the database", func(h *History, pick func(int) int) bool {
		r := h.Requests[pick(len(h.Requests))]
		h.Marks = append(h.Marks, Mark{Kind: MarkHold, From: r.At - 3*time.Second, Over: r.At + time.Second})
		return true
	}},
	{"silent", "calls after a confirmed pause", func(h *History, pick func(int) int) bool {
		return hush(h, pick, Move{From: "pausing", To: "paused"})
	}},
	{"silent", "calls after a cancel", func(h *History, pick func(int) int) bool {
		return hush(h, pick, Move{From: "canceling", To: "canceled"})
	}},
	{"silent", "calls after the pause command returned", func(h *History, _ func(int) int) bool {
		h.Moves = nil
		h.Calls[0].At, h.Calls[0].Over = 1500*ms, 1600*ms
		return slices.ContainsFunc(h.Requests, func(r Request) bool {
			return r.Recipient < 2000 && r.At > 1700*ms && r.At < h.Calls[1].At
		})
	}},
}

// again repeats an accepted request of a campaign after a while.
func again(campaign int64, fits func(Request) bool, after time.Duration) func(*History, func(int) int) bool {
	return func(h *History, pick func(int) int) bool {
		var fit []int
		for i, r := range h.Requests {
			if r.Recipient/1000 == campaign && fits(r) {
				fit = append(fit, i)
			}
		}
		return len(fit) > 0 && sendAgain(h, fit[pick(len(fit))], after)
	}
}

// sendAgain adds a second call to the recipient of a request, under a claim of
// its own, with everything else in order.
func sendAgain(h *History, i int, after time.Duration) bool {
	was := h.Requests[i]
	r := was
	r.Seq, r.At, r.Answered, r.Claim = uint64(100_000+len(h.Requests)), was.At+after, was.At+after+40*ms, was.Claim+int32(len(h.Requests))
	if r.Message != "" {
		r.Message = fmt.Sprint("message ", r.Seq)
	}
	claim := h.Claims[slices.IndexFunc(h.Claims, func(c Claim) bool { return c.IDs[0] == was.Recipient && c.Fences[0] == was.Claim })]
	claim.Seq, claim.At, claim.Fences = int64(r.Seq), r.At-50*ms, []int32{r.Claim}
	h.Claims = append(h.Claims, claim)
	h.Requests = append(h.Requests, r)
	slices.SortStableFunc(h.Requests, func(a, b Request) int { return cmp.Compare(a.At, b.At) })
	return true
}

// hush confirms a silence before a request that came all the same.
func hush(h *History, pick func(int) int, m Move) bool {
	r := h.Requests[pick(len(h.Requests))]
	m.Campaign, m.At = r.Recipient/1000, r.At-h.Run.Way-ms
	h.Moves, h.Calls = append(h.Moves, m), nil
	return !slices.ContainsFunc(h.Moves, func(x Move) bool { return x.Campaign == m.Campaign && x.To == "running" && x.At > m.At && x.At <= r.At })
}

var fleetMutations = []mutation{
	{"paced", "two calls at once", func(h *History, pick func(int) int) bool { return sendAgain(h, pick(len(h.Requests)), ms) }},
	{"paced", "the pace is doubled", func(h *History, _ func(int) int) bool {
		h.Run.Numbers[0].Rate, h.Run.Numbers[0].Limit = 5, 6
		return len(h.Requests) > 60
	}},
	{"paced", "over the limit", func(h *History, _ func(int) int) bool {
		h.Run.Numbers[0].Limit = 4
		return len(h.Requests) > 60
	}},
	{"owned", "a call without a claim", func(h *History, pick func(int) int) bool {
		r := h.Requests[pick(len(h.Requests))]
		h.Claims = slices.DeleteFunc(h.Claims, func(c Claim) bool { return c.IDs[0] == r.Recipient && c.Fences[0] == r.Claim })
		return true
	}},
	{"owned", "a call from another node", func(h *History, pick func(int) int) bool {
		h.Requests[pick(len(h.Requests))].Node = "z"
		return true
	}},
	{"owned", "a call under a lease of nobody's", func(h *History, pick func(int) int) bool {
		r := h.Requests[pick(len(h.Requests))]
		i := slices.IndexFunc(h.Claims, func(c Claim) bool { return c.IDs[0] == r.Recipient && c.Fences[0] == r.Claim })
		h.Claims[i].Lease = "none"
		return true
	}},
	{"owned", "the old owner goes on", func(h *History, _ func(int) int) bool { return goOn(h, 200*ms) }},
	{"owned", "the old owner writes long after", func(h *History, _ func(int) int) bool { return goOn(h, time.Minute) }},
	{"owned", "a call before the quarantine is over", func(h *History, _ func(int) int) bool {
		for i := range h.Leases {
			if l := &h.Leases[i]; l.Ready > l.At {
				l.Ready += 5 * time.Second
				return slices.ContainsFunc(h.Requests, func(r Request) bool { return r.Number == l.Number && r.At > l.At && r.At < l.Ready-clocks })
			}
		}
		return false
	}},
	{"tended", "nobody takes a number over", func(h *History, _ func(int) int) bool {
		h.Leases = slices.DeleteFunc(h.Leases, func(l Lease) bool { return l.Number == "n2" && l.Holder == "b" })
		return true
	}},
	{"tended", "nobody takes over from a node that stands still", abandon(MarkStop)},
	{"tended", "nobody takes over from a node that is cut from Postgres", abandon(MarkCutDB)},
	{"tended", "a released number is left alone for long", func(h *History, _ func(int) int) bool {
		i := slices.IndexFunc(h.Leases, func(l Lease) bool { return l.Number == "n1" && l.Holder == "b" })
		h.Leases[i].At += 20 * time.Second
		h.Leases[i].Ready += 20 * time.Second
		return true
	}},
	{"tended", "the campaigns start and nobody comes", func(h *History, _ func(int) int) bool {
		h.Leases = nil
		return true
	}},
	{"resumed", "half a minute of silence after a fault", func(h *History, _ func(int) int) bool {
		for i := range h.Requests {
			if r := &h.Requests[i]; r.At > 3*time.Second {
				r.At += time.Minute
			}
		}
		h.Marks = append(h.Marks, Mark{Kind: MarkDown, From: 2900 * ms, Over: 3100 * ms})
		for i := range h.Campaigns {
			h.Campaigns[i].Finished += time.Minute
		}
		return len(h.Requests) > 150
	}},
}

// abandon lets the second number's owner fall silent for long instead of dying,
// and nobody take it over.
func abandon(kind string) func(*History, func(int) int) bool {
	return func(h *History, _ func(int) int) bool {
		i := slices.IndexFunc(h.Marks, func(m Mark) bool { return m.Kind == MarkKill })
		h.Marks[i].Kind, h.Marks[i].Over = kind, h.Run.Ended
		h.Leases = slices.DeleteFunc(h.Leases, func(l Lease) bool { return l.Number == "n2" && l.Holder == "b" })
		return true
	}
}

// goOn lets the first owner of a number send once more, after the second one
// has begun.
func goOn(h *History, after time.Duration) bool {
	first := slices.IndexFunc(h.Requests, func(r Request) bool { return r.Node == "a" })
	second := slices.IndexFunc(h.Requests, func(r Request) bool { return r.Number == "n1" && r.Node == "b" })
	return first >= 0 && second >= 0 && sendAgain(h, first, h.Requests[second].At-h.Requests[first].At+after)
}

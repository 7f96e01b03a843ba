package chaos

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

const ms = time.Millisecond

// story makes up a history in which everything is as it should be: two numbers
// with an owner each, a clean handover of one and a death under the other, two
// campaigns of both policies, refusals, lost answers, calls that never arrived,
// and a pause. pick(n) decides, 0 ≤ pick(n) < n.
type story struct {
	*History
	pick func(n int) int
	due  []errand
	at   time.Duration
	n    int // leases and batches named so far
}

// errand is a recipient that waits to be called.
type errand struct {
	row  int // index into Rows
	from time.Duration
}

func healthy(people int, pick func(n int) int) *History {
	s := &story{pick: pick, History: &History{Run: Run{
		Fault: "made up", Nodes: 2, TTL: 7 * time.Second, Quarantine: 4 * time.Second, Poll: 750 * ms, Window: 8 * time.Second,
		ClaimAge: 2 * time.Second, Way: 50 * ms, Slack: 5 * time.Second, Flowing: true,
		Numbers: []Number{{"n1", 10, 1, 12.5}, {"n2", 10, 1, 12.5}},
	}}}
	s.campaigns(people)
	s.pause()
	s.number("n1", s.handover("n1"))
	s.number("n2", s.death("n2"))
	s.close()
	return s.History
}

func (s *story) campaigns(people int) {
	for i, policy := range []string{"fail", "resend"} {
		c := Campaign{
			ID: int64(i + 1), Name: policy, State: "finished", OnUnknown: policy, MaxAttempts: 5, Started: time.Second,
			Read: people + 1, Accepted: people, Rejected: 1, Counts: map[string]int{},
		}
		s.Campaigns = append(s.Campaigns, c)
		for k := range people {
			id := c.ID*1000 + int64(k)
			s.Rows = append(s.Rows, Row{ID: id, Campaign: c.ID, To: fmt.Sprint("person ", id), Status: "dead"})
			s.due = append(s.due, errand{len(s.Rows) - 1, 0})
		}
	}
}

// pause rests the first campaign from 5 s to 7 s.
func (s *story) pause() {
	s.Moves = []Move{
		{1, "scheduled", "running", 1000 * ms},
		{2, "scheduled", "running", 1000 * ms},
		{1, "running", "pausing", 4800 * ms},
		{1, "pausing", "paused", 5000 * ms},
		{1, "paused", "running", 7000 * ms},
	}
	s.Calls = []Call{{"pause", 1, 4800 * ms, 5010 * ms, true}, {"resume", 1, 6990 * ms, 7010 * ms, true}}
}

func (s *story) grant(number, node string, at, ready time.Duration) Lease {
	s.n++
	l := Lease{Number: number, Lease: fmt.Sprint("lease ", s.n), Holder: node, Kind: "grant", At: at, Ready: ready}
	s.Leases = append(s.Leases, l)
	return l
}

// tenure is a lease and how long it may send.
type tenure struct {
	Lease
	until time.Duration
}

func (s *story) handover(number string) []tenure {
	first := s.grant(number, "a", 1100*ms, 1100*ms)
	left := 2*time.Second + time.Duration(s.pick(2000))*ms
	s.Leases = append(s.Leases, Lease{Number: number, Lease: first.Lease, Holder: "a", Kind: "release", At: left})
	s.Marks = append(s.Marks, Mark{MarkLeave, "a", left - 100*ms, left})
	again := left + time.Duration(100+s.pick(700))*ms
	return []tenure{{first, left}, {s.grant(number, "b", again, again), 1 << 62}}
}

func (s *story) death(number string) []tenure {
	first := s.grant(number, "c", 1100*ms, 1100*ms)
	died := 2*time.Second + time.Duration(s.pick(2000))*ms
	s.Marks = append(s.Marks, Mark{MarkKill, "c", died, died})
	found := died + s.Run.TTL + time.Duration(s.pick(1000))*ms
	return []tenure{{first, died}, {s.grant(number, "b", found, found+s.Run.Quarantine), 1 << 62}}
}

// number sends at the number's pace, as long as somebody owns it.
func (s *story) number(id string, tenures []tenure) {
	const step = 100 * ms // 10 per second
	mine := len(s.due)
	if id == "n1" {
		mine /= 2
	}
	for _, t := range tenures {
		for s.at = t.Ready + step; s.at < t.until && mine > 0; s.at += step + time.Duration(s.pick(20))*ms {
			i := slices.IndexFunc(s.due, func(d errand) bool {
				paused := s.Rows[d.row].Campaign == 1 && s.at > 4800*ms && s.at < 7100*ms
				return d.from <= s.at && !paused
			})
			if i < 0 {
				continue
			}
			d := s.due[i]
			s.due = slices.Delete(s.due, i, i+1)
			if s.call(t.Lease, d.row) {
				mine--
			}
		}
	}
}

// call claims and calls one recipient, and tells whether that was its end.
func (s *story) call(l Lease, row int) bool {
	r := &s.Rows[row]
	r.Claim++
	r.Attempt++
	r.Number = l.Number
	s.n++
	s.Claims = append(s.Claims, Claim{l.Number, l.Lease, int64(s.n), max(s.at-80*ms, l.Ready), []int64{r.ID}, []int32{r.Claim}})
	fate := s.pick(20)
	if fate == 0 && r.Attempt < 3 {
		return s.doubt(row) // it never arrived, and nobody knows
	}
	req := Request{
		Seq: uint64(s.n), At: s.at, Answered: s.at + 40*ms, Number: l.Number, To: r.To,
		Recipient: r.ID, Claim: r.Claim, Node: l.Holder,
	}
	switch {
	case fate == 1 && r.Attempt < 3:
		req.Refused, req.Code = true, 131016
		s.due = append(s.due, errand{row, s.at + time.Second})
	case fate == 2: // accepted, but the answer was lost
		req.Answered = 0
		s.Doubts = append(s.Doubts, Doubt{r.ID, r.Claim, s.at + time.Second})
		s.accept(&req, r)
	default:
		s.accept(&req, r)
	}
	s.Requests = append(s.Requests, req)
	return !req.Refused
}

// doubt lets the policy decide: the recipient is dead, or called again after
// the window.
func (s *story) doubt(row int) bool {
	r := &s.Rows[row]
	s.Doubts = append(s.Doubts, Doubt{r.ID, r.Claim, s.at + time.Second})
	r.Reason = "unknown_outcome"
	if r.Campaign == 1 {
		return true
	}
	s.due = append(s.due, errand{row, s.at + time.Second + s.Run.Window})
	return false
}

func (s *story) accept(req *Request, r *Row) {
	req.Message = fmt.Sprint("message ", req.Seq)
	r.Message, r.Status, r.Reason = req.Message, "accepted", ""
	at := req.At
	for _, status := range []string{"sent", "delivered", "read"}[:1+s.pick(3)] {
		at += time.Duration(50+s.pick(500)) * ms
		if s.pick(10) == 0 {
			s.Tries = append(s.Tries, Try{At: at, Over: at + 5*ms, HTTP: 503, Told: []Told{{req.Seq, status}}})
			at += 100 * ms
		}
		s.Tries = append(s.Tries, Try{At: at, Over: at + 5*ms, HTTP: 200, Told: []Told{{req.Seq, status}}})
		r.Status = status
	}
}

// close ends the campaigns and puts everything in order.
func (s *story) close() {
	slices.SortStableFunc(s.Requests, func(a, b Request) int { return cmp.Compare(a.At, b.At) })
	end := s.at + 30*time.Second
	for i := range s.Campaigns {
		s.Campaigns[i].Finished = end
	}
	for _, r := range s.Rows {
		s.Campaigns[r.Campaign-1].Counts[r.Status]++
	}
	s.Run.Ended = end
}

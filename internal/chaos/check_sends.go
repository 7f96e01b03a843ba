package chaos

import (
	"slices"
	"time"
)

// once: in an at-most-once campaign a second call follows only calls that were
// certainly not accepted, or whose message the platform had called failed.
func once(e *evidence, report report) {
	e.again("fail", func(before, r *Request) {
		if !before.Refused && !e.failed(before, r.At) {
			report("recipient %d was called again (request %d) after request %d, which may have been accepted", r.Recipient, r.Seq, before.Seq)
		}
	})
}

// late: in an at-least-once campaign a call of unknown outcome is followed by
// another only after the window, and not when a webhook had told of it: one
// acknowledged before the next call was claimed.
func late(e *evidence, report report) {
	e.again("resend", func(before, r *Request) {
		switch {
		case before.Refused:
		case r.At < before.At+e.Run.Window:
			report("recipient %d was called again (request %d) %v after request %d, within the window", r.Recipient, r.Seq, (r.At - before.At).Round(time.Millisecond), before.Seq)
		case !e.unheard(before, r.At-e.Run.ClaimAge-e.Run.Way) && !e.failed(before, r.At):
			report("recipient %d was called again (request %d) though a webhook had told of request %d", r.Recipient, r.Seq, before.Seq)
		}
	})
}

// again visits every pair of an earlier and a later request to one recipient of
// the campaigns of a policy. What a database forgot it may do again.
func (e *evidence) again(policy string, visit func(before, r *Request)) {
	for id, sends := range e.sends {
		row := e.rows[id]
		if row == nil || e.campaigns[row.Campaign] == nil || e.campaigns[row.Campaign].OnUnknown != policy {
			continue
		}
		for i, r := range sends {
			for _, before := range sends[:i] {
				if !e.lost(before) {
					visit(before, r)
				}
			}
		}
	}
}

// undoubled: one accepted message a person, whatever the policy.
func undoubled(e *evidence, report report) {
	if !e.Run.Flowing {
		return
	}
	for id, sends := range e.sends {
		var first *Request
		for _, r := range sends {
			switch {
			case r.Message == "":
			case first == nil:
				first = r
			case !e.lost(first) && !e.failed(first, r.At):
				report("recipient %d got the messages of requests %d and %d", id, first.Seq, r.Seq)
			}
		}
	}
}

// capped: no recipient is called more often than the campaign allows. What the
// database counts as spent covers every call that was not refused (a refusal
// may be for nothing), and exceeds the calls only by those that nobody knows
// to have arrived.
func capped(e *evidence, report report) {
	doubts := map[int64]int{}
	for _, d := range e.Doubts {
		doubts[d.Recipient]++
	}
	for id := range e.sends {
		if e.rows[id] == nil {
			report("requests were made for recipient %d, which does not exist", id)
		}
	}
	for i := range e.Rows {
		row := &e.Rows[i]
		sends, c := e.sends[row.ID], e.campaigns[row.Campaign]
		if c == nil || slices.ContainsFunc(sends, e.lost) {
			continue
		}
		sure := 0
		for _, r := range sends {
			if !r.Refused {
				sure++
			}
		}
		switch {
		case len(sends) > c.MaxAttempts || row.Attempt > c.MaxAttempts:
			report("recipient %d was called %d times, %d are on record, %d allowed", row.ID, len(sends), row.Attempt, c.MaxAttempts)
		case row.Attempt < sure:
			report("recipient %d was called %d times, of which only %d were spent", row.ID, sure, row.Attempt)
		case row.Attempt > len(sends)+doubts[row.ID]:
			report("recipient %d has spent %d attempts on %d calls and %d unknown outcomes", row.ID, row.Attempt, len(sends), doubts[row.ID])
		}
	}
}

// clean: a node that is asked to end finishes its calls and records them, so a
// fleet to which nothing worse happened leaves no unknown.
func clean(e *evidence, report report) {
	for _, m := range e.Marks {
		if m.Kind != MarkLeave && m.Kind != MarkBusy {
			return
		}
	}
	for _, d := range e.Doubts {
		report("recipient %d became unknown at %v", d.Recipient, d.At.Round(time.Millisecond))
	}
}

// held: while sending waits for an operator, nothing arrives but what had been
// claimed before.
func held(e *evidence, report report) {
	for _, m := range e.Marks {
		if m.Kind != MarkHold {
			continue
		}
		for i := range e.Requests {
			if r := &e.Requests[i]; r.At > m.From+e.Run.ClaimAge+e.Run.Way && r.At < m.Over {
				report("request %d came %v after sending was to wait for an operator", r.Seq, (r.At - m.From).Round(time.Millisecond))
			}
		}
	}
}

// silent: from the confirmation on, and from the instant on at which the
// command returned, no request of the campaign arrives until it runs again.
func silent(e *evidence, report report) {
	type span struct {
		campaign int64
		from, to time.Duration
	}
	var spans []span
	end := func(campaign int64, from time.Duration) time.Duration {
		for _, m := range e.Moves {
			if m.Campaign == campaign && m.To == "running" && m.At > from {
				return m.At
			}
		}
		return 1 << 62
	}
	for _, m := range e.Moves {
		confirmed := m.From == "pausing" && m.To == "paused" || m.To == "canceled"
		if confirmed && !e.Run.Skewed {
			spans = append(spans, span{m.Campaign, m.At, end(m.Campaign, m.At)})
		}
	}
	for _, c := range e.Calls {
		if c.OK && (c.Name == "pause" || c.Name == "cancel") {
			spans = append(spans, span{c.Campaign, c.Over, e.nextRun(c)})
		}
	}
	for i := range e.Requests {
		r := &e.Requests[i]
		c := e.campaignOf(r)
		for _, s := range spans {
			if c != nil && c.ID == s.campaign && r.At > s.from+e.Run.Way && r.At < s.to {
				report("request %d of campaign %d came %v after its silence was confirmed", r.Seq, c.ID, (r.At - s.from).Round(time.Millisecond))
			}
		}
	}
}

// nextRun is when an operator next asked for the campaign to run, after a call.
func (e *evidence) nextRun(after Call) time.Duration {
	for _, c := range e.Calls {
		if c.Campaign == after.Campaign && c.Name == "resume" && c.At >= after.Over {
			return c.At
		}
	}
	return 1 << 62
}

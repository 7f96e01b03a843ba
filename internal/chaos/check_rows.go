package chaos

// conserved: rows read = accepted + rejected + duplicate; as many recipients
// as were accepted, each person once; the counts shown are the rows'.
func conserved(e *evidence, report report) {
	type person struct {
		campaign int64
		to       string
	}
	people := map[person]bool{}
	ids := map[int64]bool{}
	rows := map[int64]int{}
	counts := map[int64]map[string]int{}
	for _, r := range e.Rows {
		if ids[r.ID] || people[person{r.Campaign, r.To}] {
			report("recipient %d of campaign %d is there twice", r.ID, r.Campaign)
		}
		ids[r.ID], people[person{r.Campaign, r.To}] = true, true
		rows[r.Campaign]++
		if counts[r.Campaign] == nil {
			counts[r.Campaign] = map[string]int{}
		}
		counts[r.Campaign][r.Status]++
		if e.campaigns[r.Campaign] == nil {
			report("recipient %d belongs to campaign %d, which does not exist", r.ID, r.Campaign)
		}
		if rank(r.Status) < 0 {
			report("recipient %d has status %q", r.ID, r.Status)
		}
	}
	for _, c := range e.Campaigns {
		accounted(c, rows[c.ID], counts[c.ID], report)
	}
}

// accounted: a campaign's own figures are those of its file and of its rows.
func accounted(c Campaign, rows int, counts map[string]int, report report) {
	if c.Unproven != "" {
		report("campaign %d does not verify: %s", c.ID, c.Unproven)
	}
	if c.Read != c.Accepted+c.Rejected+c.Duplicate {
		report("campaign %d: %d rows read, %d accepted + %d rejected + %d duplicate", c.ID, c.Read, c.Accepted, c.Rejected, c.Duplicate)
	}
	if rows != c.Accepted {
		report("campaign %d has %d recipients, %d were accepted", c.ID, rows, c.Accepted)
	}
	for _, s := range ranks {
		if c.Counts[s] != counts[s] {
			report("campaign %d shows %d %s, there are %d", c.ID, c.Counts[s], s, counts[s])
		}
	}
}

// settled: every campaign is over and every recipient has come to an end.
func settled(e *evidence, report report) {
	for _, c := range e.Campaigns {
		if c.State != "finished" && c.State != "canceled" {
			report("campaign %d is %s", c.ID, c.State)
		}
		if c.ClaimsLeft+c.UnknownsLeft > 0 {
			report("campaign %d: %d claim batches and %d entries of unknown recipients are left", c.ID, c.ClaimsLeft, c.UnknownsLeft)
		}
	}
	for _, r := range e.Rows {
		if rank(r.Status) <= rank("unknown") {
			report("recipient %d is %s", r.ID, r.Status)
		}
	}
}

// known: a message whose acceptance reached us, by its answer or by a webhook,
// is shown so. An answer can die with the node that read it: without a webhook
// the recipient then ends by its campaign's policy, with that as its reason.
func known(e *evidence, report report) {
	for i := range e.Requests {
		r := &e.Requests[i]
		heard := len(e.heard[r.Seq]) > 0
		if r.Message == "" || !heard && r.Answered == 0 || e.lost(r) {
			continue
		}
		row := e.rows[r.Recipient]
		switch {
		case row == nil:
			report("request %d was accepted for recipient %d, which does not exist", r.Seq, r.Recipient)
		case isSent(row.Status):
		case !heard && row.Reason == "unknown_outcome":
		default:
			report("request %d was accepted, recipient %d is %s", r.Seq, row.ID, row.Status)
		}
	}
}

// real: who is shown sent has an accepted message of their own; who is shown
// failed has one, or was refused.
func real(e *evidence, report report) {
	for i := range e.Rows {
		row := &e.Rows[i]
		if !isSent(row.Status) {
			continue
		}
		if row.Message == "" {
			if row.Status != "failed" || !refusedOnce(e.sends[row.ID]) {
				report("recipient %d is %s without a message", row.ID, row.Status)
			}
			continue
		}
		r := e.message[row.Message]
		switch {
		case r == nil:
			report("recipient %d is %s by a message that the platform never accepted", row.ID, row.Status)
		case r.Recipient != row.ID || r.To != row.To:
			report("recipient %d is %s by the message of recipient %d (request %d)", row.ID, row.Status, r.Recipient, r.Seq)
		}
	}
}

func refusedOnce(sends []*Request) bool {
	for _, r := range sends {
		if r.Refused {
			return true
		}
	}
	return false
}

// durable: a recipient's status is the greatest of "accepted" and whatever
// acknowledged webhooks said of its message. One that was told and never
// acknowledged may have been taken all the same; and of somebody who got two
// messages the status may be either's.
func durable(e *evidence, report report) {
	for i := range e.Rows {
		row := &e.Rows[i]
		r := e.message[row.Message]
		if row.Message == "" || r == nil || e.lost(r) {
			continue
		}
		least := rank("accepted")
		for _, w := range e.heard[r.Seq] {
			least = max(least, rank(w.status))
		}
		most := least
		for _, other := range e.sends[row.ID] {
			most = max(most, e.told[other.Seq])
		}
		if got := rank(row.Status); got < least || got > most {
			report("recipient %d is %s, the acknowledged webhooks of its message say %s", row.ID, row.Status, ranks[least])
		}
	}
}

// discreet: nothing was found in the logs.
func discreet(e *evidence, report report) {
	for _, l := range e.Leaks {
		report("%s, line %d: a %s", l.Log, l.Line, l.What)
	}
}

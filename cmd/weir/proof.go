package main

import (
	"context"
	"fmt"
	"maps"
	"sync/atomic"
	"time"

	"github.com/weirhq/weir/engine"
	"github.com/weirhq/weir/internal/sim"
	"github.com/weirhq/weir/internal/store"
)

// prove holds the simulator's ledger against the database, and prints each
// promise with what was found.
func (c demoCmd) prove(ctx context.Context, d *demo) error {
	campaign, err := d.db.FindCampaign(ctx, demoName)
	if err != nil {
		return err
	}
	say(d.std, "waiting for the last status webhooks")
	if err := allStatuses(ctx, d.sim); err != nil {
		return err
	}
	p := proof{std: d.std, ledger: map[string]sim.Entry{}}
	for _, e := range d.sim.Ledger() {
		if e.WAMID != "" {
			p.ledger[e.WAMID] = e
		}
	}
	if err := p.rows(ctx, d.db.Store, campaign); err != nil {
		return err
	}
	numbers, err := d.db.Numbers(ctx)
	if err != nil {
		return err
	}
	for _, n := range numbers {
		slack := loopback + d.machine.worst()
		p.pace(d.sim.Summary(sim.SummaryQuery{Rate: n.Rate(), Burst: float64(max(n.Burst, 1)), Slack: slack}), n, slack)
	}
	v, err := d.db.Verify(ctx, campaign.ID)
	if err != nil {
		return err
	}
	_, _ = fmt.Fprintln(d.std.out)
	p.hold(v.OK(), "campaign verify holds", "%d checks over every row", len(v.Checks))
	if p.broken > 0 {
		return fmt.Errorf("%d of the demo's promises did not hold: please report this", p.broken)
	}
	say(d.std, "every promise held")
	return nil
}

// allStatuses waits until the simulator has nothing more to tell.
func allStatuses(ctx context.Context, s *sim.Sim) error {
	ctx, cancel := context.WithTimeout(ctx, settleWithin)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		pending := s.Summary(sim.SummaryQuery{}).Webhooks.Pending
		if pending == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for statuses: %d are still on their way: %w", pending, ctx.Err())
		case <-tick.C:
		}
	}
}

// proof prints promises and counts those that did not hold.
type proof struct {
	std    streams
	ledger map[string]sim.Entry // by message id: what the platform accepted
	broken int
}

func (p *proof) hold(ok bool, promise, found string, args ...any) {
	mark := "ok    "
	if !ok {
		mark = "BROKEN"
		p.broken++
	}
	_, _ = fmt.Fprintf(p.std.out, "%s  %-52s %s\n", mark, promise, fmt.Sprintf(found, args...))
}

// rows holds each recipient to the ledger line of its message.
func (p *proof) rows(ctx context.Context, s *store.Store, c store.Campaign) error {
	var unsent, phantom, behind int
	lost := maps.Clone(p.ledger)
	for row, err := range s.Export(ctx, c.ID) {
		if err != nil {
			return err
		}
		entry, accepted := p.ledger[row.MessageID]
		switch {
		case row.MessageID == "":
			unsent++
		case !accepted || entry.To != sim.HashPhone(row.Phone):
			phantom++
		case row.Status != heard(entry):
			behind++
		}
		delete(lost, row.MessageID)
	}
	i := c.Import
	p.hold(i.Read == i.Accepted+i.Rejected+i.Duplicate, "rows read = accepted + rejected + duplicate",
		"%s = %s + %s + %s", group(i.Read), group(i.Accepted), group(i.Rejected), group(i.Duplicate))
	p.hold(int64(len(p.ledger)) == i.Accepted, "the ledger holds one message for every recipient", "%s of %s", group(int64(len(p.ledger))), group(i.Accepted))
	p.hold(unsent+len(lost) == 0, "nobody was lost", "%d", unsent+len(lost))
	p.hold(p.doubled() == 0, "nobody got it twice", "%d", p.doubled())
	p.hold(phantom == 0, "nothing is shown sent that was not", "%d", phantom)
	p.hold(behind == 0, "every status is the last word the platform gave", "%d behind", behind)
	return nil
}

// doubled is how many messages were accepted for people who had one already.
func (p *proof) doubled() int {
	people := map[string]bool{}
	for _, e := range p.ledger {
		people[e.To] = true
	}
	return len(p.ledger) - len(people)
}

// heard is the status that the acknowledged webhooks of a message come to.
func heard(e sim.Entry) engine.Status {
	status := engine.Accepted
	for _, name := range e.Acked {
		if s, err := engine.ParseStatus(name); err == nil {
			status = max(status, s)
		}
	}
	return status
}

// pace holds one number's requests to its limit and to its configured pace.
func (p *proof) pace(s sim.Summary, n store.NumberInfo, slack time.Duration) {
	got := s.Numbers[n.ID]
	p.hold(float64(got.Busiest) <= n.Limit, "number "+n.ID+" stayed under its limit", "%d in its busiest second, of %.4g", got.Busiest, n.Limit)
	excess := 0.0
	if got.Excess != nil {
		excess = *got.Excess
	}
	p.hold(got.Excess != nil && excess <= 0, "… and in every window under burst + rate × time", "%.4g per second, %s sent, received within %v", n.Rate(), group(int64(got.Requests)), slack.Round(time.Millisecond))
}

// loopback is how late a request may reach the simulator on a machine that
// is not busy with other things.
const loopback = 50 * time.Millisecond

// hiccups measures how long this machine kept the demo waiting for a
// processor: the ledger's times cannot be truer than that.
type hiccups struct{ longest atomic.Int64 }

func (h *hiccups) run(ctx context.Context) error {
	const every = 5 * time.Millisecond
	tick := time.NewTicker(every)
	defer tick.Stop()
	for before := time.Now(); ; {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			now := time.Now()
			h.longest.Store(max(h.longest.Load(), int64(now.Sub(before)-every)))
			before = now
		}
	}
}

func (h *hiccups) worst() time.Duration { return time.Duration(h.longest.Load()) }

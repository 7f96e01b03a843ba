package main

import (
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/sim"
)

// outage is a fleet of three nodes and three numbers, to whose platform one
// thing happens: it answers every call with its own trouble for a while.
type outage struct {
	*stage
	ids    []string
	people int
	rate   float64 // messages per second and number
	limit  string  // of a number, so that a fifth of headroom leaves rate
	lasts  time.Duration
	warm   int // calls before it
}

const outageCode = 131016

func newOutage(t testing.TB, o outage) *outage {
	t.Helper()
	o.ids = []string{scriptNumber, "106540352242923", "106540352242924"}
	opts := sim.Options{
		Latency: sim.Spread{Base: 100 * time.Millisecond}, Sent: sim.Spread{Base: 50 * time.Millisecond}, Delivered: sim.Spread{Base: 100 * time.Millisecond},
	}
	for _, id := range o.ids {
		opts.Numbers = append(opts.Numbers, sim.Number{ID: id, WABA: "waba", Throughput: 1000})
	}
	o.stage = newStage(t, opts)
	for _, id := range o.ids {
		o.weir("number", "add", id, "--waba", "waba", "--limit", o.limit, "--headroom", "0.2", "--no-verify")
	}
	o.campaign(o.people, "--number", strings.Join(o.ids[1:], ","))
	o.serve("--node-id", "first")
	for _, id := range []string{"second", "third"} {
		o.serve("--node-id", id, "--listen", freeAddress(t), "--no-webhooks")
	}
	return &o
}

// strike begins the outage once each node has a number and the fleet is sending.
func (o *outage) strike() {
	o.t.Helper()
	o.await("every node sends", `SELECT count(DISTINCT holder) = 3 FROM number_leases WHERE NOT released`, func() bool {
		return len(o.platform.Ledger()) >= o.warm
	})
	if _, err := o.platform.Misbehave(sim.Behavior{Kind: sim.Outage, Code: outageCode, HTTP: 503, Duration: sim.Duration(o.lasts)}); err != nil {
		o.t.Fatal(err)
	}
	o.await("the platform's breaker is open", `SELECT EXISTS (SELECT FROM breaker_events WHERE scope = 'host' AND state = 'open')`, nil)
}

// await polls the database, and what the test can see, for up to two minutes.
func (o *outage) await(what, query string, and func() bool) {
	o.t.Helper()
	pool, deadline := o.pool(), time.Now().Add(2*time.Minute)
	for {
		var ok bool
		if err := pool.QueryRow(o.t.Context(), query).Scan(&ok); err != nil {
			o.t.Fatal(err)
		}
		if ok && (and == nil || and()) {
			return
		}
		if time.Now().After(deadline) {
			o.t.Fatalf("not after two minutes: %s", what)
		}
		<-time.After(50 * time.Millisecond)
	}
}

// opened is when the platform's breaker first opened, closed when it last closed.
func (o *outage) moved() (opened, closed time.Time) {
	o.t.Helper()
	err := o.pool().QueryRow(o.t.Context(), `SELECT min(at) FILTER (WHERE state = 'open'), max(at) FILTER (WHERE state = 'closed')
		FROM breaker_events WHERE scope = 'host'`).Scan(&opened, &closed)
	if err != nil {
		o.t.Fatal("the platform's breaker did not open and close: ", err)
	}
	return opened, closed
}

// permits is how many probes the database has let out.
func (o *outage) permits() (n int) {
	o.t.Helper()
	if err := o.pool().QueryRow(o.t.Context(), `SELECT count(*) FROM breaker_events WHERE state = 'half_open'`).Scan(&n); err != nil {
		o.t.Fatal(err)
	}
	return n
}

// failures are the calls that met the outage, until then and after.
func (o *outage) failures(then time.Time) (before, after []sim.Entry) {
	for _, e := range o.platform.Ledger() {
		switch {
		case e.Code != outageCode:
		case time.Unix(0, e.Received).Before(then):
			before = append(before, e)
		default:
			after = append(after, e)
		}
	}
	return before, after
}

// TestAnOutageOfThePlatform: for 9 s every call of a fleet fails. It loses few
// calls to it, then only probes go out; nobody's attempts are used up by waiting,
// nobody dies, webhooks are answered throughout; and afterwards everybody has the
// message, at no more than the numbers' pace.
func TestAnOutageOfThePlatform(t *testing.T) {
	t.Parallel()
	o := newOutage(t, outage{people: 2400, rate: 40, limit: "50", lasts: 9 * time.Second, warm: 150})
	o.strike()
	o.until("all delivered", 5*time.Minute, func(v campaignView) bool { return v.Counts["delivered"] == int64(o.people) })
	o.holds(o.people)
	o.lostLittle()
	o.spentNothing()
	sum := o.platform.Summary(sim.SummaryQuery{Rate: o.rate, Burst: 2, Slack: 2 * time.Second})
	for id, n := range sum.Numbers {
		if *n.Excess > 0 {
			t.Errorf("number %s: a window holds %.1f calls more than its pace", id, *n.Excess)
		}
	}
	if w := sum.Webhooks; w.Refusals > 0 || w.Pending > 0 || w.GivenUp > 0 {
		t.Errorf("webhooks: %+v", w)
	}
}

// lostLittle: five failures and what is under way open a breaker. A row that was
// claimed before the platform's was open is written within two seconds or never;
// what comes later is a probe. The bounds leave a slow machine room, and are far
// below the thousand calls that would have failed.
func (o *outage) lostLittle() {
	o.t.Helper()
	opened, _ := o.moved()
	before, after := o.failures(opened.Add(6 * time.Second))
	permits := o.permits()
	if most := len(o.ids)*(5+60) + permits; len(before) < 5 || len(before) > most {
		o.t.Errorf("%d calls failed, want at most %d", len(before), most)
	}
	if len(after) > permits {
		o.t.Errorf("%d calls failed long after the breaker was open, on %d permits", len(after), permits)
	}
	for i := 1; i < len(after); i++ {
		if after[i].Received < after[i-1].Answered {
			o.t.Errorf("two probes were under way at once: %+v, %+v", after[i-1], after[i])
		}
	}
	o.t.Logf("%d calls failed first, %d later; %d permits", len(before), len(after), permits)
}

// spentNothing: a row has no more attempts than the platform has had calls for
// it, so that whoever waited in the outage has the same as before.
func (o *outage) spentNothing() {
	o.t.Helper()
	calls := map[string]int{}
	for _, e := range o.platform.Ledger() {
		calls[e.To]++
	}
	rows, err := o.pool().Query(o.t.Context(), `SELECT p.phone, r.attempt FROM recipients r JOIN recipient_params p ON p.id = r.id`)
	if err != nil {
		o.t.Fatal(err)
	}
	defer rows.Close()
	spent := 0
	for rows.Next() {
		var phone string
		var attempts int
		if err := rows.Scan(&phone, &attempts); err != nil {
			o.t.Fatal(err)
		}
		if n := calls[sim.HashPhone(phone)]; attempts > n || attempts < 1 {
			o.t.Errorf("a row that %d calls were made for has %d attempts", n, attempts)
		}
		spent += attempts - 1
	}
	if err := rows.Err(); err != nil {
		o.t.Fatal(err)
	}
	o.t.Logf("%d attempts were used up", spent)
}

package main

import (
	"bufio"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/sim"
)

// BenchmarkOutage takes the platform away from three nodes at 300 messages a
// second for 40 s, with 18 000 people waiting, and reports what that cost: how
// long after the first failure its breaker was open, calls that failed until then
// and later, probes under way at once, attempts used up, how long after its
// closing the full rate was back, the rate of the drain, the busiest second of
// the fleet, and the 99th percentile of webhooks' answers over the whole run.
//
//	go test -run '^$' -bench Outage -benchtime 1x -timeout 20m ./cmd/weir
func BenchmarkOutage(b *testing.B) {
	for b.Loop() {
		o := newOutage(b, outage{people: 21_000, rate: 100, limit: "125", lasts: 40 * time.Second, warm: 3000})
		o.strike()
		o.until("all delivered", 10*time.Minute, func(v campaignView) bool { return v.Counts["delivered"] == int64(o.people) })
		o.holds(o.people)
		o.spentNothing()
		o.report(b)
	}
}

func (o *outage) report(b *testing.B) {
	b.Helper()
	opened, closed := o.moved()
	before, after := o.failures(opened.Add(2500 * time.Millisecond))
	b.ReportMetric(opened.Sub(time.Unix(0, before[0].Received)).Seconds(), "s-to-open")
	b.ReportMetric(float64(len(before)), "lost")
	b.ReportMetric(float64(len(after)), "failed-probes")
	b.ReportMetric(float64(atOnce(after)), "probes-at-once")
	var spent int64
	if err := o.pool().QueryRow(b.Context(), `SELECT sum(attempt - 1) FROM recipients`).Scan(&spent); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(spent), "attempts-spent")
	var taken, drained []int64
	full := int64(0)
	for _, e := range o.platform.Ledger() {
		if e.WAMID == "" {
			continue
		}
		taken = append(taken, e.Received)
		if e.Received < closed.UnixNano() {
			continue
		}
		drained = append(drained, e.Received)
		if n := len(drained) - 285; full == 0 && n >= 0 && e.Received-drained[n] <= int64(time.Second) {
			full = e.Received
		}
	}
	b.ReportMetric(time.Duration(full-closed.UnixNano()).Seconds(), "s-to-full-rate")
	drained = slices.DeleteFunc(drained, func(at int64) bool { return at < full })
	b.ReportMetric(float64(len(drained))/time.Duration(drained[len(drained)-1]-full).Seconds(), "drained/s")
	b.ReportMetric(float64(sim.BusiestSpan(taken, time.Second)), "busiest-second")
	b.ReportMetric(o.webhookP99(b)*1000, "ms-webhook-p99")
}

// atOnce is how many of these calls were under way at the same time, at most.
func atOnce(calls []sim.Entry) (most int) {
	for i, c := range calls {
		n := 1
		for _, earlier := range calls[:i] {
			if earlier.Answered > c.Received {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}

// webhookP99 is the upper bound of the class that the 99th percentile lies in,
// in seconds, as the node that receives webhooks tells it.
func (o *outage) webhookP99(b *testing.B) float64 {
	b.Helper()
	res, err := http.Get("http://" + o.listen + "/metrics")
	if err != nil {
		b.Fatal(err)
	}
	defer res.Body.Close()
	var bounds, counts []float64
	for lines := bufio.NewScanner(res.Body); lines.Scan(); {
		rest, ok := strings.CutPrefix(lines.Text(), `weir_webhook_seconds_bucket{le="`)
		le, n, _ := strings.Cut(rest, `"} `)
		bound, _ := strconv.ParseFloat(le, 64) // +Inf too
		count, err := strconv.ParseFloat(n, 64)
		if ok && err == nil {
			bounds, counts = append(bounds, bound), append(counts, count)
		}
	}
	for i, n := range counts {
		if n >= 0.99*counts[len(counts)-1] {
			return bounds[i]
		}
	}
	return 0
}

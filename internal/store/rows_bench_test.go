package store

import (
	"testing"
	"time"

	"github.com/weirhq/weir/engine"
)

// Each benchmark moves batches of 500 rows of campaigns of 200 000 and reports
// rows per second. The numbers to compare are those of one run on one machine.
const (
	benchRows  = 200_000
	benchBatch = 500
)

// bench is a lab that hands out batches of claimed recipients.
type bench struct {
	*lab
	campaignID int64
	left       int
}

func newBench(b *testing.B) *bench { return &bench{lab: newLab(b)} }

func (b *bench) next() []engine.Recipient {
	if b.left < benchBatch {
		b.campaignID, _ = b.campaign(benchRows)
		b.exec(`ANALYZE recipients, recipient_params`)
		b.left = benchRows
	}
	b.left -= benchBatch
	return b.claim(benchBatch, b.campaignID)
}

// measure times f over batches that next makes while the clock is stopped.
func measure(b *testing.B, next func() []engine.Recipient, f func([]engine.Recipient)) {
	rows := 0
	for b.Loop() {
		b.StopTimer()
		batch := next()
		b.StartTimer()
		f(batch)
		rows += benchBatch
	}
	b.ReportMetric(float64(rows)/b.Elapsed().Seconds(), "rows/s")
}

func BenchmarkClaim(b *testing.B) {
	l := newBench(b)
	measure(b, func() []engine.Recipient {
		if l.left == 0 {
			l.next()
		}
		return nil
	}, func([]engine.Recipient) {
		if n := len(l.next()); n != benchBatch {
			b.Fatalf("claimed %d rows", n)
		}
	})
}

func BenchmarkRecord(b *testing.B) {
	for name, result := range map[string]engine.Result{
		"accepted": {Status: engine.Accepted},
		"pending":  {Status: engine.Pending, Code: 503, Delay: time.Hour},
		"failed":   {Status: engine.Failed, Code: 131026, Title: "undeliverable"},
	} {
		b.Run(name, func(b *testing.B) {
			l := newBench(b)
			measure(b, l.next, func(rows []engine.Recipient) {
				results := acceptAll(rows)
				for i := range results {
					results[i].Status, results[i].Code, results[i].Delay = result.Status, result.Code, result.Delay
				}
				l.must(l.Record(b.Context(), l.lease, results, []int64{l.seq}))
			})
		})
	}
}

func BenchmarkApplyStatuses(b *testing.B) {
	for _, status := range []engine.Status{engine.Sent, engine.Failed} {
		b.Run(status.String(), func(b *testing.B) {
			l := newBench(b)
			next := func() []engine.Recipient {
				rows := l.next()
				l.must(l.Record(b.Context(), l.lease, acceptAll(rows), nil))
				return rows
			}
			measure(b, next, func(rows []engine.Recipient) {
				_, err := l.ApplyStatuses(b.Context(), sayAll(rows, status), nil)
				l.must(err)
			})
		})
	}
}

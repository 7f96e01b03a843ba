package store

import (
	"testing"
	"time"

	"github.com/weirhq/weir/engine"
)

// Each benchmark moves batches of 500 rows of campaigns of 200 000.
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

// fill makes a campaign when the last one is used up.
func (b *bench) fill() []engine.Recipient {
	if b.left < benchBatch {
		b.campaignID, _ = b.campaign(benchRows)
		b.exec(`ANALYZE recipients, recipient_params`)
		b.left = benchRows
	}
	b.exec(`UPDATE number_leases SET expires_at = now() + interval '1 min'`)
	return nil
}

func (b *bench) next() []engine.Recipient {
	b.fill()
	b.left -= benchBatch
	return b.claim(benchBatch, b.campaignID)
}

// measure times f over batches that next makes while the clock is stopped, and
// beside each a bare UPDATE of as many rows by their ids: times-bare is what
// the rules cost over that, and means the same on a busy machine.
func (l *bench) measure(b *testing.B, next, f func() []engine.Recipient) {
	var spent, bare time.Duration
	rows := 0
	for b.Loop() {
		b.StopTimer()
		next()
		b.StartTimer()
		begun := time.Now()
		batch := f()
		spent += time.Since(begun)
		b.StopTimer()
		rows += len(batch)
		begun = time.Now()
		l.exec(`UPDATE recipients SET zone = zone WHERE id = ANY ($1)`, ids(batch))
		bare += time.Since(begun)
		b.StartTimer()
	}
	b.ReportMetric(float64(rows)/spent.Seconds(), "rows/s")
	b.ReportMetric(spent.Seconds()/bare.Seconds(), "times-bare")
}

func BenchmarkClaim(b *testing.B) {
	l := newBench(b)
	l.measure(b, l.fill, l.next)
}

func BenchmarkRecord(b *testing.B) {
	for name, result := range map[string]engine.Result{
		"accepted": {Status: engine.Accepted},
		"pending":  {Status: engine.Pending, Code: 503, Delay: time.Hour},
		"failed":   {Status: engine.Failed, Code: 131026, Title: "undeliverable"},
	} {
		b.Run(name, func(b *testing.B) {
			l := newBench(b)
			var rows []engine.Recipient
			l.measure(b, func() []engine.Recipient { rows = l.next(); return nil }, func() []engine.Recipient {
				results := acceptAll(rows)
				for i := range results {
					results[i].Status, results[i].Code, results[i].Title, results[i].Delay = result.Status, result.Code, result.Title, result.Delay
				}
				l.must(l.Record(b.Context(), l.lease, results, []int64{l.seq}))
				return rows
			})
		})
	}
}

func BenchmarkApplyStatuses(b *testing.B) {
	for _, status := range []engine.Status{engine.Sent, engine.Failed} {
		b.Run(status.String(), func(b *testing.B) {
			l := newBench(b)
			var rows []engine.Recipient
			next := func() []engine.Recipient {
				rows = l.next()
				l.must(l.Record(b.Context(), l.lease, acceptAll(rows), nil))
				return nil
			}
			l.measure(b, next, func() []engine.Recipient {
				_, err := l.ApplyStatuses(b.Context(), sayAll(rows, status), nil)
				l.must(err)
				return rows
			})
		})
	}
}

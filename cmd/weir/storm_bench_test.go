package main

import (
	"testing"
	"time"

	"github.com/weirhq/weir/internal/sim"
)

// BenchmarkStorm cuts the platform's real limit of a number from 80 to 20
// messages a second for two minutes, under a campaign that two numbers send. It
// reports what was accepted from 30 s on, the share that was throttled, what the
// other number had meanwhile, and how long after the limit's return the full
// rate was back.
//
//	go test -run '^$' -bench Storm -benchtime 1x ./cmd/weir
func BenchmarkStorm(b *testing.B) {
	const other = "106540352242923"
	for b.Loop() {
		s := newStage(b, sim.Options{
			Latency: sim.Spread{Base: 80 * time.Millisecond, Jitter: 40 * time.Millisecond},
			Sent:    sim.Spread{Base: 200 * time.Millisecond}, Delivered: sim.Spread{Base: 300 * time.Millisecond},
			Numbers: []sim.Number{{ID: scriptNumber, WABA: "waba"}, {ID: other, WABA: "waba"}},
		})
		for _, id := range []string{scriptNumber, other} {
			s.weir("number", "add", id, "--waba", "waba", "--limit", "80")
		}
		s.campaign(60_000, "--number", other)
		s.serve()
		s.until("under way", time.Minute, func(v campaignView) bool { return v.Counts["delivered"] > 2000 })
		start := s.platform.Ledger()
		cut := start[len(start)-1].Received
		wait(b, 2*time.Minute, func() { s.misbehave(b, sim.Behavior{Kind: sim.Throttle, Number: scriptNumber, MPS: 20}) })
		back := int64(0)
		wait(b, 2*time.Minute, func() {
			book := s.platform.Ledger()
			back = book[len(book)-1].Received
			s.platform.Behave(0)
		})
		s.report(b, cut, back, other)
	}
}

func wait(b *testing.B, d time.Duration, first func()) {
	b.Helper()
	first()
	select {
	case <-time.After(d):
	case <-b.Context().Done():
		b.Fatal(b.Context().Err())
	}
}

func (s *stage) misbehave(b *testing.B, how sim.Behavior) {
	b.Helper()
	if _, err := s.platform.Misbehave(how); err != nil {
		b.Fatal(err)
	}
}

// report reads the ledger; times are in nanoseconds.
func (s *stage) report(b *testing.B, cut, back int64, other string) {
	b.Helper()
	settled := cut + int64(30*time.Second)
	accepted, refused, others, full := 0, 0, 0, int64(0)
	var second []int64 // the last second's acceptances after the limit's return
	for _, e := range s.platform.Ledger() {
		during := e.Received >= settled && e.Received < back
		switch {
		case e.Number == other && during && e.WAMID != "":
			others++
		case e.Number == scriptNumber && during && e.WAMID != "":
			accepted++
		case e.Number == scriptNumber && during:
			refused++
		case e.Number == scriptNumber && e.Received >= back && e.WAMID != "" && full == 0:
			second = append(second, e.Received)
			for second[0] < e.Received-int64(time.Second) {
				second = second[1:]
			}
			if len(second) >= 63 {
				full = e.Received
			}
		}
	}
	span := time.Duration(back - settled).Seconds()
	b.ReportMetric(float64(accepted)/span, "accepted/s")
	b.ReportMetric(100*float64(refused)/float64(accepted+refused), "%throttled")
	b.ReportMetric(float64(others)/span, "other/s")
	b.ReportMetric(time.Duration(full-back).Seconds(), "s-to-full-rate")
}

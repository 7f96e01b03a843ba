package main

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/pgtest"
	"github.com/weirhq/weir/internal/sim"
)

// BenchmarkPace runs a whole campaign through a node, Postgres and HTTP, and
// holds the simulator's ledger to the configured pace: its mean from the first
// message to the last, and the worst window with 50 ms for the way.
//
//	go test -run '^$' -bench Pace -benchtime 1x ./cmd/weir
func BenchmarkPace(b *testing.B) {
	for _, c := range []struct {
		mps, people int
		latency     time.Duration
		webhooks    bool
	}{
		{80, 3200, 250 * time.Millisecond, true},
		{250, 8000, 100 * time.Millisecond, true},
		{1000, 30_000, 50 * time.Millisecond, false},
		{1000, 30_000, 50 * time.Millisecond, true},
	} {
		b.Run(fmt.Sprintf("%d_mps_%v_webhooks_%t", c.mps, c.latency, c.webhooks), func(b *testing.B) {
			for b.Loop() {
				times := paceOf(b, float64(c.mps), c.people, c.latency, c.webhooks)
				span := time.Duration(times[len(times)-1] - times[0])
				mean := float64(len(times)-1) / span.Seconds()
				b.ReportMetric(mean/float64(c.mps), "of-configured")
				b.ReportMetric(sim.WorstWindow(times, float64(c.mps), 1, 50*time.Millisecond).Excess, "excess")
				b.ReportMetric(float64(sim.BusiestSpan(times, time.Second)), "busiest-second")
			}
		})
	}
}

// paceOf sends a campaign at mps, on a limit one higher so that the burst fits
// under it, and returns when the simulator received each message, in
// nanoseconds.
func paceOf(b *testing.B, mps float64, people int, latency time.Duration, webhooks bool) []int64 {
	hooks, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	opts := sim.Options{
		Latency: sim.Spread{Base: latency}, Numbers: []sim.Number{{ID: scriptNumber, WABA: "w", Throughput: 2 * int(mps)}},
		Sent: sim.Spread{Base: 100 * time.Millisecond}, Delivered: sim.Spread{Base: 200 * time.Millisecond}, ReadShare: 0.5,
	}
	if webhooks {
		opts.WebhookURL, opts.AppSecret = "http://"+hooks.Addr().String()+"/webhooks/whatsapp", scriptSecret
	}
	platform := startSim(b, opts)
	s := silent(pgtest.URL(b))
	limit, meta := mps+1, graph{GraphURL: platform.URL, GraphVersion: "v25.0", AccessToken: "t"}
	add := numberAddCmd{graph: meta, ID: scriptNumber, WABA: "w", Limit: &limit, Burst: 1, NoVerify: true}
	if err := add.Run(b.Context(), s); err != nil {
		b.Fatal(err)
	}
	file := filepath.Join(b.TempDir(), "people.csv")
	writeLargeFile(b, file, people)
	create := campaignCreateCmd{
		graph: meta, Name: "c", Template: "t", Language: "en_US", Number: []string{scriptNumber}, CSV: file, PhoneColumn: "phone",
		Param: []string{"body.1=name"}, OnUnknown: "fail", MaxAttempts: 5, Retry: "full", NoVerify: true, Start: true,
	}
	if err := create.Run(b.Context(), s); err != nil {
		b.Fatal(err)
	}
	serve := serveCmd{graph: meta, AppSecret: []string{scriptSecret}, LeaseTTL: 10 * time.Second, UnknownWindow: time.Minute}
	err = s.with(b.Context(), func(db *database) error {
		n, err := serve.node(b.Context(), db, discard)
		if err != nil {
			return err
		}
		ctx, cancel := context.WithCancel(b.Context())
		done := make(chan error, 1)
		go func() { done <- n.run(ctx, hooks) }()
		_, err = s.watch(ctx, db.Store, "c", time.Second)
		cancel()
		if ended := <-done; ended != nil {
			return ended
		}
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	var times []int64
	for _, e := range platform.Ledger() {
		times = append(times, e.Received)
	}
	return times
}

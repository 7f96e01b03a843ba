package main

import (
	"context"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weirhq/weir/internal/store"
)

// pauseCollector shows how long pauses and cancels took. It reads what Postgres
// has of them, because any node may have confirmed one, or the command that
// waited for it: so every node shows the same, and a restart forgets nothing.
type pauseCollector struct {
	store *store.Store
	log   *slog.Logger
	times *prometheus.Desc
}

func newPauseCollector(s *store.Store, log *slog.Logger) *pauseCollector {
	return &pauseCollector{store: s, log: log, times: prometheus.NewDesc("weir_pause_seconds",
		"From the order to pause or cancel a running campaign to its confirmation, after which nothing is sent; of the whole fleet.", nil, nil)}
}

// pauseBounds are in seconds: three is what is promised while all is well, and
// beyond ten a node has died.
func pauseBounds() []float64 { return []float64{0.1, 0.25, 0.5, 0.75, 1, 1.5, 2, 3, 5, 10, 20, 40} }

// Describe implements prometheus.Collector.
func (c *pauseCollector) Describe(ch chan<- *prometheus.Desc) { ch <- c.times }

// Collect implements prometheus.Collector. A database that does not answer
// leaves the series out.
func (c *pauseCollector) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), collectTimeout)
	defer cancel()
	times, err := c.store.ControlTimes(ctx, pauseBounds())
	if err != nil {
		c.log.WarnContext(ctx, "pauses were not read for a scrape", "err", err)
		return
	}
	ch <- prometheus.MustNewConstHistogram(c.times, times.Count, times.Seconds, times.AtMost)
}

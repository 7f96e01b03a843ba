package main

import (
	"context"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weirhq/weir/engine"
	"github.com/weirhq/weir/internal/store"
)

// breakerCollector asks Postgres at each scrape how the breakers stand: they are
// the fleet's, so every node tells the same of all of them, and a move that no
// node made, by an operator's command, is counted too.
type breakerCollector struct {
	store *store.Store
	log   *slog.Logger
	state *prometheus.Desc
	waits *prometheus.Desc
	moves *prometheus.Desc
}

func newBreakerCollector(s *store.Store, log *slog.Logger) *breakerCollector {
	return &breakerCollector{
		store: s, log: log,
		state: prometheus.NewDesc("weir_breaker_state", "How a breaker stands: 0 closed, 1 half-open, 2 open. host is the platform.", []string{"scope"}, nil),
		waits: prometheus.NewDesc("weir_breaker_waiting",
			"1 while a breaker is not closed and somebody could be sent to if it were; one that nobody waits behind stays open and does no harm.", []string{"scope"}, nil),
		moves: prometheus.NewDesc("weir_breaker_transitions_total", "Moves of a breaker into each state.", []string{"scope", "to"}, nil),
	}
}

// Describe implements prometheus.Collector.
func (c *breakerCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- c.state
	ch <- c.waits
	ch <- c.moves
}

// Collect implements prometheus.Collector. A database that does not answer
// leaves the series out.
func (c *breakerCollector) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), collectTimeout)
	defer cancel()
	all, err := c.store.BreakerMoves(ctx)
	if err != nil {
		c.log.WarnContext(ctx, "breakers were not read for a scrape", "err", err)
		return
	}
	for _, b := range all {
		ch <- prometheus.MustNewConstMetric(c.state, prometheus.GaugeValue, float64(b.State), b.Scope)
		ch <- prometheus.MustNewConstMetric(c.waits, prometheus.GaugeValue, oneIf(b.Waits), b.Scope)
		for _, to := range engine.BreakerStates() {
			ch <- prometheus.MustNewConstMetric(c.moves, prometheus.CounterValue, float64(b.To[to]), b.Scope, to.String())
		}
	}
}

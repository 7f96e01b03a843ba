package main

import (
	"context"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weirhq/weir/internal/store"
)

// fleetCollector asks Postgres at each scrape what alerts of the whole fleet are
// made of: a number that nobody owns is in no node's metrics.
type fleetCollector struct {
	store   *store.Store
	log     *slog.Logger
	owned   *prometheus.Desc
	waiting *prometheus.Desc
	lag     *prometheus.Desc
}

func newFleetCollector(s *store.Store, log *slog.Logger) *fleetCollector {
	number := []string{"number"}
	return &fleetCollector{
		store: s, log: log,
		owned: prometheus.NewDesc("weir_number_owned", "1 while some node of the fleet owns the number.", number, nil),
		waiting: prometheus.NewDesc("weir_number_waiting",
			"1 while recipients are due that the number could send to, if it is owned and its breakers are closed.", number, nil),
		lag: prometheus.NewDesc("weir_notice_lag_seconds",
			"How long the oldest notice that an endpoint has not taken has been waiting; 0 when it was told everything.", []string{"endpoint"}, nil),
	}
}

// Describe implements prometheus.Collector.
func (c *fleetCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- c.owned
	ch <- c.waiting
	ch <- c.lag
}

// Collect implements prometheus.Collector. A database that does not answer
// leaves the series out.
func (c *fleetCollector) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), collectTimeout)
	defer cancel()
	numbers, err := c.store.NumberWork(ctx)
	if err != nil {
		c.log.WarnContext(ctx, "numbers were not looked at for a scrape", "err", err)
		return
	}
	for _, n := range numbers {
		ch <- prometheus.MustNewConstMetric(c.owned, prometheus.GaugeValue, oneIf(n.Owned), n.ID)
		ch <- prometheus.MustNewConstMetric(c.waiting, prometheus.GaugeValue, oneIf(n.Waiting), n.ID)
	}
	lags, err := c.store.NoticeLag(ctx)
	if err != nil {
		c.log.WarnContext(ctx, "notices were not looked at for a scrape", "err", err)
		return
	}
	for endpoint, lag := range lags {
		ch <- prometheus.MustNewConstMetric(c.lag, prometheus.GaugeValue, lag.Seconds(), endpoint)
	}
}

func oneIf(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

package main

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weirhq/weir/internal/store"
)

// recipientCollector asks Postgres at each scrape what no node knows alone.
// Labels: running campaigns only, so that the set stays small.
type recipientCollector struct {
	store      *store.Store
	log        *slog.Logger
	recipients *prometheus.Desc
	stuck      *prometheus.Desc
	confirmed  *prometheus.Desc
	stopped    *prometheus.Desc
}

const collectTimeout = 3 * time.Second // well under a scrape's own

func newRecipientCollector(s *store.Store, log *slog.Logger) *recipientCollector {
	return &recipientCollector{
		store: s, log: log,
		recipients: prometheus.NewDesc("weir_recipients", "Recipients of running campaigns, by status.", []string{"campaign", "status"}, nil),
		stuck:      prometheus.NewDesc("weir_stuck_sending", "Recipients claimed over a minute ago and not settled.", nil, nil),
		confirmed:  prometheus.NewDesc("weir_database_confirmed", "1 while the database is the one that an operator vouches for; on another nothing is sent.", nil, nil),
		stopped:    prometheus.NewDesc("weir_stopped", "1 while an operator has stopped everything: nothing is sent until weir go.", nil, nil),
	}
}

// Describe implements prometheus.Collector.
func (c *recipientCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- c.recipients
	ch <- c.stuck
	ch <- c.confirmed
	ch <- c.stopped
}

// Collect implements prometheus.Collector. A database that does not answer
// leaves the series out, which is what an absent() alert looks for.
func (c *recipientCollector) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), collectTimeout)
	defer cancel()
	counts, err := c.store.RunningCounts(ctx)
	if err != nil {
		c.log.WarnContext(ctx, "recipients were not counted for a scrape", "err", err)
		return
	}
	for campaign, statuses := range counts {
		for status, n := range statuses {
			ch <- prometheus.MustNewConstMetric(c.recipients, prometheus.GaugeValue, float64(n), campaign, status.String())
		}
	}
	stuck, err := c.store.StuckSending(ctx)
	if err != nil {
		c.log.WarnContext(ctx, "stuck recipients were not counted for a scrape", "err", err)
		return
	}
	ch <- prometheus.MustNewConstMetric(c.stuck, prometheus.GaugeValue, float64(stuck))
	confirmed, err := c.store.Confirmed(ctx)
	if err != nil {
		c.log.WarnContext(ctx, "the database's identity was not read for a scrape", "err", err)
		return
	}
	ch <- prometheus.MustNewConstMetric(c.confirmed, prometheus.GaugeValue, oneIf(confirmed))
	stop, err := c.store.Stopped(ctx)
	if err != nil {
		c.log.WarnContext(ctx, "whether everything is stopped was not read for a scrape", "err", err)
		return
	}
	ch <- prometheus.MustNewConstMetric(c.stopped, prometheus.GaugeValue, oneIf(stop.Stands()))
}

package engine

import (
	"github.com/prometheus/client_golang/prometheus"
)

// register adds collectors to reg; a nil registry keeps them unregistered, so
// that code that counts need not ask whether anyone looks.
func register(reg prometheus.Registerer, collectors ...prometheus.Collector) {
	if reg != nil {
		reg.MustRegister(collectors...)
	}
}

// trackerMetrics are the Tracker's.
type trackerMetrics struct {
	commit  prometheus.Histogram
	waiting prometheus.Gauge
	busy    prometheus.Counter
}

func newTrackerMetrics(reg prometheus.Registerer) *trackerMetrics {
	m := &trackerMetrics{
		commit: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "weir_status_commit_seconds", Help: "Time of one commit of status updates.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2, 13),
		}),
		waiting: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "weir_status_waiting", Help: "Status updates and events that wait for a commit.",
		}),
		busy: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "weir_status_busy_total", Help: "Webhook deliveries refused because the status queue was full.",
		}),
	}
	register(reg, m.commit, m.waiting, m.busy)
	return m
}

package engine

import "github.com/prometheus/client_golang/prometheus"

// nodeMetrics are a node's own, whatever numbers it owns.
type nodeMetrics struct {
	beat      prometheus.Histogram
	living    prometheus.Gauge
	reclaimed prometheus.Counter
}

func newNodeMetrics(reg prometheus.Registerer) (*nodeMetrics, error) {
	m := &nodeMetrics{
		beat: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "weir_heartbeat_seconds", Help: "Time of one heartbeat, failed ones too.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2, 12),
		}),
		living: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "weir_nodes", Help: "Living nodes that this node has seen at its last look.",
		}),
		reclaimed: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "weir_reclaimed_rows_total", Help: "Rows that dead owners left claimed and this node turned unknown.",
		}),
	}
	return m, register(reg, m.beat, m.living, m.reclaimed)
}

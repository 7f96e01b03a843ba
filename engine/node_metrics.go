package engine

import "github.com/prometheus/client_golang/prometheus"

// nodeMetrics are a node's own, whatever numbers it owns.
type nodeMetrics struct {
	beat      prometheus.Histogram
	living    prometheus.Gauge
	reclaimed prometheus.Counter
	local     *localMetrics
}

// localMetrics show the breaker of this node's own way to the platform.
type localMetrics struct {
	state prometheus.Gauge
	moves *prometheus.CounterVec
}

func newLocalMetrics() *localMetrics {
	m := &localMetrics{
		state: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "weir_local_breaker_state",
			Help: "How the breaker of this node's own way to the platform stands: 0 closed, 1 half-open, 2 open.",
		}),
		moves: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "weir_local_breaker_transitions_total", Help: "Moves of this node's own breaker into each state.",
		}, []string{"to"}),
	}
	for _, to := range BreakerStates() {
		m.moves.WithLabelValues(to.String())
	}
	return m
}

// show notes that it has moved.
func (m *localMetrics) show(to BreakerState) {
	m.state.Set(float64(to))
	m.moves.WithLabelValues(to.String()).Inc()
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
		local: newLocalMetrics(),
	}
	return m, register(reg, m.beat, m.living, m.reclaimed, m.local.state, m.local.moves)
}

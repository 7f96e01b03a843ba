package engine

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// register adds collectors to reg; a nil registry keeps them unregistered, so
// that code that counts need not ask whether anyone looks.
func register(reg prometheus.Registerer, collectors ...prometheus.Collector) error {
	if reg == nil {
		return nil
	}
	for _, c := range collectors {
		if err := reg.Register(c); err != nil {
			return fmt.Errorf("register metrics: %w", err)
		}
	}
	return nil
}

// metrics are a node's, by number. Labels are closed sets: the numbers this
// node owns, and the statuses a result can have.
type metrics struct {
	wait       *prometheus.HistogramVec
	claim      *prometheus.HistogramVec
	record     *prometheus.HistogramVec
	claimed    *prometheus.CounterVec
	results    *prometheus.CounterVec
	configured *prometheus.GaugeVec
	effective  *prometheus.GaugeVec
	owned      *prometheus.GaugeVec
	inFlight   *prometheus.GaugeVec
	senders    *prometheus.GaugeVec
	unrecorded *prometheus.GaugeVec
}

// resultStatuses are the statuses that a Result can have.
var resultStatuses = [...]Status{Pending, Unknown, Dead, Accepted, Held, Failed}

func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	gauge := func(name, help string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, []string{"number"})
	}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, append([]string{"number"}, labels...))
	}
	histogram := func(name, help string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: name, Help: help, Buckets: prometheus.ExponentialBuckets(0.001, 2, 14),
		}, []string{"number"})
	}
	m := &metrics{
		wait:       histogram("weir_bucket_wait_seconds", "How long a row waited for its token."),
		claim:      histogram("weir_claim_duration_seconds", "Time of one claim call."),
		record:     histogram("weir_record_duration_seconds", "Time of one write of results, failed ones too."),
		claimed:    counter("weir_claimed_rows_total", "Rows that claims found due, those suppressed or put off included."),
		results:    counter("weir_results_total", "Results recorded, by the status written.", "status"),
		configured: gauge("weir_rate_configured", "Messages per second that the operator allows: limit less headroom."),
		effective:  gauge("weir_rate_effective", "Messages per second that the bucket lets through."),
		owned:      gauge("weir_lease_owned", "1 while this node owns the number."),
		inFlight:   gauge("weir_in_flight", "Calls begun and not yet answered."),
		senders:    gauge("weir_senders", "Senders of the lane."),
		unrecorded: gauge("weir_unrecorded", "Claimed rows whose result is not yet in the database."),
	}
	return m, register(reg, m.wait, m.claim, m.record, m.claimed, m.results, m.configured,
		m.effective, m.owned, m.inFlight, m.senders, m.unrecorded)
}

// laneMetrics are one number's series, looked up once: nothing on the path of
// a row looks a label up.
type laneMetrics struct {
	wait, claim, record                                         prometheus.Observer
	claimed                                                     prometheus.Counter
	results                                                     [len(statusNames)]prometheus.Counter
	configured, effective, owned, inFlight, senders, unrecorded prometheus.Gauge
}

// lane makes a number's series, so that they exist from the first second.
func (m *metrics) lane(number string) *laneMetrics {
	l := &laneMetrics{
		wait: m.wait.WithLabelValues(number), claim: m.claim.WithLabelValues(number),
		record: m.record.WithLabelValues(number), claimed: m.claimed.WithLabelValues(number),
		configured: m.configured.WithLabelValues(number), effective: m.effective.WithLabelValues(number),
		owned: m.owned.WithLabelValues(number), inFlight: m.inFlight.WithLabelValues(number),
		senders: m.senders.WithLabelValues(number), unrecorded: m.unrecorded.WithLabelValues(number),
	}
	for _, s := range resultStatuses {
		l.results[s] = m.results.WithLabelValues(number, s.String())
	}
	return l
}

// forget deletes a number's series when its lease is gone: another node's
// exist now, and two would be added up.
func (m *metrics) forget(number string) {
	labels := prometheus.Labels{"number": number}
	for _, v := range []interface {
		DeletePartialMatch(prometheus.Labels) int
	}{
		m.wait, m.claim, m.record, m.claimed, m.results, m.configured,
		m.effective, m.owned, m.inFlight, m.senders, m.unrecorded,
	} {
		v.DeletePartialMatch(labels)
	}
}

// observe counts how long something took since start.
func observe(o prometheus.Observer, start time.Time) { o.Observe(time.Since(start).Seconds()) }

// trackerMetrics are the Tracker's.
type trackerMetrics struct {
	commit  prometheus.Histogram
	waiting prometheus.Gauge
	busy    prometheus.Counter
}

func newTrackerMetrics(reg prometheus.Registerer) (*trackerMetrics, error) {
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
	return m, register(reg, m.commit, m.waiting, m.busy)
}

package cloudapi

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/weirhq/weir/engine"
)

// clientMetrics are the send path's. Labels are closed sets: the numbers that
// were announced, the engine's actions, and the codes of our table.
type clientMetrics struct {
	sends  *prometheus.CounterVec
	time   *prometheus.HistogramVec
	errors *prometheus.CounterVec
}

// numberMetrics are one number's series, held so that a send looks none up.
type numberMetrics struct {
	sends  []prometheus.Counter // by engine.Action
	time   prometheus.Observer
	errors map[string]prometheus.Counter // by entry label
}

// Labels of weir_errors_total beside the codes themselves.
const (
	labelOther = "other" // not on the send path, or not in the table
	labelNone  = "none"  // no readable error code: the network, a gateway
)

func newClientMetrics(r prometheus.Registerer) (*clientMetrics, error) {
	m := &clientMetrics{
		sends: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "weir_sends_total", Help: "Calls by outcome; release means that nothing was written.",
		}, []string{"number", "outcome"}),
		time: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "weir_send_duration_seconds", Help: "Time of a call that reached the wire.",
			Buckets: []float64{.025, .05, .1, .15, .25, .35, .5, .75, 1, 2, 4, 8, 10},
		}, []string{"number"}),
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "weir_errors_total", Help: "Calls that were not accepted, by the platform's error code.",
		}, []string{"number", "code"}),
	}
	return m, register(r, m.sends, m.time, m.errors)
}

func register(r prometheus.Registerer, collectors ...prometheus.Collector) error {
	if r == nil {
		return nil
	}
	for _, c := range collectors {
		if err := r.Register(c); err != nil {
			return err
		}
	}
	return nil
}

func (m *clientMetrics) number(id string) *numberMetrics {
	n := &numberMetrics{time: m.time.WithLabelValues(id), errors: make(map[string]prometheus.Counter, len(codes))}
	for _, a := range engine.Actions() {
		n.sends = append(n.sends, m.sends.WithLabelValues(id, a.String()))
	}
	for i := range codes {
		if !codes[i].offPath {
			n.errors[codes[i].label()] = m.errors.WithLabelValues(id, codes[i].label())
		}
	}
	for _, l := range []string{labelOther, labelNone} {
		n.errors[l] = m.errors.WithLabelValues(id, l)
	}
	return n
}

func (n *numberMetrics) count(a engine.Answer) {
	n.sends[a.Action].Inc()
	if a.Action != engine.Accept && a.Action != engine.Release {
		n.errors[errorLabel(a)].Inc()
	}
}

// errorLabel: code 0 is Graph's refusal of a token, and also our "no code".
func errorLabel(a engine.Answer) string {
	if a.Code == 0 && a.Title != Title(0) {
		return labelNone
	}
	e := lookup(a.Code)
	if e == nil || e.offPath {
		return labelOther
	}
	return e.label()
}

// receiverMetrics are the webhooks'.
type receiverMetrics struct {
	requests map[result]prometheus.Counter
	statuses map[string]prometheus.Counter
	events   map[string]prometheus.Counter
	wishes   map[string]prometheus.Counter
	foreign  prometheus.Counter
	lag      prometheus.Histogram
	time     prometheus.Histogram
}

func newReceiverMetrics(r prometheus.Registerer) (*receiverMetrics, error) {
	requests := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "weir_webhook_requests_total", Help: "Webhook requests by result.",
	}, []string{"result"})
	statuses := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "weir_webhook_statuses_total", Help: "Statuses received, repeated ones included.",
	}, []string{"status"})
	events := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "weir_webhook_events_total", Help: "Webhook changes other than statuses, by field.",
	}, []string{"field"})
	wishes := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "weir_webhook_wishes_total", Help: "Inbound messages that ask for no more messages or for them again, repeated ones included; unplaced ones do not say whose they are.",
	}, []string{"wish"})
	m := &receiverMetrics{
		foreign: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "weir_webhook_foreign_total", Help: "Statuses of messages that this database did not send.",
		}),
		lag: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "weir_webhook_lag_seconds", Help: "From a status's own timestamp (whole seconds) to its arrival.",
			Buckets: []float64{.5, 1, 2, 5, 10, 30, 60, 300, 1800, 3600, 86400},
		}),
		time: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "weir_webhook_seconds", Help: "Time to answer a webhook, its commit included.",
			Buckets: []float64{.002, .005, .01, .02, .03, .05, .1, .25, .5, 1, 2, 5},
		}),
	}
	m.requests = series(requests, results)
	m.statuses = series(statuses, statusWords)
	m.events = series(events, eventFields)
	m.wishes = series(wishes, wishLabels)
	return m, register(r, requests, statuses, events, wishes, m.foreign, m.lag, m.time)
}

// series makes every series of a closed label set.
func series[L ~string](v *prometheus.CounterVec, labels []L) map[L]prometheus.Counter {
	all := make(map[L]prometheus.Counter, len(labels))
	for _, l := range labels {
		all[l] = v.WithLabelValues(string(l))
	}
	return all
}

// count adds to a series, or to "other" for a word that is not in the set.
func count(all map[string]prometheus.Counter, label string) {
	c, ok := all[label]
	if !ok {
		c = all[labelOther]
	}
	c.Inc()
}

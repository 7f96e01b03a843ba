package dashboards

import (
	"context"
	"errors"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// scraped starts a real Prometheus on a registry with one counter.
func scraped(t *testing.T) *Prometheus {
	t.Helper()
	if _, err := exec.LookPath("prometheus"); err != nil {
		t.Skip("no prometheus on PATH; `apt-get install prometheus` brings it, and .ci/run does")
	}
	reg := prometheus.NewRegistry()
	reg.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "here_total"}, func() float64 {
		return float64(time.Now().UnixMilli())
	}), prometheus.NewHistogram(prometheus.HistogramOpts{Name: "silent_seconds"}))
	target := httptest.NewServer(promhttp.HandlerFor(reg, promhttp.HandlerOpts{}))
	t.Cleanup(target.Close)
	p, err := StartPrometheus(t.Context(), t.TempDir(), strings.TrimPrefix(target.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

func TestAwait(t *testing.T) {
	t.Parallel()
	p := scraped(t)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	if err := p.Await(ctx, []Panel{{Title: "here", Exprs: []string{"rate(here_total[5s])"}}}); err != nil {
		t.Fatal(err)
	}
	if err := p.Await(ctx, []Panel{{Title: "broken", Exprs: []string{"rate("}}}); err == nil || !strings.Contains(err.Error(), "broken") {
		t.Errorf("an expression that does not parse: err = %v, want one that names its panel", err)
	}
	// Never heard of, and known but without a value: both are panels that show nothing.
	mute := Panel{Title: "mute", Exprs: []string{"absent_metric", "histogram_quantile(0.5, rate(silent_seconds_bucket[5s]))"}}
	lacks := func(patience time.Duration) (what []string, err error) {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		err = p.Await(ctx, []Panel{mute, {Title: "here", Exprs: []string{"here_total"}}})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("panels without data: err = %v, want the deadline", err)
		}
		for _, want := range append(mute.Exprs, "of 2 expressions") {
			if !strings.Contains(err.Error(), want) {
				what = append(what, want)
			}
		}
		return what, err
	}
	for patience := time.Second; ; patience *= 2 { // on a slow machine one look takes longer
		what, err := lacks(patience)
		if len(what) == 0 {
			break
		}
		if patience > time.Minute {
			t.Fatalf("error does not show %q: %v", what, err)
		}
	}
}

// TestPanelsAreValidPromQL asks the real parser, before any campaign has run.
func TestPanelsAreValidPromQL(t *testing.T) {
	t.Parallel()
	p := scraped(t)
	panels, err := Panels(time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	for _, panel := range panels {
		for _, expr := range panel.Exprs {
			if _, err := p.Values(t.Context(), expr); err != nil {
				t.Errorf("panel %q: %v", panel.Title, err)
			}
		}
	}
}

func TestStartPrometheusSaysWhy(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if _, err := exec.LookPath("prometheus"); err != nil {
		_, err := StartPrometheus(t.Context(), dir, "127.0.0.1:1")
		if err == nil || !strings.Contains(err.Error(), "install") {
			t.Errorf("err = %v, want one that says what to install", err)
		}
		return
	}
	if err := os.WriteFile(filepath.Join(dir, "data"), nil, 0o600); err != nil { // where a directory must be
		t.Fatal(err)
	}
	_, err := StartPrometheus(t.Context(), dir, "127.0.0.1:1")
	if err == nil || !strings.Contains(err.Error(), "data") {
		t.Errorf("err = %v, want the server's own words", err)
	}
}

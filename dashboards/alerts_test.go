package dashboards

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// TestAlerts makes every rule fire and stay silent, by Prometheus's own tool.
func TestAlerts(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("promtool"); err != nil {
		t.Skip("no promtool on PATH; `apt-get install prometheus` brings it, and .ci/run does")
	}
	if out, err := exec.CommandContext(t.Context(), "promtool", "test", "rules", "testdata/alerts_test.yml").CombinedOutput(); err != nil {
		t.Errorf("promtool test rules: %v\n%s", err, out)
	}
}

type alertRules struct {
	Groups []struct {
		Rules []struct {
			Alert       string
			Expr        string
			Annotations struct{ Summary, Description string }
		}
	}
}

// TestAlertsFitTheCode: each reads metrics that exist, says what to do, and is
// in the test that makes it fire.
func TestAlertsFitTheCode(t *testing.T) {
	t.Parallel()
	var rules alertRules
	load(t, "alerts.yml", &rules)
	fires, err := os.ReadFile("testdata/alerts_test.yml")
	if err != nil {
		t.Fatal(err)
	}
	defined, err := metricNames(os.DirFS(".."))
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, g := range rules.Groups {
		for _, r := range g.Rules {
			seen++
			if absent := undefined(families(r.Expr), defined); len(absent) > 0 || len(families(r.Expr)) == 0 {
				t.Errorf("%s reads metrics that no code defines: %v", r.Alert, absent)
			}
			if r.Annotations.Summary == "" || r.Annotations.Description == "" {
				t.Errorf("%s does not say what is wrong and what to do", r.Alert)
			}
			if !strings.Contains(string(fires), `alertname="`+r.Alert+`"`) {
				t.Errorf("%s is never made to fire", r.Alert)
			}
		}
	}
	if seen == 0 {
		t.Error("no rules were found")
	}
}

// TestPrometheusLoadsTheAlerts follows the rule file through the mounts.
func TestPrometheusLoadsTheAlerts(t *testing.T) {
	t.Parallel()
	var file compose
	load(t, "../docker-compose.yml", &file)
	src, err := os.ReadFile("prometheus.yml")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`rule_files: \[(\S+)\]`).FindSubmatch(src)
	if m == nil || !exists(onHost(t, file.Services["prometheus"].Volumes, string(m[1]))) {
		t.Errorf("prometheus.yml loads no rules of the tree: %q", m)
	}
}

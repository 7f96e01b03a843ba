package dashboards

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

// TestFamiliesExistInTheCode fails when a metric is renamed and its panel is
// not. It reads the source, so that it needs no running part; that the series
// also have values is asked of a real Prometheus by the test of the program.
func TestFamiliesExistInTheCode(t *testing.T) {
	t.Parallel()
	names, err := Families()
	if err != nil {
		t.Fatal(err)
	}
	defined, err := metricNames(os.DirFS(".."))
	if err != nil {
		t.Fatal(err)
	}
	if absent := undefined(names, defined); len(absent) > 0 {
		t.Errorf("weir.json reads metrics that no code defines:\n  %s", strings.Join(absent, "\n  "))
	}
}

func TestUndefinedIsFound(t *testing.T) {
	t.Parallel()
	metrics := `package p
		import "github.com/prometheus/client_golang/prometheus"
		var a = prometheus.NewCounter(prometheus.CounterOpts{Name: "weir_whole_total"})
		var b = prometheus.NewCounter(prometheus.CounterOpts{Namespace: "weir", Name: "part_total"})`
	elsewhere := `package p
		var c = "weir_elsewhere_total"`
	defined, err := metricNames(fstest.MapFS{
		"a/metrics.go":      {Data: []byte(metrics)},
		"a/other.go":        {Data: []byte(elsewhere)},
		"a/metrics_test.go": {Data: []byte(strings.ReplaceAll(metrics, "whole", "tested"))},
	})
	if err != nil {
		t.Fatal(err)
	}
	got := undefined([]string{"weir_whole_total", "weir_part_total", "weir_elsewhere_total", "weir_tested_total"}, defined)
	if diff := cmp.Diff([]string{"weir_elsewhere_total", "weir_tested_total"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// undefined returns the names that are defined neither whole nor, beside a
// namespace, without their prefix.
func undefined(names []string, defined map[string]bool) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		return defined[name] || defined[strings.TrimPrefix(name, "weir_")]
	})
}

// metricNames returns every string literal of the non-test files in tree that
// import the Prometheus client: among them are all names of metrics.
func metricNames(tree fs.FS) (map[string]bool, error) {
	names := map[string]bool{}
	return names, fs.WalkDir(tree, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		src, err := fs.ReadFile(tree, path)
		if err != nil {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, src, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(file.Imports, isPrometheus) {
			ast.Inspect(file, func(n ast.Node) bool {
				if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
					if s, err := strconv.Unquote(lit.Value); err == nil {
						names[s] = true
					}
				}
				return true
			})
		}
		return nil
	})
}

func isPrometheus(i *ast.ImportSpec) bool {
	return strings.HasPrefix(i.Path.Value, `"github.com/prometheus/client_golang/prometheus`)
}

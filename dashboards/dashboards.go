// Package dashboards hides the shape of Weir's Grafana dashboard: where in its
// JSON the panels and their expressions are, and which variables Grafana fills
// in. It promises expressions that a Prometheus evaluates as they are, so that
// tests can hold the dashboard to the code and to a running campaign. It never
// names a metric itself, and the server does not use it.
package dashboards

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

//go:embed weir.json
var weirJSON []byte

// Panel is one panel of the dashboard, in the order of the screen.
type Panel struct {
	Title string
	Exprs []string // PromQL without variables
}

// Panels returns the dashboard's panels with every variable at "All" and rates
// taken over window (whole seconds; it must span at least two scrapes). Row
// headings are no panels. The error names what in weir.json cannot be read.
func Panels(window time.Duration) ([]Panel, error) {
	board, err := parse(weirJSON)
	if err != nil {
		return nil, err
	}
	return board.plain(window)
}

// Families returns the names of the metric families that the dashboard reads,
// sorted, each once, as a registry gathers them: a histogram's without _bucket.
func Families() ([]string, error) {
	panels, err := Panels(time.Minute)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, p := range panels {
		for _, expr := range p.Exprs {
			names = append(names, families(expr)...)
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

var metric = regexp.MustCompile(`\bweir_[a-z0-9_]+`)

func families(expr string) []string {
	names := metric.FindAllString(expr, -1)
	for i, name := range names {
		for _, part := range []string{"_bucket", "_sum", "_count"} {
			name = strings.TrimSuffix(name, part)
		}
		names[i] = name
	}
	return names
}

// dashboard is what we read of Grafana's classic dashboard model.
type dashboard struct {
	UID        string `json:"uid"`
	Templating struct {
		List []variable `json:"list"`
	} `json:"templating"`
	Panels []panel `json:"panels"`
}

type variable struct {
	Name     string `json:"name"`
	Type     string `json:"type"`
	AllValue string `json:"allValue"`
}

type panel struct {
	ID          int      `json:"id"`
	Type        string   `json:"type"`
	Title       string   `json:"title"`
	Description string   `json:"description"`
	Targets     []target `json:"targets"`
	Panels      []panel  `json:"panels"` // of a collapsed row
	FieldConfig struct {
		Defaults struct {
			Unit string `json:"unit"`
		} `json:"defaults"`
	} `json:"fieldConfig"`
}

type target struct {
	RefID      string `json:"refId"`
	Expr       string `json:"expr"`
	Legend     string `json:"legendFormat"`
	Datasource struct {
		UID string `json:"uid"`
	} `json:"datasource"`
}

func parse(raw []byte) (*dashboard, error) {
	var board dashboard
	if err := json.Unmarshal(raw, &board); err != nil {
		return nil, fmt.Errorf("parse dashboard: %w", err)
	}
	return &board, nil
}

// everything returns rows and panels, those in collapsed rows included.
func (d *dashboard) everything() []panel {
	var found []panel
	for _, p := range d.Panels {
		found = append(append(found, p), p.Panels...)
	}
	return found
}

// all returns what everything does, without the rows themselves.
func (d *dashboard) all() []panel {
	return slices.DeleteFunc(d.everything(), func(p panel) bool { return p.Type == "row" })
}

func (d *dashboard) plain(window time.Duration) ([]Panel, error) {
	if window < time.Second {
		return nil, fmt.Errorf("window of %s: need at least a second", window)
	}
	values := []string{"$__rate_interval", fmt.Sprintf("%ds", int(window.Seconds()))}
	for _, v := range d.Templating.List {
		if v.Type == "query" {
			values = append(values, "$"+v.Name, v.AllValue)
		}
	}
	fill := strings.NewReplacer(values...)
	var panels []Panel
	for _, p := range d.all() {
		plain := Panel{Title: p.Title}
		for _, t := range p.Targets {
			expr := fill.Replace(t.Expr)
			if strings.Contains(expr, "$") {
				return nil, fmt.Errorf("panel %q: no value for a variable in %q", p.Title, expr)
			}
			plain.Exprs = append(plain.Exprs, expr)
		}
		panels = append(panels, plain)
	}
	return panels, nil
}

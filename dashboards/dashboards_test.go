package dashboards

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestDashboardIsWhole(t *testing.T) {
	t.Parallel()
	board, err := parse(weirJSON)
	if err != nil {
		t.Fatal(err)
	}
	for _, fault := range faults(board) {
		t.Error(fault)
	}
}

// TestFaultsAreFound is the negative: each fault, made on purpose, is named.
func TestFaultsAreFound(t *testing.T) {
	t.Parallel()
	tests := map[string]func(*dashboard){
		"uid":            func(d *dashboard) { d.UID = "" },
		"first panel":    func(d *dashboard) { d.Panels = d.Panels[1:] },
		"id":             func(d *dashboard) { d.Panels[1].ID = d.Panels[0].ID },
		"no title":       func(d *dashboard) { d.Panels[0].Title = " " },
		"no description": func(d *dashboard) { d.Panels[0].Description = "" },
		"no unit":        func(d *dashboard) { d.Panels[0].FieldConfig.Defaults.Unit = "" },
		"no target":      func(d *dashboard) { d.Panels[0].Targets = nil },
		"no expression":  func(d *dashboard) { d.Panels[0].Targets[0].Expr = "" },
		"refId":          func(d *dashboard) { d.Panels[0].Targets[1].RefID = d.Panels[0].Targets[0].RefID },
		"data source":    func(d *dashboard) { d.Panels[0].Targets[0].Datasource.UID = "abc" },
		"legend":         func(d *dashboard) { d.Panels[0].Targets[0].Legend = "{{nubmer}}" },
	}
	for want, spoil := range tests {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			board, err := parse(weirJSON)
			if err != nil {
				t.Fatal(err)
			}
			spoil(board)
			if got := faults(board); !slices.ContainsFunc(got, func(s string) bool { return strings.Contains(s, want) }) {
				t.Errorf("faults %q do not name %q", got, want)
			}
		})
	}
}

func faults(d *dashboard) (found []string) {
	if d.UID != "weir" {
		found = append(found, "the uid is "+d.UID+": links and bookmarks need weir")
	}
	if len(d.Panels) == 0 || !isSendsPanel(d.Panels[0]) {
		found = append(found, "the first panel must show sends against the configured and the effective rate")
	}
	ids := map[int]bool{}
	for _, p := range d.everything() {
		if ids[p.ID] || p.ID <= 0 {
			found = append(found, "panel "+p.Title+": its id is missing or used twice")
		}
		ids[p.ID] = true
	}
	for _, p := range d.all() {
		found = append(found, panelFaults(p)...)
	}
	return found
}

func isSendsPanel(p panel) bool {
	var exprs string
	for _, t := range p.Targets {
		exprs += t.Expr + "\n"
	}
	return strings.Contains(exprs, "rate(weir_sends_total") && strings.Contains(exprs, "weir_rate_configured") &&
		strings.Contains(exprs, "weir_rate_effective")
}

var legendLabel = regexp.MustCompile(`{{(\w+)}}`)

func panelFaults(p panel) (found []string) {
	fault := func(what string) { found = append(found, "panel "+p.Title+": "+what) }
	if strings.TrimSpace(p.Title) == "" {
		fault("no title")
	}
	if strings.TrimSpace(p.Description) == "" {
		fault("no description")
	}
	if p.FieldConfig.Defaults.Unit == "" {
		fault("no unit")
	}
	if len(p.Targets) == 0 {
		fault("no target")
	}
	refs := map[string]bool{}
	for _, t := range p.Targets {
		if strings.TrimSpace(t.Expr) == "" {
			fault("no expression in target " + t.RefID)
		}
		if refs[t.RefID] || t.RefID == "" {
			fault("refId " + t.RefID + " is used twice or empty")
		}
		refs[t.RefID] = true
		if t.Datasource.UID != "${datasource}" {
			fault("data source is not the variable")
		}
		for _, label := range legendLabel.FindAllStringSubmatch(t.Legend, -1) {
			if !regexp.MustCompile(`by \([^)]*\b` + label[1] + `\b[^)]*\)`).MatchString(t.Expr) {
				fault("legend names " + label[1] + ", which the expression drops: " + t.Expr)
			}
		}
	}
	return found
}

func TestPanelsAreWhatPrometheusTakes(t *testing.T) {
	t.Parallel()
	panels, err := Panels(30 * time.Second)
	if err != nil {
		t.Fatal(err)
	}
	want := Panel{Title: "Sends per second against the configured rate", Exprs: []string{
		`sum by (number) (rate(weir_sends_total{number=~".*", outcome!="release"}[30s]))`,
		`max by (number) (weir_rate_configured{number=~".*"})`,
		`max by (number) (weir_rate_effective{number=~".*"})`,
	}}
	if diff := cmp.Diff(want, panels[0]); diff != "" {
		t.Errorf("first panel (-want +got):\n%s", diff)
	}
}

func TestPanelsRefuseWhatTheyCannotFill(t *testing.T) {
	t.Parallel()
	if _, err := Panels(0); err == nil {
		t.Error("a window of 0 was taken")
	}
	board := &dashboard{Panels: []panel{{Title: "x", Targets: []target{{Expr: `up{job="$job"}`}}}}}
	if _, err := board.plain(time.Minute); err == nil || !strings.Contains(err.Error(), "$job") {
		t.Errorf("unknown variable: err = %v, want one that shows $job", err)
	}
	if _, err := parse([]byte(`{"panels":`)); err == nil {
		t.Error("half a JSON was taken")
	}
}

// TestCollapsedRowsCount holds the two shapes of a row together: Grafana moves
// a row's panels into it when someone saves it collapsed.
func TestCollapsedRowsCount(t *testing.T) {
	t.Parallel()
	board, err := parse([]byte(`{"panels":[
		{"type":"row","title":"r","panels":[{"type":"stat","title":"in","targets":[{"expr":"up"}]}]},
		{"type":"stat","title":"out","targets":[{"expr":"down"}]}]}`))
	if err != nil {
		t.Fatal(err)
	}
	got, err := board.plain(time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]Panel{{"in", []string{"up"}}, {"out", []string{"down"}}}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestFamilies(t *testing.T) {
	t.Parallel()
	got := families(`rate(weir_a_seconds_bucket[1m]) / rate(weir_a_seconds_count[1m]) + weir_b{x="weir"} - weir_c_total`)
	if diff := cmp.Diff([]string{"weir_a_seconds", "weir_a_seconds", "weir_b", "weir_c_total"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	all, err := Families()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"weir_sends_total", "weir_send_duration_seconds", "weir_stuck_sending"} {
		if !slices.Contains(all, want) {
			t.Errorf("families %v lack %s", all, want)
		}
	}
}

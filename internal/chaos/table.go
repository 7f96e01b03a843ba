package chaos

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// Table shows faults against properties, and what was measured. A cell is "ok",
// in brackets where the fault is about that property, or how often it was found
// broken; a fault whose run failed has none.
func Table(verdicts []Verdict) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	line := func(cells ...string) { _, _ = fmt.Fprintln(w, strings.Join(cells, "\t")) } // to memory
	head := []string{"fault"}
	for _, p := range Properties() {
		head = append(head, p.Name)
	}
	line(head...)
	for _, v := range verdicts {
		cells := []string{v.Fault}
		for _, p := range Properties() {
			cells = append(cells, v.cell(p.Name))
		}
		line(cells...)
	}
	_ = w.Flush() // likewise
	b.WriteByte('\n')
	line("fault", "requests", "unknown", "doubled", "takeover", "handover", "silence", "back at 90 %", "way", "confirm")
	for _, v := range verdicts {
		f := v.Figures
		line(v.Fault, fmt.Sprint(f.Requests), fmt.Sprint(f.Unknown), fmt.Sprint(f.Doubled), short(f.Takeover), short(f.Handover),
			short(f.Silence), short(f.Back), short(f.Way), short(f.Confirm))
	}
	_ = w.Flush() // likewise
	return b.String()
}

func (v Verdict) cell(property string) string {
	switch n := len(v.Broken[property]); {
	case v.Broken["run"] != nil:
		return "-"
	case n > 0:
		return fmt.Sprint("BROKEN ", n)
	case slices.Contains(v.About, property):
		return "[ok]"
	default:
		return "ok"
	}
}

func short(d time.Duration) string {
	if d == 0 {
		return "-"
	}
	return d.Round(time.Millisecond).String()
}

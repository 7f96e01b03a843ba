package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"golang.org/x/term"
)

func printJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("print json: %w", err)
	}
	return nil
}

// table prints aligned columns.
type table struct{ w *tabwriter.Writer }

func newTable(w io.Writer, head ...string) table {
	t := table{tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)}
	t.row(head...)
	return t
}

func (t table) row(cells ...string) {
	for i, c := range cells {
		if c == "" {
			cells[i] = "-"
		}
	}
	_, _ = fmt.Fprintln(t.w, strings.Join(cells, "\t")) // flush reports what went wrong
}

func (t table) flush() error {
	if err := t.w.Flush(); err != nil {
		return fmt.Errorf("print table: %w", err)
	}
	return nil
}

// isTerminal says whether people are at that end, live.
func isTerminal(end any) bool {
	f, ok := end.(interface{ Fd() uintptr })
	return ok && term.IsTerminal(int(f.Fd()))
}

// group writes 1234567 as 1 234 567.
func group(n int64) string {
	s := fmt.Sprint(n)
	var b strings.Builder
	for i, r := range s {
		if i > 0 && (len(s)-i)%3 == 0 && s[i-1] != '-' {
			b.WriteByte(' ')
		}
		b.WriteRune(r)
	}
	return b.String()
}

// shellWord is a name as it can be pasted into a shell.
func shellWord(s string) string {
	plain := func(r rune) bool { return r > ' ' && !strings.ContainsRune("'\"\\$`!*?;&|<>(){}[]~#", r) }
	if s != "" && strings.IndexFunc(s, func(r rune) bool { return !plain(r) }) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// stamp is a time for people and scripts alike; "" for none.
func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

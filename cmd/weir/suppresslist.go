package main

import (
	"bufio"
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"slices"

	"github.com/weirhq/weir/internal/audience"
	"github.com/weirhq/weir/internal/store"
)

type suppressListCmd struct {
	Scope string   `placeholder:"SCOPE" help:"Only of this scope. Default: of all."`
	Kind  []string `xor:"kinds" placeholder:"KIND,…" help:"Only these: suppress, stop, absent. Default: the opt-outs, suppress and stop."`
	All   bool     `xor:"kinds" help:"Also who is left out for a while because they were not on WhatsApp."`
	CSV   bool     `name:"csv" xor:"form" help:"Write CSV."`
	JSON  bool     `xor:"form" help:"Print JSON."`
	Raw   bool     `help:"For machines: cells of the CSV are not made safe for spreadsheets."`
}

// Help shows an example.
func (suppressListCmd) Help() string {
	return `  weir suppress list --csv --scope marketing > opted-out.csv

Opt-outs of operators and by Meta's word (suppress), and of the persons themselves, in
a message (stop). With --all or --kind absent also who was not on WhatsApp when last
tried: each campaign leaves them out for its own --absent-days, 30 unless it says
otherwise; their until, in CSV and JSON, is when no campaign can any more. Brazil's and
Mexico's numbers stand there in both ways in which they are written. It is people's
data: mind where it goes.`
}

func (c suppressListCmd) kinds() ([]store.SuppressionKind, error) {
	switch {
	case c.All:
		return nil, nil
	case len(c.Kind) == 0:
		return []store.SuppressionKind{store.OptOut, store.SaidStop}, nil
	}
	var kinds []store.SuppressionKind
	for _, name := range c.Kind {
		kind := store.SuppressionKind(name)
		if !slices.Contains([]store.SuppressionKind{store.OptOut, store.SaidStop, store.Absent}, kind) {
			return nil, usagef("--kind %s: the kinds are suppress, stop and absent", name)
		}
		kinds = append(kinds, kind)
	}
	return kinds, nil
}

func (c suppressListCmd) Run(ctx context.Context, s *session) error {
	kinds, err := c.kinds()
	if err != nil {
		return err
	}
	return s.with(ctx, func(db *database) error {
		if err := c.write(s, db.Suppressions(ctx, c.Scope, kinds...)); err != nil || c.All || len(c.Kind) > 0 {
			return err
		}
		more, err := db.CountAbsent(ctx, c.Scope)
		if err == nil && more > 0 {
			_, err = fmt.Fprintf(s.std.err, "%s more are left out for a while by themselves, as not on WhatsApp: --all\n", group(more))
		}
		return err
	})
}

func (c suppressListCmd) write(s *session, rows iter.Seq2[store.ListedSuppression, error]) error {
	switch {
	case c.CSV:
		return c.csv(s.std.out, rows)
	case c.JSON:
		return listJSON(s.std.out, rows)
	default:
		return listTable(s, rows)
	}
}

// listedView is a suppression for scripts: its fields are a promise.
type listedView struct {
	Phone  string `json:"phone"`
	Scope  string `json:"scope"`
	Kind   string `json:"kind"`
	Reason string `json:"reason,omitempty"`
	At     string `json:"at"`
	Until  string `json:"until,omitempty"`
}

func viewOfListed(r store.ListedSuppression) listedView {
	return listedView{r.Phone, r.Scope, string(r.Kind), r.Reason, stamp(r.At), stamp(r.Until)}
}

func (c suppressListCmd) csv(w io.Writer, rows iter.Seq2[store.ListedSuppression, error]) error {
	cell := audience.SafeCell
	if c.Raw {
		cell = func(s string) string { return s }
	}
	out := csv.NewWriter(w) // it has a buffer of its own
	if err := out.Write([]string{"phone", "scope", "kind", "reason", "at", "until"}); err != nil {
		return fmt.Errorf("write list: %w", err)
	}
	for row, err := range rows {
		if err != nil {
			return err
		}
		v := viewOfListed(row)
		if err := out.Write([]string{cell(v.Phone), cell(v.Scope), v.Kind, cell(v.Reason), v.At, v.Until}); err != nil {
			return fmt.Errorf("write list: %w", err)
		}
	}
	out.Flush()
	if err := out.Error(); err != nil {
		return fmt.Errorf("write list: %w", err)
	}
	return nil
}

// listJSON writes one list, however long, an element a line.
func listJSON(w io.Writer, rows iter.Seq2[store.ListedSuppression, error]) error {
	out := bufio.NewWriterSize(w, 64<<10)
	before := "["
	for row, err := range rows {
		if err != nil {
			return err
		}
		line, err := json.Marshal(viewOfListed(row))
		if err != nil {
			return fmt.Errorf("print json: %w", err)
		}
		_, _ = fmt.Fprintf(out, "%s\n%s", before, line) // Flush reports what went wrong
		before = ","
	}
	if before == "[" {
		_, _ = out.WriteString("[")
	}
	_, _ = out.WriteString("\n]\n")
	if err := out.Flush(); err != nil {
		return fmt.Errorf("print json: %w", err)
	}
	return nil
}

// shownRows is how many people are shown; files get all.
const shownRows = 1000

func listTable(s *session, rows iter.Seq2[store.ListedSuppression, error]) error {
	t := newTable(s.std.out, "PHONE", "SCOPE", "KIND", "REASON", "SINCE", "UNTIL")
	n := 0
	for row, err := range rows {
		if err != nil {
			return err
		}
		if n++; n > shownRows {
			break
		}
		v := viewOfListed(row)
		if row.Kind == store.Absent {
			v.Until = "as each campaign's --absent-days"
		}
		t.row(v.Phone, v.Scope, v.Kind, v.Reason, v.At, v.Until)
	}
	if err := t.flush(); err != nil {
		return err
	}
	if n > shownRows {
		_, _ = fmt.Fprintf(s.std.err, "these are the first %s: --csv or --json gives all\n", group(shownRows))
	}
	return nil
}

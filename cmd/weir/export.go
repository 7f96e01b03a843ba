package main

import (
	"bufio"
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"iter"
	"strconv"
	"strings"

	"github.com/weirhq/weir/engine"
	"github.com/weirhq/weir/internal/audience"
	"github.com/weirhq/weir/internal/store"
)

type campaignExportCmd struct {
	Name   string   `arg:"" help:"Name or id of the campaign."`
	Status []string `placeholder:"STATUS,…" help:"Only those who have come so far and no further, as canceled or failed,dead. Default: everybody."`
	Format string   `enum:"csv" default:"csv" help:"csv."`
	Params bool     `xor:"cells" help:"Write an audience for weir campaign create: the phone and the values of the template's parameters."`
	Raw    bool     `xor:"cells" help:"For machines: cells are not made safe for spreadsheets."`
}

// Help shows an example.
func (campaignExportCmd) Help() string {
	return `  weir campaign export spring > who-got-what.csv
  weir campaign export spring --status canceled --params > unsent.csv

Phone numbers and message ids are people's data: mind where the file goes.
Cells that a spreadsheet would take for a formula or round off begin with an
apostrophe, unless --raw. A file of --params has your columns under their names, then
line, reason (the status) and hint: weir campaign create --csv knows it by those, takes
the apostrophes back and sends to whom it names.`
}

func (c campaignExportCmd) Run(ctx context.Context, s *session) error {
	only, err := c.statuses()
	if err != nil {
		return err
	}
	return s.with(ctx, func(db *database) error {
		campaign, err := db.FindCampaign(ctx, c.Name)
		if err != nil {
			return err
		}
		header, cells := c.form(campaign.Columns)
		return writeExport(s.std.out, header, cells, db.Export(ctx, campaign.ID, only...))
	})
}

var exportColumns = []string{
	"line", "phone", "status", "attempts", "message_id", "error_code", "error_title",
	"accepted_at", "sent_at", "delivered_at", "read_at", "failed_at", "number", "duplicates",
}

func (c campaignExportCmd) statuses() ([]engine.Status, error) {
	var only []engine.Status
	for _, name := range c.Status {
		status, err := engine.ParseStatus(name)
		if err != nil {
			return nil, usagef("--status %s: the statuses are %v", name, engine.Statuses())
		}
		only = append(only, status)
	}
	return only, nil
}

// form is the file's header, and the cells of a row.
func (c campaignExportCmd) form(columns []string) (header []string, cells func(store.ExportRow) []string) {
	switch {
	case c.Params:
		return audienceForm(columns)
	case c.Raw:
		return exportColumns, func(r store.ExportRow) []string { return exportCells(r, func(s string) string { return s }) }
	default:
		return exportColumns, func(r store.ExportRow) []string { return exportCells(r, audience.SafeCell) }
	}
}

// audienceForm is what campaign create reads as it reads a file of rejects. Where
// a parameter is the phone, the phone column serves both.
func audienceForm(columns []string) (header []string, cells func(store.ExportRow) []string) {
	header = []string{"phone"}
	var kept []int
	for i, name := range columns {
		if !strings.EqualFold(strings.TrimSpace(name), "phone") {
			header, kept = append(header, audience.SafeCell(name)), append(kept, i)
		}
	}
	return append(header, audience.Trailer(columns)...), func(r store.ExportRow) []string {
		row := []string{audience.SafeCell(r.Phone)}
		for _, i := range kept {
			row = append(row, audience.SafeCell(r.Values[i]))
		}
		return append(row, strconv.FormatInt(r.Line, 10), r.Status.String(), audience.SafeCell(r.ErrorTitle))
	}
}

func writeExport(w io.Writer, header []string, cells func(store.ExportRow) []string, rows iter.Seq2[store.ExportRow, error]) error {
	buffered := bufio.NewWriterSize(w, 64<<10)
	out := csv.NewWriter(buffered)
	if err := out.Write(header); err != nil {
		return fmt.Errorf("write export: %w", err)
	}
	for row, err := range rows {
		if err != nil {
			return err
		}
		if err := out.Write(cells(row)); err != nil {
			return fmt.Errorf("write export: %w", err)
		}
	}
	out.Flush()
	if err := out.Error(); err != nil {
		return fmt.Errorf("write export: %w", err)
	}
	if err := buffered.Flush(); err != nil {
		return fmt.Errorf("write export: %w", err)
	}
	return nil
}

func exportCells(r store.ExportRow, cell func(string) string) []string {
	code := ""
	if r.ErrorCode != 0 {
		code = strconv.Itoa(r.ErrorCode)
	}
	return []string{
		strconv.FormatInt(r.Line, 10), cell(r.Phone), r.Status.String(), strconv.Itoa(r.Attempts), cell(r.MessageID), code, cell(r.ErrorTitle),
		stamp(r.AcceptedAt), stamp(r.SentAt), stamp(r.DeliveredAt), stamp(r.ReadAt), stamp(r.FailedAt), cell(r.Number),
		strconv.Itoa(r.Duplicates),
	}
}

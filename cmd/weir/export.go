package main

import (
	"bufio"
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"iter"
	"strconv"

	"github.com/weirhq/weir/engine"
	"github.com/weirhq/weir/internal/audience"
	"github.com/weirhq/weir/internal/store"
)

type campaignExportCmd struct {
	Name   string   `arg:"" help:"Name or id of the campaign."`
	Status []string `placeholder:"STATUS,…" help:"Only those who have come so far and no further, as canceled or failed,dead. Default: everybody."`
	Format string   `enum:"csv" default:"csv" help:"csv."`
	Raw    bool     `help:"For machines: cells are not made safe for spreadsheets."`
}

// Help shows an example.
func (campaignExportCmd) Help() string {
	return `  weir campaign export spring > who-got-what.csv
  weir campaign export spring --status canceled > unsent.csv

Phone numbers and message ids are people's data: mind where the file goes.
Cells that a spreadsheet would take for a formula or round off begin with an
apostrophe, unless --raw.`
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
		return c.write(s.std.out, db.Export(ctx, campaign.ID, only...))
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

func (c campaignExportCmd) write(w io.Writer, rows iter.Seq2[store.ExportRow, error]) error {
	cell := audience.SafeCell
	if c.Raw {
		cell = func(s string) string { return s }
	}
	buffered := bufio.NewWriterSize(w, 64<<10)
	out := csv.NewWriter(buffered)
	if err := out.Write(exportColumns); err != nil {
		return fmt.Errorf("write export: %w", err)
	}
	for row, err := range rows {
		if err != nil {
			return err
		}
		if err := out.Write(exportCells(row, cell)); err != nil {
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

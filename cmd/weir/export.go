package main

import (
	"bufio"
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"strconv"

	"github.com/weirhq/weir/internal/audience"
	"github.com/weirhq/weir/internal/store"
)

type campaignExportCmd struct {
	Name   string `arg:"" help:"Name or id of the campaign."`
	Format string `enum:"csv" default:"csv" help:"csv."`
	Raw    bool   `help:"For machines: cells are not made safe for spreadsheets."`
}

// Help shows an example.
func (campaignExportCmd) Help() string {
	return `  weir campaign export spring > who-got-what.csv

Phone numbers and message ids are people's data: mind where the file goes.
Cells that a spreadsheet would take for a formula or round off begin with an
apostrophe, unless --raw.`
}

func (c campaignExportCmd) Run(ctx context.Context, s *session) error {
	return s.with(ctx, func(db *database) error {
		campaign, err := db.FindCampaign(ctx, c.Name)
		if err != nil {
			return err
		}
		return c.write(ctx, db.Store, campaign.ID, s.std.out)
	})
}

var exportColumns = []string{
	"line", "phone", "status", "attempts", "message_id", "error_code", "error_title",
	"accepted_at", "sent_at", "delivered_at", "read_at", "failed_at", "number",
}

func (c campaignExportCmd) write(ctx context.Context, s *store.Store, campaign int64, w io.Writer) error {
	cell := audience.SafeCell
	if c.Raw {
		cell = func(s string) string { return s }
	}
	buffered := bufio.NewWriterSize(w, 64<<10)
	out := csv.NewWriter(buffered)
	if err := out.Write(exportColumns); err != nil {
		return fmt.Errorf("write export: %w", err)
	}
	for row, err := range s.Export(ctx, campaign) {
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
	}
}

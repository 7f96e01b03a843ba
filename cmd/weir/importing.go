package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"github.com/weirhq/weir/internal/audience"
	"github.com/weirhq/weir/internal/cloudapi"
	"github.com/weirhq/weir/internal/store"
)

// importFile brings the file into the campaign and says what became of its
// rows. Rejected rows go to a file beside it.
func (c campaignCreateCmd) importFile(ctx context.Context, s *session, db *database, campaign store.Campaign) (store.Campaign, error) {
	file, err := os.Open(c.CSV)
	if err != nil {
		return campaign, fmt.Errorf("open audience: %w", err)
	}
	defer file.Close()
	whole := sha256.New()
	own, err := ownPhones(ctx, db.Store, campaign)
	if err != nil {
		return campaign, err
	}
	contacts, err := audience.Open(io.TeeReader(file, whole), audience.Options{
		PhoneColumn: c.PhoneColumn, DefaultCountry: c.DefaultCountry, Params: campaign.Columns, Encoding: c.Encoding,
		Unserved: cloudapi.Undelivered(campaign.Template.Category), Own: own, Zones: zoneSource(campaign),
	})
	if err != nil {
		return campaign, fmt.Errorf("read %s: %w", c.CSV, err)
	}
	rejects := audience.NewRejects(rejectsPath(c.CSV), contacts)
	defer rejects.Close()
	src, err := c.source(file)
	if err != nil {
		return campaign, err
	}
	src.Rows, src.Sum = importRows(ctx, contacts, rejects), func() []byte { return whole.Sum(nil) }
	bar := newImportBar(s.std.err, src.Size, contacts)
	got, err := db.Import(ctx, campaign.ID, src, store.ImportOptions{Committed: bar.committed})
	bar.done()
	if err != nil {
		return campaign, importFailed(err, campaign.Name)
	}
	printImported(s.std.err, got, rejects, c.DefaultCountry)
	return db.FindCampaign(ctx, strconv.FormatInt(campaign.ID, 10))
}

// importFailed adds the next step, which is not the same for every failure.
func importFailed(err error, name string) error {
	name = shellWord(name)
	switch {
	case errors.Is(err, context.Canceled):
		return fmt.Errorf("the import was stopped; what was read so far is kept: give the same command again to go on, or weir campaign drop %s", name)
	case errors.Is(err, store.ErrRefused):
		return fmt.Errorf("%w (another --phone-column, --default-country or --encoding reads a file as another one)", err)
	case errors.Is(err, audience.ErrOpenQuote):
		return fmt.Errorf("%w: mend the file, weir campaign drop %s, and create it anew", err, name)
	default:
		return fmt.Errorf("%w (nothing is lost: give the same command again to go on, or weir campaign drop %s)", err, name)
	}
}

// importRows turns contacts into rows of an import; refused ones are written
// to rejects and only counted. The file of rejects is whole before the import
// can end: a campaign that is ready never lacks it.
func importRows(ctx context.Context, f *audience.File, rejects *audience.Rejects) iter.Seq2[store.ImportRow, error] {
	return func(yield func(store.ImportRow, error) bool) {
		for c, err := range f.Contacts(ctx) {
			row := store.ImportRow{Line: int64(c.Line), Phone: c.Phone, Values: c.Values, Zones: c.Zones, Defaulted: c.Defaulted}
			if refused, ok := errors.AsType[*audience.RowError](err); ok {
				row, err = store.ImportRow{Line: int64(refused.Line), Rejected: true}, rejects.Add(refused)
			}
			if !yield(row, err) || err != nil {
				return
			}
		}
		if err := rejects.Commit(); err != nil {
			yield(store.ImportRow{}, err)
		}
	}
}

// source tells this file, read in this way, from another: by its size, its
// first MiB, and what decides how a phone number is read.
func (c campaignCreateCmd) source(f *os.File) (store.ImportSource, error) {
	info, err := f.Stat()
	if err != nil {
		return store.ImportSource{}, fmt.Errorf("look at audience: %w", err)
	}
	head := sha256.New()
	_, _ = fmt.Fprintf(head, "%q %q\n", strings.ToLower(c.PhoneColumn), strings.ToUpper(c.DefaultCountry)+" "+strings.ToLower(c.Encoding))
	if _, err := io.Copy(head, io.NewSectionReader(f, 0, 1<<20)); err != nil {
		return store.ImportSource{}, fmt.Errorf("read audience: %w", err)
	}
	return store.ImportSource{File: filepath.Base(f.Name()), Size: info.Size(), Head: head.Sum(nil)}, nil
}

func rejectsPath(csv string) string { return csv + ".rejected.csv" }

func printImported(w io.Writer, got store.Imported, rejects *audience.Rejects, country string) {
	_, _ = fmt.Fprintf(w, "%s rows read = %s accepted + %s rejected + %s duplicate\n",
		group(got.Read), group(got.Accepted), group(got.Rejected), group(got.Duplicate))
	if got.Defaulted > 0 {
		_, _ = fmt.Fprintf(w, "%s numbers had no country code and were read as %s\n", group(got.Defaulted), country)
	}
	if n := rejects.Of(audience.ReasonUnserved); n > 0 {
		_, _ = fmt.Fprintf(w, "%s of the rejected are US numbers: Meta delivers no marketing to them, and fails what is sent with 131049\n", group(int64(n)))
	}
	if n := rejects.Of(audience.ReasonOwnNumber); n > 0 {
		_, _ = fmt.Fprintf(w, "%s of the rejected are the campaign's own numbers\n", group(int64(n)))
	}
	if n := rejects.Of(audience.ReasonNoZone) + rejects.Of(audience.ReasonZone); n > 0 {
		_, _ = fmt.Fprintf(w, "%s of the rejected have no time zone that is known, so nobody could say when the window is open for them\n", group(int64(n)))
	}
	if n := rejects.Of(audience.ReasonNeverOpen); n > 0 {
		_, _ = fmt.Fprintf(w, "%s of the rejected may be in several time zones that have no hour of the window in common\n", group(int64(n)))
	}
	if got.Rejected > 0 {
		_, _ = fmt.Fprintf(w, "the rejected rows are in %s, each with a reason and a hint: mend it and import it as a campaign of its own\n", rejects.Path())
	}
}

// importBar shows how far an import is, on a terminal only.
type importBar struct {
	progress *mpb.Progress
	bar      *mpb.Bar
	file     *audience.File
}

func newImportBar(w io.Writer, size int64, file *audience.File) *importBar {
	if !isTerminal(w) {
		return &importBar{}
	}
	p := mpb.New(mpb.WithOutput(w))
	return &importBar{progress: p, file: file, bar: p.AddBar(size,
		mpb.PrependDecorators(decor.Name("import "), decor.Percentage()),
		mpb.AppendDecorators(decor.Counters(decor.SizeB1024(0), "% .1f / % .1f"), decor.Name(" "), decor.AverageETA(decor.ET_STYLE_GO)),
	)}
}

func (b *importBar) committed(store.Imported) {
	if b.bar != nil {
		b.bar.SetCurrent(b.file.BytesRead())
	}
}

func (b *importBar) done() {
	if b.bar != nil {
		b.bar.EnableTriggerComplete()
		b.bar.Abort(false)
		b.progress.Wait()
	}
}

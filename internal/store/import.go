package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/weirhq/weir/internal/store/db"
)

// ImportRow is one row of an audience as its reader judged it.
type ImportRow struct {
	Line      int64    // of the file, from 1; each row's is greater than the last one's
	Phone     string   // E.164 with +
	Values    []string // in the order of the campaign's columns; not kept after the next row is asked for
	Zones     string   // the time zones that the person may be in, IANA names with commas in between; "": nobody asks
	Defaulted bool     // read with the default country
	Rejected  bool     // only counted: there is no phone or no message for it
}

// ImportSource is an audience and what tells it from another one.
type ImportSource struct {
	File string // its base name, for people
	Size int64  // bytes
	Head []byte // SHA-256 of its first MiB: a resume must bring the same Size and Head
	// Rows yields every row of the file, from the first, also on a resume. An
	// error ends the import, which can then be resumed. It is read in another
	// goroutine than Import's caller.
	Rows iter.Seq2[ImportRow, error]
	// Sum is asked after the last row, for the SHA-256 of the whole file.
	Sum func() []byte
}

// ImportOptions are for a caller who wants to follow; the zero value works.
type ImportOptions struct {
	// Committed is called after each batch with the counts so far.
	Committed func(Imported)
	BatchRows int // rows read a transaction, or fewer when they are wide; default 20 000
	phones    *seen
}

// Imported is how far an import came. Read = Accepted + Rejected + Duplicate
// at every moment.
type Imported struct {
	File      string
	Line      int64 // the last one committed
	Read      int64
	Accepted  int64
	Rejected  int64
	Duplicate int64
	Defaulted int64 // of Read, read with the default country
	Resumed   int64 // of Read, what earlier imports had committed
	Done      bool  // the campaign is a draft and can be started
}

// Import makes the campaign's recipients from src, in file order; of two rows
// with one phone the first stands. Memory is bounded whatever the audience's
// size. A batch and its counts are one transaction, so an import that is cut
// short anywhere can be called again with the same file and ends as if nothing
// had happened; until then the campaign cannot start. It answers ErrNotFound,
// ErrRefused (not importing, or not the same file), or ErrBusy.
func (s *Store) Import(ctx context.Context, campaign int64, src ImportSource, opts ImportOptions) (Imported, error) {
	conn, err := s.importConn(ctx, campaign)
	if err != nil {
		return Imported{}, err
	}
	defer closeConn(conn)
	im := &importer{
		store: s, conn: conn, campaign: campaign, src: src, opts: opts, phones: opts.phones,
		full: make(chan *batch), free: make(chan *batch, 2),
	}
	if im.phones == nil {
		im.phones = newSeen()
	}
	if err := im.open(ctx); err != nil {
		return Imported{}, err
	}
	if err := im.run(ctx); err != nil {
		return im.total, fmt.Errorf("import %s: %w", im.total.File, err)
	}
	if err := im.finish(ctx); err != nil {
		return im.total, fmt.Errorf("finish import of %s: %w", im.total.File, err)
	}
	return im.total, nil
}

// importConn is a connection of an import's own, on which it holds the
// campaign's import lock: one cannot outlive the other.
func (s *Store) importConn(ctx context.Context, campaign int64) (*pgx.Conn, error) {
	conn, err := s.longConn(ctx)
	if err != nil {
		return nil, err
	}
	if err = s.q.LockImport(ctx, conn, campaign); err == nil {
		_, err = conn.Exec(ctx, "SET lock_timeout = 0")
	}
	if err == nil {
		return conn, nil
	}
	closeConn(conn)
	if sqlState(err) == "55P03" {
		return nil, refuse(ErrBusy, "another import or drop of campaign %d is running: let it end, or end it, and try again", campaign)
	}
	return nil, fmt.Errorf("lock import: %w", err)
}

// longConn is a connection whose statements may take long; a vanished machine is
// noticed within half a minute.
func (s *Store) longConn(ctx context.Context) (*pgx.Conn, error) {
	cfg := s.leases.Config().ConnConfig.Copy()
	for name, value := range map[string]string{
		"statement_timeout": "0", "lock_timeout": "3000", // the last importer's connection may still be closing
		"tcp_keepalives_idle": "10", "tcp_keepalives_interval": "5", "tcp_keepalives_count": "3",
	} {
		cfg.RuntimeParams[name] = value
	}
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("connect for import: %w", err)
	}
	return conn, nil
}

func closeConn(conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_ = conn.Close(ctx) // the server ends the session either way
}

// importer is one import at work: a goroutine reads and encodes a batch while
// another copies the one before.
type importer struct {
	store    *Store
	conn     *pgx.Conn
	campaign int64
	src      ImportSource
	opts     ImportOptions
	from     Imported // what earlier imports had committed
	total    Imported // the writer's
	replayed Imported // the reader's: what it has read again of from
	due      int64    // microseconds since 2000: the campaign's creation, so that due order is file order
	digest   uint64   // the reader's: of all rows it has read
	again    uint64   // … of those that it has read again
	known    uint64   // … as an earlier import had it
	phones   *seen
	ids      idBlock
	zones    zoneIDs
	full     chan *batch
	free     chan *batch
}

// open begins or resumes.
func (im *importer) open(ctx context.Context) error {
	rows, err := im.store.q.OpenImport(ctx, im.conn, &db.OpenImportParams{
		Campaign: im.campaign, File: im.src.File, Head: im.src.Head, Size: im.src.Size,
	})
	if err != nil {
		return fmt.Errorf("open import: %w", err)
	}
	if len(rows) == 0 {
		return im.store.whyNotImported(ctx, im.campaign)
	}
	r := rows[0]
	if r.Size != im.src.Size || !bytes.Equal(r.HeadSha256, im.src.Head) {
		return refuse(ErrRefused, "this import began with another file (%s, %d bytes, %d rows read so far): "+
			"go on with that one, or drop the campaign and create it anew with this one", r.File, r.Size, r.RowsRead)
	}
	im.due = microseconds(r.CreatedAt.Time)
	im.from = Imported{
		File: r.File, Line: r.Line, Read: r.RowsRead, Accepted: r.Accepted, Rejected: r.Rejected,
		Duplicate: r.Duplicate, Defaulted: r.Defaulted, Resumed: r.RowsRead,
	}
	im.known = uint64(r.RowsDigest)
	im.total = im.from
	return im.openZones(ctx, r.Zoned)
}

// run ends with the writer's error, which ends the reading too, or else with
// the reader's: what was read before that is committed first.
func (im *importer) run(ctx context.Context) error {
	for range cap(im.free) {
		im.free <- &batch{}
	}
	var readErr error
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		defer close(im.full)
		readErr = im.read(ctx)
		return nil
	})
	g.Go(func() error {
		for b := range im.full {
			if err := im.write(ctx, b); err != nil {
				return err
			}
			im.free <- b
		}
		return nil
	})
	if err := g.Wait(); err != nil {
		return err
	}
	return readErr
}

// finish gives the planner its statistics (without them a claim of a fresh
// campaign takes a thousand times as long) and opens the campaign.
func (im *importer) finish(ctx context.Context) error {
	if _, err := im.conn.Exec(ctx, "ANALYZE recipients, recipient_params"); err != nil {
		return fmt.Errorf("analyze recipients: %w", err)
	}
	n, err := im.store.q.FinishImport(ctx, im.conn, &db.FinishImportParams{Campaign: im.campaign, Line: im.total.Line, Sum: im.src.Sum()})
	if err != nil {
		return err
	}
	if n == 0 {
		return errOvertaken(im.campaign)
	}
	im.total.Done = true
	return nil
}

func (s *Store) whyNotImported(ctx context.Context, id int64) error {
	c, err := s.FindCampaign(ctx, fmt.Sprint(id))
	switch {
	case err != nil:
		return err
	case c.State != Importing:
		return refuse(ErrRefused, "campaign %q has its recipients already (%d from %s) and is %s: create another campaign for this file",
			c.Name, c.Import.Accepted, c.Import.File, c.State)
	case c.Reason != "":
		return refuse(ErrRefused, "campaign %q is %s: drop it again, and create it anew", c.Name, c.Reason)
	}
	return errors.New("the campaign changed meanwhile: try again")
}

func errOvertaken(campaign int64) error {
	return refuse(ErrBusy, "another import or drop of campaign %d has overtaken this one: look at its state before you go on", campaign)
}

package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/weirhq/weir/engine"
	"github.com/weirhq/weir/internal/store/db"
)

// SendWindow is a campaign's window, and by whose clock.
type SendWindow struct {
	engine.Window
	// TZ is an IANA name for everybody, or says that each row of the import
	// brings its own: TZRecipient, or TZColumn and the column's name.
	TZ string `json:"tz"`
}

// Whose clock, if not one zone's.
const (
	TZRecipient = "recipient"
	TZColumn    = "column:"
)

// PerRecipient reports whether every recipient has zones of their own.
func (w SendWindow) PerRecipient() bool {
	return w.TZ == TZRecipient || strings.HasPrefix(w.TZ, TZColumn)
}

func (c CampaignSpec) checkWindow() error {
	w := c.Window
	if w == nil {
		return nil
	}
	if err := w.Check(); err != nil {
		return refuse(ErrRefused, "%v", err)
	}
	if w.PerRecipient() {
		return nil
	}
	if _, err := engine.Zones(w.TZ); err != nil {
		return refuse(ErrRefused, "%v", err)
	}
	return nil
}

// windowed adds a campaign's window to its creation.
func windowed(p *db.CreateCampaignParams, w *SendWindow) error {
	if w == nil {
		return nil
	}
	var err error
	if p.SendWindow, err = json.Marshal(w); err != nil {
		return fmt.Errorf("encode window: %w", err)
	}
	p.Zoned = w.PerRecipient()
	p.Tz = pgtype.Text{String: w.TZ, Valid: !p.Zoned}
	return nil
}

// sendWindow is null for no window.
func sendWindow(stored []byte) (*SendWindow, error) {
	if stored == nil {
		return nil, nil
	}
	var w SendWindow
	if err := json.Unmarshal(stored, &w); err != nil {
		return nil, fmt.Errorf("decode window: %w", err)
	}
	return &w, nil
}

// RefreshWindows computes the intervals of all campaigns' zones that run out
// within a day, and of those that were never computed. Any node may do it, at any
// time and twice: all compute the same. A zone that cannot be computed stays as it
// is, and so closes; the others do not wait for it.
func (s *Store) RefreshWindows(ctx context.Context) error {
	rows, err := s.q.WindowZones(ctx, s.pool)
	if err != nil {
		return fmt.Errorf("read zones of windows: %w", err)
	}
	p := &db.SetWindowsParams{}
	var errs []error
	for _, r := range rows {
		opens, closes, err := interval(r)
		if err != nil {
			errs = append(errs, fmt.Errorf("compute window of campaign %d in zone %d: %w", r.CampaignID, r.Zone, err))
			continue
		}
		if same(opens, r.OpensAt) && same(closes, r.ClosesAt) {
			continue
		}
		p.Campaigns, p.Zones = append(p.Campaigns, r.CampaignID), append(p.Zones, r.Zone)
		p.Opens, p.Closes = append(p.Opens, opens), append(p.Closes, closes)
	}
	if len(p.Zones) > 0 {
		errs = append(errs, wrap("set windows", again(func() error { return s.q.SetWindows(ctx, s.pool, p) })))
	}
	return errors.Join(errs...)
}

// interval is a zone's open interval, on the database's clock; one long past when
// none comes within sight.
func interval(r db.WindowZonesRow) (opens, closes pgtype.Timestamptz, err error) {
	w, err := sendWindow(r.SendWindow)
	if err != nil {
		return opens, closes, err
	}
	zones, err := engine.Zones(r.Tz)
	if err != nil {
		return opens, closes, err
	}
	from, to, ok := w.Open(zones, r.Now.Time)
	if !ok {
		never := pgtype.Timestamptz{InfinityModifier: pgtype.NegativeInfinity, Valid: true}
		return never, never, nil
	}
	return instant(from), instant(to), nil
}

func same(a, b pgtype.Timestamptz) bool {
	return a.InfinityModifier == b.InfinityModifier && a.Time.Equal(b.Time)
}

// ZoneGroup is the people of a campaign who wait in the same time zones.
type ZoneGroup struct {
	TZ      string // IANA names with commas in between
	Waiting int64
	Open    bool
	Opens   time.Time // Open: since when, else when; zero: nobody has looked it up, or not within a month
	Closes  time.Time
}

// ZoneGroups says who waits in each zone of a campaign with a window; none for
// one without.
func (s *Store) ZoneGroups(ctx context.Context, campaign int64) ([]ZoneGroup, error) {
	rows, err := s.q.ZonesWaiting(ctx, s.pool, campaign)
	if err != nil {
		return nil, fmt.Errorf("read waiting zones: %w", err)
	}
	groups := make([]ZoneGroup, len(rows))
	for i, r := range rows {
		groups[i] = ZoneGroup{TZ: r.Tz, Waiting: r.Waiting, Open: r.Open}
		if r.Fresh {
			groups[i].Opens, groups[i].Closes = r.OpensAt.Time, r.ClosesAt.Time
		}
	}
	return groups, nil
}

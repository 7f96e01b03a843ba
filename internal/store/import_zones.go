package store

import (
	"context"
	"fmt"
	"math"

	"github.com/weirhq/weir/internal/store/db"
)

// zoneIDs gives an import's time zones their small numbers, in the order in which
// they come. It is the reader's; what it hands out is written with the batch that
// it was handed out for.
type zoneIDs struct {
	wanted bool // the campaign's people have zones of their own
	known  map[string]int16
}

func (im *importer) openZones(ctx context.Context, wanted bool) error {
	im.zones = zoneIDs{wanted: wanted, known: map[string]int16{}}
	rows, err := im.store.q.ImportZones(ctx, im.conn, im.campaign)
	if err != nil {
		return fmt.Errorf("read zones of the import: %w", err)
	}
	for _, r := range rows {
		im.zones.known[r.Tz] = r.Zone
	}
	return nil
}

// of is a row's zone; one that is met for the first time goes into the batch. A
// row without one would never be sent, and nobody would know why.
func (z *zoneIDs) of(row ImportRow, b *batch) (int16, error) {
	if !z.wanted {
		return 0, nil
	}
	if row.Zones == "" {
		return 0, refuse(ErrRefused, "line %d has no time zone, and the campaign's window goes by the recipient's", row.Line)
	}
	if id, ok := z.known[row.Zones]; ok {
		return id, nil
	}
	if len(z.known) == math.MaxInt16 {
		return 0, refuse(ErrRefused, "line %d has time zone number %d of the file: more than there are on earth", row.Line, len(z.known)+1)
	}
	id := int16(len(z.known) + 1)
	z.known[row.Zones] = id
	b.newZones.Zones, b.newZones.Tzs = append(b.newZones.Zones, id), append(b.newZones.Tzs, row.Zones)
	return id, nil
}

func (im *importer) addZones(ctx context.Context, tx db.DBTX, b *batch) error {
	if len(b.newZones.Zones) == 0 {
		return nil
	}
	b.newZones.Campaign = im.campaign
	if err := im.store.q.AddZones(ctx, tx, &b.newZones); err != nil {
		return fmt.Errorf("add zones up to line %d: %w", b.line, err)
	}
	return nil
}

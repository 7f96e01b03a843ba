package store

import (
	"encoding/binary"
	"strings"

	"github.com/weirhq/weir/internal/store/db"
)

// batchBytes ends a batch early when its rows are wide.
const batchBytes = 4 << 20

// batch is the rows of one transaction, encoded as COPY wants them. Batches
// are used again, so an import allocates next to nothing a row.
type batch struct {
	state  copyRows // for recipients
	params copyRows // for recipient_params
	maybe  db.AddMaybeSeenParams

	newZones db.AddZonesParams
	los      []int64 // the ids handed out, as runs
	his      []int64

	line                                int64  // of the last row
	digest                              uint64 // of all rows up to it
	read, accepted, rejected, defaulted int64  // accepted: in state and params
	maybeBytes                          int
}

func (b *batch) reset() {
	b.state.begin()
	b.params.begin()
	m := &b.maybe
	m.Ids, m.Lines, m.Phones, m.Params = m.Ids[:0], m.Lines[:0], m.Phones[:0], m.Params[:0]
	m.Zones, b.newZones.Zones, b.newZones.Tzs = m.Zones[:0], b.newZones.Zones[:0], b.newZones.Tzs[:0]
	b.los, b.his = b.los[:0], b.his[:0]
	b.line, b.read, b.accepted, b.rejected, b.defaulted, b.maybeBytes = 0, 0, 0, 0, 0, 0
}

func (b *batch) end() {
	b.state.end()
	b.params.end()
}

func (b *batch) size() int { return len(b.state.buf) + len(b.params.buf) + b.maybeBytes }

// use books an id into the runs.
func (b *batch) use(id int64) {
	if n := len(b.his); n > 0 && b.his[n-1]+1 == id {
		b.his[n-1] = id
		return
	}
	b.los, b.his = append(b.los, id), append(b.his, id)
}

func (b *batch) maybeSeen(id int64, row ImportRow, zone int16) {
	m := &b.maybe
	m.Zones = append(m.Zones, zone)
	m.Ids, m.Lines = append(m.Ids, id), append(m.Lines, row.Line)
	m.Phones = append(m.Phones, strings.Clone(row.Phone))
	literal := arrayLiteral(row.Values)
	m.Params = append(m.Params, literal)
	b.maybeBytes += len(literal) + 64
}

var escaper = strings.NewReplacer(`\`, `\\`, `"`, `\"`)

// arrayLiteral is values as Postgres reads a text[] from text.
func arrayLiteral(values []string) string {
	var s strings.Builder
	s.WriteByte('{')
	for i, v := range values {
		if i > 0 {
			s.WriteByte(',')
		}
		s.WriteByte('"')
		s.WriteString(escaper.Replace(v))
		s.WriteByte('"')
	}
	s.WriteByte('}')
	return s.String()
}

// copyRows builds COPY's binary format
// (https://www.postgresql.org/docs/current/sql-copy.html#id-1.9.55.9.4.6),
// a row takes 0.2 µs and no allocation so, and
// 1.9 µs and 12 allocations through pgx's type maps.
type copyRows struct{ buf []byte }

// oidText is the element type of a text[].
const oidText = 25

func (c *copyRows) begin() {
	c.buf = append(c.buf[:0], "PGCOPY\n\xff\r\n\x00\x00\x00\x00\x00\x00\x00\x00\x00"...)
}

func (c *copyRows) end() { c.buf = append(c.buf, 0xff, 0xff) }

func (c *copyRows) row(fields int16) { c.buf = binary.BigEndian.AppendUint16(c.buf, uint16(fields)) }

func (c *copyRows) int32(v int32) { c.buf = binary.BigEndian.AppendUint32(c.buf, uint32(v)) }

func (c *copyRows) int16(v int16) {
	c.int32(2)
	c.buf = binary.BigEndian.AppendUint16(c.buf, uint16(v))
}

func (c *copyRows) int64(v int64) {
	c.int32(8)
	c.buf = binary.BigEndian.AppendUint64(c.buf, uint64(v))
}

func (c *copyRows) text(s string) {
	c.int32(int32(len(s)))
	c.buf = append(c.buf, s...)
}

func (c *copyRows) bool(v bool) {
	c.int32(1)
	if v {
		c.buf = append(c.buf, 1)
	} else {
		c.buf = append(c.buf, 0)
	}
}

// texts is a text[] of one dimension: its length comes first, so it is filled in last.
func (c *copyRows) texts(values []string) {
	at := len(c.buf)
	c.int32(0)
	c.int32(min(int32(len(values)), 1)) // dimensions
	c.int32(0)                          // no nulls
	c.int32(oidText)
	if len(values) > 0 {
		c.int32(int32(len(values)))
		c.int32(1) // lower bound
	}
	for _, v := range values {
		c.text(v)
	}
	binary.BigEndian.PutUint32(c.buf[at:], uint32(len(c.buf)-at-4))
}

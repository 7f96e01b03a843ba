package store

import (
	"context"
	"errors"
	"fmt"

	"pgregory.net/rapid"
)

// file is an ImportSource of the rows, which fails after the first cut of them.
func file(rows []ImportRow, cut int) ImportSource {
	return ImportSource{
		File: "people.csv", Size: int64(len(rows)), Head: []byte(fmt.Sprint("head of ", len(rows))), Sum: func() []byte { return []byte("sum") },
		Rows: func(yield func(ImportRow, error) bool) {
			for i, row := range rows {
				if i == cut {
					yield(ImportRow{}, errCut)
					return
				}
				if !yield(row, nil) {
					return
				}
			}
		},
	}
}

var errCut = errors.New("cut short")

const whole = -1

// imported is what a campaign holds, without ids.
type imported struct {
	Line   int64
	Phone  string
	Params []string
}

func readImported(t require, s *Store, campaign int64) []imported {
	t.Helper()
	rows, err := s.pool.Query(context.Background(), `SELECT p.line, p.phone, p.params FROM recipient_params p
		JOIN recipients r ON r.id = p.id AND r.campaign_id = p.campaign_id AND r.status = 'pending' AND r.zone = 0
		JOIN campaigns c ON c.id = r.campaign_id AND r.due_at = c.created_at
		JOIN campaign_ranges g ON g.campaign_id = r.campaign_id AND r.id BETWEEN g.lo AND g.hi
		WHERE p.campaign_id = $1 ORDER BY r.id`, campaign)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var all []imported
	for rows.Next() {
		var r imported
		if err := rows.Scan(&r.Line, &r.Phone, &r.Params); err != nil {
			t.Fatal(err)
		}
		all = append(all, r)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

// require is what testing.T and rapid.T share.
type require interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// wanted is the same by the rules: the first line of a phone stands.
func wanted(rows []ImportRow) ([]imported, Imported) {
	var all []imported
	total := Imported{File: "people.csv", Done: true}
	known := map[string]bool{}
	for _, r := range rows {
		total.Read++
		total.Line = r.Line
		if r.Defaulted {
			total.Defaulted++
		}
		switch {
		case r.Rejected:
			total.Rejected++
		case known[r.Phone]:
			total.Duplicate++
		default:
			total.Accepted++
			all = append(all, imported{Line: r.Line, Phone: r.Phone, Params: r.Values})
		}
		known[r.Phone] = known[r.Phone] || !r.Rejected
	}
	return all, total
}

func drawRows(t *rapid.T) []ImportRow {
	rows := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) ImportRow {
		return ImportRow{
			Line:      rapid.Int64Range(1, 3).Draw(t, "lines"),
			Phone:     fmt.Sprintf("+551190000%04d", rapid.IntRange(0, 40).Draw(t, "phone")),
			Values:    rapid.SliceOfN(rapid.StringOf(rapid.RuneFrom([]rune("aé\"\\{},NUL\n '\u00a0😀"))), 0, 3).Draw(t, "values"),
			Defaulted: rapid.Bool().Draw(t, "defaulted"),
			Rejected:  rapid.IntRange(0, 4).Draw(t, "rejected") == 0,
		}
	}), 1, 60).Draw(t, "rows")
	line := int64(1)
	for i := range rows {
		line += rows[i].Line
		rows[i].Line = line
	}
	return rows
}

// saturated doubts every phone, so that every row takes the way of those that
// the filter is not sure of.
func saturated() *seen {
	s := newSeen()
	for i := range s.blocks {
		for j := range s.blocks[i] {
			s.blocks[i][j] = ^uint64(0)
		}
	}
	return s
}

func proveVerified(t require, s *Store, id int64) {
	t.Helper()
	v, err := s.Verify(context.Background(), id)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range v.Checks {
		if !c.OK {
			t.Fatalf("check %s: %d, want %d", c.Name, c.Found, c.Want)
		}
	}
}

func numbered(n int) []ImportRow {
	rows := make([]ImportRow, n)
	for i := range rows {
		rows[i] = ImportRow{Line: int64(i + 2), Phone: fmt.Sprintf("+55119%08d", i), Values: []string{"a", "b", "c", "d", "e"}}
	}
	return rows
}

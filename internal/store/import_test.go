package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
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
func wanted(rows []ImportRow) ([]imported, Imported, []int64) {
	var all []imported
	var duplicates []int64
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
			duplicates = append(duplicates, r.Line)
		default:
			total.Accepted++
			all = append(all, imported{Line: r.Line, Phone: r.Phone, Params: r.Values})
		}
		known[r.Phone] = known[r.Phone] || !r.Rejected
	}
	return all, total, duplicates
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

// Whatever the file, wherever it is cut short and however often: in the end
// the rows and the counts are those of one undisturbed import.
func TestImportEndsAsIfNothingHadHappened(t *testing.T) {
	t.Parallel()
	s := openOperator(t)
	all := saturated()
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		rows := drawRows(rt)
		id := newCampaign(rt, s, fmt.Sprintf("c%d-%p", n, rt))
		cuts := rapid.SliceOfN(rapid.IntRange(0, len(rows)-1), 0, 2).Draw(rt, "cuts")
		opts := ImportOptions{BatchRows: rapid.IntRange(1, 25).Draw(rt, "batch")}
		var got Imported
		var reported []int64
		opts.Duplicate = func(line int64) { reported = append(reported, line) }
		opts.Committed = func(c Imported) {
			if c.Read != c.Accepted+c.Rejected+c.Duplicate {
				rt.Fatalf("a batch's counts do not add up: %+v", c)
			}
		}
		for _, cut := range append(cuts, whole) {
			if opts.phones = nil; rapid.Bool().Draw(rt, "doubt") {
				opts.phones = all
			}
			var err error
			got, err = s.Import(context.Background(), id, file(rows, cut), opts)
			if (cut == whole) != (err == nil) || cut != whole && !errors.Is(err, errCut) {
				rt.Fatalf("import cut at %d: %v", cut, err)
			}
		}
		want, total, duplicates := wanted(rows)
		total.Resumed = got.Resumed
		if diff := cmp.Diff(total, got); diff != "" {
			rt.Fatalf("counts (-want +got):\n%s", diff)
		}
		slices.Sort(reported)
		if diff := cmp.Diff(duplicates, reported); diff != "" {
			rt.Fatalf("duplicates' lines (-want +got):\n%s", diff)
		}
		found := readImported(rt, s, id)
		for i := range found { // Postgres gives '{}' back as an empty slice
			if len(found[i].Params) == 0 && len(want[i].Params) == 0 {
				found[i].Params = want[i].Params
			}
		}
		if diff := cmp.Diff(want, found); diff != "" {
			rt.Fatalf("rows (-want +got):\n%s", diff)
		}
		proveVerified(rt, s, id)
	})
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

// A failure inside the transaction, after the rows and before the counts or
// between the two tables, takes the whole batch back.
func TestImportBatchIsOneTransaction(t *testing.T) {
	t.Parallel()
	for name, at := range map[string]string{
		"between the tables": "BEFORE INSERT ON recipient_params",
		"at the counts":      "BEFORE UPDATE ON campaign_imports",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := openOperator(t)
			id := newCampaign(t, s, "c")
			exec(t, s, `CREATE FUNCTION boom() RETURNS trigger LANGUAGE plpgsql AS
				$$ BEGIN IF NEW.line > 12 THEN RAISE 'boom'; END IF; RETURN NEW; END $$`)
			exec(t, s, "CREATE TRIGGER boom "+at+" FOR EACH ROW EXECUTE FUNCTION boom()")
			rows := numbered(25)
			got, err := s.Import(t.Context(), id, file(rows, whole), ImportOptions{BatchRows: 10})
			if err == nil || got.Read != 10 || got.Accepted != 10 || got.Done {
				t.Fatalf("broken import: %+v, %v", got, err)
			}
			if n := count(t, s, "SELECT count(*) FROM recipients") + count(t, s, "SELECT count(*) FROM recipient_params"); n != 20 {
				t.Fatalf("%d rows in two tables after one batch of 10 and a failure", n)
			}
			if _, err := s.StartCampaign(t.Context(), id, true); !errors.Is(err, ErrRefused) {
				t.Fatalf("start of a half imported campaign: %v", err)
			}
			proveVerified(t, s, id)
			exec(t, s, "DROP FUNCTION boom CASCADE")
			if got, err = s.Import(t.Context(), id, file(rows, whole), ImportOptions{}); err != nil || got.Accepted != 25 || got.Resumed != 10 {
				t.Fatalf("resumed: %+v, %v", got, err)
			}
			proveVerified(t, s, id)
		})
	}
}

// A kill between two batches is a canceled context here: the connection is
// torn down in the middle of whatever it does.
func TestImportCanceledAtEveryBatch(t *testing.T) {
	t.Parallel()
	s := openOperator(t)
	id := newCampaign(t, s, "c")
	rows := numbered(40)
	for batches := range 4 {
		ctx, cancel := context.WithCancel(t.Context())
		opts := ImportOptions{BatchRows: 10, Committed: func(Imported) { cancel() }}
		got, err := s.Import(ctx, id, file(rows, whole), opts)
		cancel()
		if batches < 3 && (!errors.Is(err, context.Canceled) || got.Read < int64(10*(batches+1))) {
			t.Fatalf("canceled after batch %d: %+v, %v", batches+1, got, err)
		}
	}
	got, err := s.Import(t.Context(), id, file(rows, whole), ImportOptions{})
	if err == nil && got.Accepted != 40 || err != nil && !errors.Is(err, ErrRefused) { // the last batch's import may have ended in time
		t.Fatalf("resumed: %+v, %v", got, err)
	}
	if len(readImported(t, s, id)) != 40 {
		t.Fatal("rows are missing or doubled")
	}
	proveVerified(t, s, id)
}

func TestImportTwoAtOnce(t *testing.T) {
	t.Parallel()
	s := openOperator(t)
	id := newCampaign(t, s, "c")
	rows, reading, goOn := numbered(30), make(chan struct{}), make(chan struct{})
	slow := file(rows, whole)
	slow.Rows = func(yield func(ImportRow, error) bool) {
		close(reading)
		<-goOn
		file(rows, whole).Rows(yield)
	}
	done := make(chan error)
	go func() {
		_, err := s.Import(t.Context(), id, slow, ImportOptions{BatchRows: 10})
		done <- err
	}()
	<-reading
	if _, err := s.Import(t.Context(), id, file(rows, whole), ImportOptions{}); !errors.Is(err, ErrBusy) {
		t.Errorf("second importer: %v, want ErrBusy", err)
	}
	if err := s.DropCampaign(t.Context(), id); !errors.Is(err, ErrBusy) {
		t.Errorf("drop during an import: %v, want ErrBusy", err)
	}
	close(goOn)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if len(readImported(t, s, id)) != 30 {
		t.Fatal("rows are missing or doubled")
	}
}

// Should the lock ever be lost (a pooler between us and Postgres), the batch's
// own condition still lets only one importer through.
func TestImportOvertaken(t *testing.T) {
	t.Parallel()
	s := openOperator(t)
	id := newCampaign(t, s, "c")
	overtake := ImportOptions{BatchRows: 10, Committed: func(c Imported) {
		exec(t, s, "UPDATE campaign_imports SET line = line + 1")
	}}
	if _, err := s.Import(t.Context(), id, file(numbered(30), whole), overtake); !errors.Is(err, ErrBusy) {
		t.Fatalf("import: %v, want ErrBusy", err)
	}
	if n := count(t, s, "SELECT count(*) FROM recipients"); n != 10 {
		t.Fatalf("%d rows, want the 10 of the first batch", n)
	}
}

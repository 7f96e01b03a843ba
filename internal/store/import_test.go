package store

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

// Whatever the file, wherever it is cut short and however often: in the end
// the rows and the counts are those of one undisturbed import.
func TestImportEndsAsIfNothingHadHappened(t *testing.T) {
	t.Parallel()
	s := openOperator(t)
	doubtful := saturated()
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		rows := drawRows(rt)
		id := newCampaign(rt, s, fmt.Sprintf("c%d", n))
		opts := ImportOptions{
			BatchRows: rapid.IntRange(1, 25).Draw(rt, "batch"),
			Committed: func(c Imported) {
				if c.Read != c.Accepted+c.Rejected+c.Duplicate {
					rt.Fatalf("a batch's counts do not add up: %+v", c)
				}
			},
		}
		cuts := rapid.SliceOfN(rapid.IntRange(0, len(rows)-1), 0, 2).Draw(rt, "cuts")
		var got Imported
		for _, cut := range append(cuts, whole) {
			if opts.phones = nil; rapid.Bool().Draw(rt, "doubt") {
				opts.phones = doubtful
			}
			var err error
			got, err = s.Import(context.Background(), id, file(rows, cut), opts)
			if (cut == whole) != (err == nil) || cut != whole && !errors.Is(err, errCut) {
				rt.Fatalf("import cut at %d: %v", cut, err)
			}
		}
		compareImport(rt, s, id, rows, got)
	})
}

func compareImport(t require, s *Store, id int64, rows []ImportRow, got Imported) {
	t.Helper()
	want, total := wanted(rows)
	total.Resumed = got.Resumed
	if diff := cmp.Diff(total, got); diff != "" {
		t.Fatalf("counts (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want, readImported(t, s, id), cmpopts.EquateEmpty()); diff != "" {
		t.Fatalf("rows (-want +got):\n%s", diff)
	}
	proveVerified(t, s, id)
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

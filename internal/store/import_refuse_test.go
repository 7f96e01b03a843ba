package store

import (
	"errors"
	"strings"
	"testing"
)

func TestImportRefusesAnotherFile(t *testing.T) {
	t.Parallel()
	rows := numbered(30)
	for _, tc := range []struct {
		name   string
		change func(src *ImportSource)
		says   string
	}{
		{"size", func(src *ImportSource) { src.Size++ }, "began with another file"},
		{"head", func(src *ImportSource) { src.Head = []byte("other") }, "began with another file"},
		{"a row fewer", func(src *ImportSource) { src.Rows = file(rows[1:], whole).Rows }, "now reads otherwise than it was imported (9 rows"},
		{"a row rejected now", func(src *ImportSource) {
			other := numbered(30)
			other[3].Rejected = true
			src.Rows = file(other, whole).Rows
		}, "1 of them rejected"},
		{"a phone moved down", func(src *ImportSource) {
			other := numbered(30)
			other[3].Phone, other[25].Phone = "+5521999999999", rows[3].Phone
			src.Rows = file(other, whole).Rows
		}, "now reads otherwise"},
		{"a value changed", func(src *ImportSource) {
			other := numbered(30)
			other[3].Values = append([]string{"someone else"}, other[3].Values[1:]...)
			src.Rows = file(other, whole).Rows
		}, "now reads otherwise"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := openOperator(t)
			id := newCampaign(t, s, "c")
			if _, err := s.Import(t.Context(), id, file(rows, 15), ImportOptions{BatchRows: 10}); !errors.Is(err, errCut) {
				t.Fatal(err)
			}
			src := file(rows, whole)
			tc.change(&src)
			_, err := s.Import(t.Context(), id, src, ImportOptions{})
			if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), tc.says) {
				t.Fatalf("import: %v, want a refusal that says %q", err, tc.says)
			}
			if n := count(t, s, "SELECT count(*) FROM recipients"); n != 10 || strings.Contains(err.Error(), "+55") {
				t.Fatalf("%d rows, want the 10 of the first batch; and no phone number in %v", n, err)
			}
		})
	}
}

// As long as nothing is committed, a mended file may take the first one's place.
func TestImportTakesAMendedFileBeforeTheFirstBatch(t *testing.T) {
	t.Parallel()
	s := openOperator(t)
	id := newCampaign(t, s, "c")
	if _, err := s.Import(t.Context(), id, file(numbered(30), 5), ImportOptions{BatchRows: 10}); !errors.Is(err, errCut) {
		t.Fatal(err)
	}
	got, err := s.Import(t.Context(), id, file(numbered(7), whole), ImportOptions{})
	if err != nil || got.Accepted != 7 || got.Resumed != 0 {
		t.Fatalf("import: %+v, %v", got, err)
	}
}

func TestImportRefusesByState(t *testing.T) {
	t.Parallel()
	s := openOperator(t)
	id := newCampaign(t, s, "c")
	if _, err := s.Import(t.Context(), id+100, file(numbered(3), whole), ImportOptions{}); !errors.Is(err, ErrNotFound) {
		t.Errorf("import into no campaign: %v", err)
	}
	unordered := numbered(3)
	unordered[2].Line = unordered[1].Line
	if _, err := s.Import(t.Context(), id, file(unordered, whole), ImportOptions{}); err == nil {
		t.Error("lines that do not grow were imported: a resume could not tell them apart")
	}
	if _, err := s.Import(t.Context(), id, file(numbered(3), whole), ImportOptions{}); err != nil {
		t.Fatal(err)
	}
	_, err := s.Import(t.Context(), id, file(numbered(3), whole), ImportOptions{})
	if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "has its recipients already (3 from people.csv)") {
		t.Errorf("second import: %v", err)
	}
	exec(t, s, "UPDATE campaigns SET state = 'importing', state_reason = 'being dropped'")
	if _, err := s.Import(t.Context(), id, file(numbered(3), whole), ImportOptions{}); !errors.Is(err, ErrRefused) {
		t.Errorf("import into a campaign half dropped: %v", err)
	}
}

func TestImportOfNothing(t *testing.T) {
	t.Parallel()
	s := openOperator(t)
	id := newCampaign(t, s, "c")
	rows := numbered(3)
	for i := range rows {
		rows[i].Rejected = true
	}
	if got, err := s.Import(t.Context(), id, file(rows, whole), ImportOptions{}); err != nil || got.Rejected != 3 || !got.Done {
		t.Fatalf("import: %+v, %v", got, err)
	}
	_, err := s.StartCampaign(t.Context(), id, true)
	if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "no recipients") {
		t.Fatalf("start: %v", err)
	}
	proveVerified(t, s, id)
}

// Without statistics the claim of a fresh campaign reads the whole table.
func TestImportAnalyzes(t *testing.T) {
	t.Parallel()
	s := openOperator(t)
	id := newCampaign(t, s, "c")
	if _, err := s.Import(t.Context(), id, file(numbered(500), whole), ImportOptions{}); err != nil {
		t.Fatal(err)
	}
	if n := count(t, s, "SELECT sum(reltuples)::bigint FROM pg_class WHERE relname IN ('recipients', 'recipient_params')"); n != 1000 {
		t.Fatalf("the planner believes in %d rows, want 1000", n)
	}
}

// Two campaigns in one sequence of blocks: ranges stay apart and grow when they touch.
func TestImportRanges(t *testing.T) {
	t.Parallel()
	s := openOperator(t)
	first, second := newCampaign(t, s, "first"), newCampaign(t, s, "second")
	if _, err := s.Import(t.Context(), first, file(numbered(25_000), 20_500), ImportOptions{BatchRows: 4_000}); !errors.Is(err, errCut) {
		t.Fatal(err)
	}
	if _, err := s.Import(t.Context(), second, file(numbered(10), whole), ImportOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Import(t.Context(), first, file(numbered(25_000), whole), ImportOptions{}); err != nil {
		t.Fatal(err)
	}
	if n := count(t, s, "SELECT count(*) FROM campaign_ranges WHERE campaign_id = $1", first); n != 2 {
		t.Fatalf("%d ranges, want 2: one before and one after the other campaign's", n)
	}
	proveVerified(t, s, first)
	proveVerified(t, s, second)
}

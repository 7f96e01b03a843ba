package bench

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weirhq/weir/internal/pgtest"
)

// TestRun measures everything once, small: every figure comes out.
func TestRun(t *testing.T) {
	t.Parallel()
	figures, err := Run(t.Context(), Options{URL: pgtest.URL(t), Rows: 1000, Rounds: 1, paceRate: 50, paceFor: 2 * time.Second}, Parts()...)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range Parts() {
		if !slices.ContainsFunc(figures, func(f Figure) bool { return f.Part == part }) {
			t.Errorf("nothing came out of %s", part)
		}
	}
	for _, f := range figures {
		if !strings.HasSuffix(f.Unit, "s") && f.Value <= 0 { // CPU is counted in steps of 10 ms
			t.Errorf("%s, %s is %v %s", f.Part, f.Name, f.Value, f.Unit)
		}
	}
}

// TestScratchIsDropped, also when the run was interrupted.
func TestScratchIsDropped(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	ctx, interrupt := context.WithCancel(t.Context())
	s, err := openScratch(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	interrupt()
	if err := s.close(ctx, nil); err != nil {
		t.Fatal(err)
	}
	pool, err := pgxpool.New(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	if left, err := scalar[int](t.Context(), pool, `SELECT count(*) FROM pg_database WHERE datname = $1`, s.name); err != nil || left > 0 {
		t.Errorf("%d databases are left, %v", left, err)
	}
}

// TestRefusals says what was wrong with what was asked for.
func TestRefusals(t *testing.T) {
	t.Parallel()
	if _, err := Run(t.Context(), Options{URL: "host=/tmp dbname=weir"}, Rows); err == nil || !strings.Contains(err.Error(), "postgres://") {
		t.Errorf("an address that is no URL: %v", err)
	}
	if _, err := Run(t.Context(), Options{URL: pgtest.URL(t)}, "nothing"); err == nil || !strings.Contains(err.Error(), `"nothing"`) {
		t.Errorf("an unknown part: %v", err)
	}
}

func TestMedian(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		of   []float64
		want float64
	}{{[]float64{3}, 3}, {[]float64{9, 1, 2}, 2}, {[]float64{4, 1, 2, 9}, 3}} {
		if got := median(c.of); got != c.want {
			t.Errorf("median(%v) = %v, want %v", c.of, got, c.want)
		}
	}
}

func TestBusiest(t *testing.T) {
	t.Parallel()
	start := time.Unix(0, 0)
	var times []time.Time
	for _, ms := range []int{0, 400, 999, 1000, 1399, 1400, 2500} {
		times = append(times, start.Add(time.Duration(ms)*time.Millisecond))
	}
	if got := busiest(times); got != 4 { // 400 to 1399, and 999 to 1400
		t.Errorf("busiest second holds %d, want 4", got)
	}
}

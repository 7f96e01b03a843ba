package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/weirhq/weir/internal/pgtest"
)

var importRowsFlag = flag.Int("rows", 100_000, "rows of BenchmarkImportFile")

// BenchmarkImportFile takes the whole path of an import (a real file of six
// columns, phones in no order and one in a hundred twice, through parsing and
// merging into the two tables with their live indexes), then a plain COPY of
// the rows it accepted into the same two tables of another database, and
// reports how fast the first is by the second:
//
//	go test -run '^$' -bench ImportFile -benchtime 1x ./cmd/weir -rows 1000000
func BenchmarkImportFile(b *testing.B) {
	file := filepath.Join(b.TempDir(), "people.csv")
	writeLargeFile(b, file, *importRowsFlag)
	for b.Loop() {
		from := pgtest.URL(b)
		s := silent(from)
		add := numberAddCmd{ID: scriptNumber, WABA: "w", Headroom: 0.2, Burst: 1, NoVerify: true}
		if err := add.Run(b.Context(), s); err != nil {
			b.Fatal(err)
		}
		create := campaignCreateCmd{
			Name: "c", Template: "t", Language: "en_US", Number: []string{scriptNumber}, CSV: file, PhoneColumn: "phone",
			OnUnknown: "fail", MaxAttempts: 5, Retry: "full", NoVerify: true,
		}
		start := time.Now()
		if err := create.Run(b.Context(), s); err != nil {
			b.Fatal(err)
		}
		took := time.Since(start)
		rows, plain := plainCopy(b, from)
		b.ReportMetric(float64(rows)/took.Seconds(), "rows/s")
		b.ReportMetric(float64(rows)/plain.Seconds(), "plain-rows/s")
		b.ReportMetric(plain.Seconds()/took.Seconds(), "of-plain-COPY")
	}
}

// plainCopy copies what an import made into another database, as a file that
// is ready for it.
func plainCopy(b *testing.B, from string) (rows int64, took time.Duration) {
	ctx := b.Context()
	source, err := pgx.Connect(ctx, from)
	if err != nil {
		b.Fatal(err)
	}
	defer source.Close(ctx)
	target, err := pgx.Connect(ctx, pgtest.URL(b))
	if err != nil {
		b.Fatal(err)
	}
	defer target.Close(ctx)
	for _, table := range []string{"recipients", "recipient_params"} {
		file := filepath.Join(b.TempDir(), table)
		n, err := copyOut(ctx, source, table, file)
		if err != nil {
			b.Fatal(err)
		}
		f, err := os.Open(file)
		if err != nil {
			b.Fatal(err)
		}
		start := time.Now()
		if _, err := target.PgConn().CopyFrom(ctx, f, "COPY "+table+" FROM STDIN"); err != nil {
			b.Fatal(err)
		}
		took += time.Since(start)
		rows = n
		_ = f.Close()
	}
	return rows, took
}

func copyOut(ctx context.Context, conn *pgx.Conn, table, file string) (int64, error) {
	f, err := os.Create(file)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	tag, err := conn.PgConn().CopyTo(ctx, f, "COPY "+table+" TO STDOUT")
	return tag.RowsAffected(), err
}

// writeLargeFile writes n rows whose phones come in no order, one in a hundred
// of them for the second time.
func writeLargeFile(tb testing.TB, path string, n int) {
	tb.Helper()
	f, err := os.Create(path)
	if err != nil {
		tb.Fatal(err)
	}
	defer f.Close()
	w := bufio.NewWriter(f)
	fmt.Fprintln(w, "phone,name,surname,order,day,amount")
	for i := range n {
		who := i
		if i%100 == 99 {
			who = i / 2
		}
		fmt.Fprintf(w, "+49151%08d,Maria %d,da Silva,order-%08d,2026-01-31,1.234.56\n", (who*7_368_787)%99_999_989, who, i)
	}
	if err := w.Flush(); err != nil {
		tb.Fatal(err)
	}
}

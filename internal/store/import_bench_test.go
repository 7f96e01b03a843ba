package store

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/weirhq/weir/internal/pgtest"
)

var fileRows = flag.Int64("import.rows", 100_000, "rows of BenchmarkImport")

// fileRow is a row of six columns whose phones come in no order.
func fileRow(i int64, values []string) ImportRow {
	phone := i * 7_368_787 % 9_999_999_967 // a prime, so no phone comes twice
	values[0] = fmt.Sprintf("Maria %d", i)
	values[1] = "da Silva"
	values[2] = fmt.Sprintf("order-%08d", i)
	values[3] = "2026-01-31"
	values[4] = "R$ 1.234,56"
	return ImportRow{Line: i + 2, Phone: fmt.Sprintf("+55%011d", 10_000_000_000+phone), Values: values}
}

func fileSource(n int64) ImportSource {
	return ImportSource{
		File: "bench.csv", Size: n, Head: []byte("head"), Sum: func() []byte { return []byte("sum") },
		Rows: func(yield func(ImportRow, error) bool) {
			values := make([]string, 5)
			for i := range n {
				if !yield(fileRow(i, values), nil) {
					return
				}
			}
		},
	}
}

// BenchmarkImport takes an import and a plain COPY of the same rows into the
// same two tables, and reports how fast the first is by the second. Each has
// a database of its own.
func BenchmarkImport(b *testing.B) {
	n := *fileRows
	stateFile, paramsFile := plainFiles(b, n)
	for b.Loop() {
		b.StopTimer()
		plain := plainCopy(b, openFileBench(b), stateFile, paramsFile)
		s := openFileBench(b)
		id := newCampaign(b, s, "bench")
		peak := watchMemory()
		b.StartTimer()
		start := time.Now()
		got, err := s.Import(b.Context(), id, fileSource(n), ImportOptions{})
		took := time.Since(start)
		b.StopTimer()
		if err != nil || got.Accepted != n {
			b.Fatalf("imported %+v, %v", got, err)
		}
		b.ReportMetric(float64(peak())/(1<<20), "MiB-growth")
		b.ReportMetric(float64(n)/took.Seconds(), "rows/s")
		b.ReportMetric(float64(n)/plain.Seconds(), "plain-rows/s")
		b.ReportMetric(plain.Seconds()/took.Seconds(), "of-plain-COPY")
		b.StartTimer()
	}
}

// BenchmarkImportClient is the client's half alone: reading, filtering and
// encoding, without a server.
func BenchmarkImportClient(b *testing.B) {
	im := &importer{phones: newSeen(), ids: idBlock{next: 1, last: 1 << 60}}
	bt := &batch{}
	bt.reset()
	rows := make([]ImportRow, 1000)
	for i := range rows {
		rows[i] = fileRow(int64(i), make([]string, 5))
	}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		if bt.read == 20_000 {
			bt.reset()
			im.phones = newSeen()
		}
		row := rows[i%len(rows)]
		row.Phone = fmt.Sprintf("+%013d", i)
		if err := im.add(b.Context(), bt, row); err != nil {
			b.Fatal(err)
		}
		i++
	}
}

func openFileBench(b *testing.B) *Store {
	s, err := Open(b.Context(), pgtest.URL(b), Options{StatementTimeout: time.Hour})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(s.Close)
	return s
}

// plainFiles writes the rows as psql's \copy would take them.
func plainFiles(b *testing.B, n int64) (state, params string) {
	dir := b.TempDir()
	state, params = filepath.Join(dir, "state"), filepath.Join(dir, "params")
	sf, err := os.Create(state)
	if err != nil {
		b.Fatal(err)
	}
	defer sf.Close()
	pf, err := os.Create(params)
	if err != nil {
		b.Fatal(err)
	}
	defer pf.Close()
	sw, pw := bufio.NewWriter(sf), bufio.NewWriter(pf)
	values := make([]string, 5)
	for i := range n {
		row := fileRow(i, values)
		fmt.Fprintf(sw, "%d\t1\t2026-01-31 12:00:00+00\n", i+1)
		fmt.Fprintf(pw, "%d\t1\t%d\t%s\t%s\n", i+1, row.Line, row.Phone, arrayLiteral(row.Values))
	}
	if err := sw.Flush(); err != nil {
		b.Fatal(err)
	}
	if err := pw.Flush(); err != nil {
		b.Fatal(err)
	}
	return state, params
}

func plainCopy(b *testing.B, s *Store, stateFile, paramsFile string) time.Duration {
	start := time.Now()
	err := pgx.BeginFunc(b.Context(), s.pool, func(tx pgx.Tx) error {
		if err := copyFile(b.Context(), tx, stateFile, "COPY recipients (id, campaign_id, due_at) FROM STDIN"); err != nil {
			return err
		}
		return copyFile(b.Context(), tx, paramsFile, "COPY recipient_params (id, campaign_id, line, phone, params) FROM STDIN")
	})
	if err != nil {
		b.Fatal(err)
	}
	return time.Since(start)
}

func copyFile(ctx context.Context, tx pgx.Tx, name, statement string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = tx.Conn().PgConn().CopyFrom(ctx, io.Reader(f), statement)
	return err
}

// watchMemory samples what the Go runtime holds of the machine; the function
// it returns ends that and gives the greatest growth in bytes.
func watchMemory() func() uint64 {
	debug.FreeOSMemory()
	held := func() uint64 {
		s := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
		metrics.Read(s)
		return s[0].Value.Uint64() - s[1].Value.Uint64()
	}
	before, stop, peak := held(), make(chan struct{}), make(chan uint64)
	go func() {
		most := before
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				most = max(most, held())
			case <-stop:
				peak <- most - before
				return
			}
		}
	}()
	return func() uint64 { close(stop); return <-peak }
}

package localpg

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"hash/crc32"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// nowhere keeps Start from finding the binaries that this machine has.
func nowhere(t *testing.T) []string { return []string{filepath.Join(t.TempDir(), "none")} }

// repository serves one archive at every address that ends in .jar, and a
// checksum beside it.
func repository(t *testing.T, jar []byte, sum string) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := jar
		if strings.HasSuffix(r.URL.Path, ".sha256") {
			body = []byte(sum)
		}
		_, _ = w.Write(body) // the client notices
	}))
	t.Cleanup(s.Close)
	return s
}

func sumOf(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

func TestMissingBinariesAreFetchedOnce(t *testing.T) {
	t.Parallel()
	jar := jarOf(t, "bin/postgres", "bin/initdb", "bin/pg_ctl")
	repo := repository(t, jar, sumOf(jar))
	o := Options{Dir: tempDir(t), Test: true, BinDirs: nowhere(t), FetchURL: repo.URL}
	s := start(t, o)
	if !answers(s.URL("postgres")) {
		t.Error("no answer from fetched binaries")
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	repo.Close()
	if again := start(t, o); !answers(again.URL("postgres")) {
		t.Error("no answer from binaries that were fetched before")
	}
}

func TestFailedFetchSaysWhatToInstall(t *testing.T) {
	t.Parallel()
	whole, partial := jarOf(t, "bin/postgres", "bin/initdb", "bin/pg_ctl"), jarOf(t, "bin/initdb")
	tests := []struct {
		name string
		repo *httptest.Server
	}{
		{"nothing there", httptest.NewServer(http.NotFoundHandler())},
		{"not an archive", repository(t, []byte("<html>"), sumOf([]byte("<html>")))},
		{"damaged on the way", repository(t, whole, sumOf(partial))},
		{"no server inside", repository(t, partial, sumOf(partial))},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			defer tt.repo.Close()
			dir := tempDir(t)
			_, err := Start(t.Context(), Options{Dir: dir, BinDirs: nowhere(t), FetchURL: tt.repo.URL})
			if !errors.Is(err, ErrNoPostgres) {
				t.Fatalf("Start says %v, want ErrNoPostgres", err)
			}
			for _, want := range []string{"apt-get install postgresql", "brew install postgresql@17"} {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q does not say %q", err, want)
				}
			}
			if left, _ := filepath.Glob(filepath.Join(dir, "fetch-*")); len(left) > 0 {
				t.Errorf("the fetch left %v", left)
			}
		})
	}
}

// jarOf is an archive as the repository has them: a zip with a tar.xz inside.
// The programs are links to this machine's, found as Start would.
func jarOf(t *testing.T, names ...string) []byte {
	t.Helper()
	all := findBinaries(context.Background(), nil, "")
	if len(all) == 0 {
		t.Fatal("this test needs PostgreSQL's server binaries: apt-get install postgresql")
	}
	var ball, jar bytes.Buffer
	tw := tar.NewWriter(&ball)
	for _, name := range names {
		h := &tar.Header{Name: name, Typeflag: tar.TypeSymlink, Linkname: all[0].path(filepath.Base(name))}
		if err := tw.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
	}
	zw := zip.NewWriter(&jar)
	w, err := zw.Create("postgres.txz")
	if err := errors.Join(err, tw.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(storeXZ(ball.Bytes())); err != nil {
		t.Fatal(err)
	}
	if err := zw.Close(); err != nil {
		t.Fatal(err)
	}
	return jar.Bytes()
}

// storeXZ wraps data of at most 64 KiB in the xz format without compressing
// it: there is no encoder among our dependencies, and the tool of that name is
// not on every machine. Format: https://tukaani.org/xz/xz-file-format.txt
func storeXZ(data []byte) []byte {
	le := binary.LittleEndian
	sum := func(b []byte) []byte { return le.AppendUint32(nil, crc32.ChecksumIEEE(b)) }
	pad := func(b []byte) []byte { return append(b, make([]byte, -len(b)&3)...) }
	flags := []byte{0, 0} // no integrity check
	head := []byte{2, 0, 0x21, 1, 0x10, 0, 0, 0}
	head = append(head, sum(head)...)
	chunk := binary.BigEndian.AppendUint16([]byte{1}, uint16(len(data)-1)) // stored, dictionary reset
	chunk = append(append(chunk, data...), 0)

	index := []byte{0, 1}
	index = binary.AppendUvarint(index, uint64(len(head)+len(chunk)))
	index = pad(binary.AppendUvarint(index, uint64(len(data))))
	index = append(index, sum(index)...)
	foot := append(le.AppendUint32(nil, uint32(len(index)/4-1)), flags...)

	out := append([]byte("\xfd7zXZ\x00"), flags...)
	out = append(append(out, sum(flags)...), head...)
	out = pad(append(out, chunk...))
	out = append(append(out, index...), sum(foot)...)
	return append(append(out, foot...), "YZ"...)
}

func TestScriptsAreNotTheServer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"postgres", "initdb", "pg_ctl"} {
		script := "#!/bin/sh\necho 'postgres (PostgreSQL) 99.0'\n"
		if err := os.WriteFile(filepath.Join(dir, name), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if got := findBinaries(t.Context(), []string{dir}, ""); len(got) != 0 {
		t.Errorf("found %v among wrapper scripts", got)
	}
}

func TestDataDirectoryChoosesItsVersion(t *testing.T) {
	t.Parallel()
	all := []binaries{{"/new", 17}, {"/old", 15}}
	data := t.TempDir()
	if b, err := choose(all, data); err != nil || b.major != 17 {
		t.Errorf("a new directory gets %v, %v; want the newest", b, err)
	}
	version := filepath.Join(data, "PG_VERSION")
	if err := os.WriteFile(version, []byte("15\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if b, err := choose(all, data); err != nil || b.major != 15 {
		t.Errorf("a directory of 15 gets %v, %v; want 15", b, err)
	}
	if err := os.WriteFile(version, []byte("16\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := choose(all, data)
	if !errors.Is(err, ErrVersion) || !strings.Contains(err.Error(), "postgresql-16") {
		t.Errorf("a directory of 16 gets %v, want ErrVersion and what to install", err)
	}
}

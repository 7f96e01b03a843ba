package store

import (
	"context"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weirhq/weir/internal/localpg"
	"github.com/weirhq/weir/internal/pgtest"
)

// ownServer is a server of the test's own, with a database named weir.
func ownServer(t *testing.T) *localpg.Server {
	t.Helper()
	dir := t.TempDir()
	for _, d := range []string{dir, filepath.Dir(dir)} { // root's server runs as another user, who must get in
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	s, err := localpg.Start(t.Context(), localpg.Options{Dir: dir, Test: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := s.EnsureDatabase(t.Context(), "weir"); err != nil {
		t.Fatal(err)
	}
	return s
}

// oneOf is the address of whichever of two servers takes writes.
func oneOf(t *testing.T, a, b *localpg.Server) string {
	t.Helper()
	first, err := url.Parse(a.URL("weir"))
	if err != nil {
		t.Fatal(err)
	}
	second, err := url.Parse(b.URL("weir"))
	if err != nil {
		t.Fatal(err)
	}
	q := first.Query()
	for _, name := range []string{"host", "port"} {
		q.Set(name, q.Get(name)+","+second.Query().Get(name))
	}
	q.Set("connect_timeout", "60") // the machine may be busy
	first.RawQuery = q.Encode()
	return first.String()
}

// several asks n connections of a pool at once.
func several(t *testing.T, p *pool, n int, question string) (answers []string) {
	t.Helper()
	conns := make([]*pgxpool.Conn, n)
	for i := range conns {
		var err error
		if conns[i], err = p.Acquire(t.Context()); err != nil {
			t.Fatal(err)
		}
		defer conns[i].Release()
	}
	for _, c := range conns {
		var answer string
		if err := c.QueryRow(t.Context(), question).Scan(&answer); err != nil {
			t.Fatal(err)
		}
		answers = append(answers, answer)
	}
	return answers
}

// TestADemotedServerIsLeft: of a list of servers the one that takes writes is
// used; when it says that it takes none any more, not only the connection that
// heard it goes: the others would read the past.
func TestADemotedServerIsLeft(t *testing.T) {
	t.Parallel()
	a, b := ownServer(t), ownServer(t)
	s, err := Open(t.Context(), oneOf(t, a, b), Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	before := several(t, s.pool, 4, `SHOW data_directory`)
	tell(t, a, `ALTER SYSTEM SET default_transaction_read_only = on`, `SELECT pg_reload_conf()`)
	eventually(t, "the demoted server still takes writes", func() bool {
		_, err := s.pool.Exec(t.Context(), `CREATE TABLE IF NOT EXISTS written ()`)
		return sqlState(err) == "25006"
	})
	after := several(t, s.pool, 4, `SHOW data_directory`)
	if before[0] == after[0] || len(slices.Compact(before)) != 1 || len(slices.Compact(after)) != 1 {
		t.Errorf("connections led to %v, and to %v after the first of them was demoted", before, after)
	}
	if _, err := Open(t.Context(), a.URL("weir"), Options{}); !errors.Is(err, pgconn.ErrReadOnlyConnection) {
		t.Errorf("a server that takes no writes was opened: %v", err)
	}
	reader, err := Open(t.Context(), a.URL("weir")+"&target_session_attrs=any", Options{})
	if err != nil {
		t.Fatalf("an address that says it may be read-only: %v", err)
	}
	reader.Close()
}

// TestAServerThatGoesDownIsLeft: so is one that ends a connection.
func TestAServerThatGoesDownIsLeft(t *testing.T) {
	t.Parallel()
	s, err := Open(t.Context(), pgtest.URL(t), Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	before := several(t, s.pool, 4, `SELECT pg_backend_pid()::text`)
	if _, err := s.pool.Exec(t.Context(), `SELECT pg_terminate_backend(pg_backend_pid())`); sqlState(err) != "57P01" {
		t.Fatalf("the connection lives: %v", err)
	}
	for _, pid := range several(t, s.pool, 4, `SELECT pg_backend_pid()::text`) {
		if slices.Contains(before, pid) {
			t.Errorf("session %s is used still", pid)
		}
	}
}

func tell(t *testing.T, server *localpg.Server, statements ...string) {
	t.Helper()
	conn, err := pgconn.Connect(t.Context(), server.URL("weir"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	for _, sql := range statements {
		if _, err := conn.Exec(t.Context(), sql).ReadAll(); err != nil {
			t.Fatal(err)
		}
	}
}

func eventually(t *testing.T, not string, ok func() bool) {
	t.Helper()
	deadline := time.After(5 * time.Minute)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal(not)
		}
	}
}

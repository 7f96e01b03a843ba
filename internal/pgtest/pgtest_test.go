package pgtest_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"go.uber.org/goleak"

	"github.com/weirhq/weir/internal/pgtest"
	"github.com/weirhq/weir/migrations"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestNewIsMigratedAndOneTestsOwn(t *testing.T) {
	t.Parallel()
	for range 2 {
		pool := pgtest.New(t)
		if err := migrations.Check(t.Context(), pool); err != nil {
			t.Fatal(err)
		}
		// Would fail in the second round if the first one's table were seen.
		if _, err := pool.Exec(t.Context(), `CREATE TABLE mine ()`); err != nil {
			t.Fatal(err)
		}
	}
}

// anotherProcess runs the test above in a process with this environment, leak
// check included.
func anotherProcess(t *testing.T, env ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestNewIsMigratedAndOneTestsOwn$", "-test.timeout=8m")
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "PASS") {
		t.Errorf("another process: %v\n%s", err, out)
	}
}

func exists(t *testing.T, url string) bool {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if pgErr, ok := errors.AsType[*pgconn.PgError](err); ok && pgErr.Code == "3D000" {
		return false
	}
	if err != nil {
		t.Fatal(err)
	}
	return conn.Close(t.Context()) == nil
}

func TestDatabaseGoesAwayWithItsTest(t *testing.T) {
	t.Parallel()
	var url string
	t.Run("inner", func(t *testing.T) {
		url = pgtest.URL(t)
		if !exists(t, url) {
			t.Error("no database")
		}
		conn, err := pgx.Connect(context.Background(), url)
		if err != nil {
			t.Fatal(err)
		}
		// A forgotten connection must not keep the database.
		_ = conn
	})
	if exists(t, url) {
		t.Error("the database outlived its test")
	}
}

func TestEmptyIsNotMigrated(t *testing.T) {
	t.Parallel()
	s, err := migrations.ReadStatus(t.Context(), pgtest.EmptyURL(t))
	if err != nil || s.Current != 0 || s.River != 0 {
		t.Errorf("status is %+v, %v", s, err)
	}
}

func TestDeadProcessesAreCleanedUpAfter(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	// No process holds the lock of this number: they begin at 1.
	if _, err := conn.Exec(t.Context(), `CREATE DATABASE weirtest_0_1`); err != nil {
		t.Fatal(err)
	}
	anotherProcess(t)
	config := conn.Config().Copy()
	dead := strings.Replace(url, "/"+config.Database, "/weirtest_0_1", 1)
	if exists(t, dead) {
		t.Error("the dead process's database is still there")
	}
	if !exists(t, url) {
		t.Error("a living process's database is gone")
	}
}

func TestServerOfTheEnvironment(t *testing.T) {
	t.Parallel()
	anotherProcess(t, "TEST_DATABASE_URL="+pgtest.URL(t))
}

func BenchmarkNew(b *testing.B) {
	for b.Loop() {
		pgtest.New(b)
	}
}

package pgtest_test

import (
	"testing"

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

func BenchmarkNew(b *testing.B) {
	for b.Loop() {
		pgtest.New(b)
	}
}

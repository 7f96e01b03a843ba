package store

import (
	"flag"
	"testing"

	"go.uber.org/goleak"
)

// TestMain has every property checked 33 times instead of 100: one check is
// hundreds of statements on a real Postgres. -rapid.checks asks for more.
func TestMain(m *testing.M) {
	if err := flag.Set("rapid.checks", "33"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

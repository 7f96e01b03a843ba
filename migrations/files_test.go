package migrations_test

import (
	"fmt"
	"io/fs"
	"regexp"
	"strings"
	"testing"

	"github.com/weirhq/weir/migrations"
)

// The driver sends a file as one simple query, and undirty counts by one.
func TestFilesAreNumberedPairsOfOneTransaction(t *testing.T) {
	t.Parallel()
	names, err := fs.Glob(migrations.Embedded, "*.sql")
	if err != nil {
		t.Fatal(err)
	}
	forbidden := regexp.MustCompile(`(?im)^\s*(begin|commit|rollback|start transaction)\s*;|\bconcurrently\b`)
	for i, name := range names {
		want := fmt.Sprintf("%04d_", i/2+1)
		if !strings.HasPrefix(name, want) || (i%2 == 0) != strings.HasSuffix(name, ".down.sql") {
			t.Errorf("%s: want %s….down.sql and ….up.sql in a row", name, want)
		}
		text, err := fs.ReadFile(migrations.Embedded, name)
		if err != nil {
			t.Fatal(err)
		}
		if m := forbidden.Find(text); m != nil {
			t.Errorf("%s contains %q: it must be one transaction", name, m)
		}
	}
}

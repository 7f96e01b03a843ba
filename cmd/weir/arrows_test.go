package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/weirhq/weir/"

// arrows says which of our packages each package may import. A new package
// needs a row here and a sentence in its own comment that says what it hides.
var arrows = map[string][]string{
	"engine":            {},
	"migrations":        {},
	"dashboards":        {},
	"internal/sim":      {},
	"internal/localpg":  {},
	"internal/store/db": {},
	"internal/chaos":    {"internal/sim"},
	"internal/audience": {"engine"},
	"internal/notify":   {"engine"},
	"internal/wish":     {"engine"},
	"internal/cloudapi": {"engine"},
	"internal/store":    {"engine", "internal/store/db"},
	"internal/jobs":     {"engine", "internal/store", "internal/notify"},
	"internal/api":      {"engine", "internal/store"},
	"internal/bench":    {"engine", "internal/store", "internal/cloudapi", "migrations"},
	"internal/pgtest":   {"internal/localpg", "migrations"},
	"cmd/weir":          {"engine", "migrations", "internal/store", "internal/cloudapi", "internal/audience", "internal/notify", "internal/wish", "internal/jobs", "internal/api", "internal/sim", "internal/localpg", "internal/bench"},
}

// engineMayImport lists the modules outside the standard library that engine
// may see: it is the domain, and must not learn of a database or a wire.
var engineMayImport = []string{"github.com/prometheus/client_golang/"}

type listed struct {
	ImportPath, Name string
	Imports          []string
	Standard         bool
}

func TestArrows(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, p := range goList(t) {
		name := strings.TrimPrefix(p.ImportPath, module)
		allowed, ok := arrows[name]
		if !ok {
			t.Errorf("package %s has no row in arrows: say what it hides, and what it may import", name)
			continue
		}
		seen[name] = true
		for _, broken := range brokenArrows(name, p.Imports, allowed) {
			t.Error(broken)
		}
	}
	for name := range arrows {
		if !seen[name] {
			t.Errorf("arrows has a row for %s, which does not exist", name)
		}
	}
}

func brokenArrows(name string, imports, allowed []string) (broken []string) {
	for _, imp := range imports {
		ours, isOurs := strings.CutPrefix(imp, module)
		switch {
		case isOurs && !slices.Contains(allowed, ours):
			broken = append(broken, name+" may not import "+ours)
		case !isOurs && name == "engine" && strings.Contains(imp, ".") && !hasPrefix(imp, engineMayImport):
			broken = append(broken, "engine may not import "+imp)
		}
	}
	return broken
}

// TestArrowsCatches is the negative: the check itself must be able to fail.
func TestArrowsCatches(t *testing.T) {
	t.Parallel()
	for _, imp := range []string{module + "internal/store", "github.com/jackc/pgx/v5"} {
		if len(brokenArrows("engine", []string{imp}, nil)) == 0 {
			t.Errorf("engine importing %s was not flagged", imp)
		}
	}
	if got := brokenArrows("engine", []string{"context", "github.com/prometheus/client_golang/prometheus"}, nil); got != nil {
		t.Errorf("allowed imports were flagged: %v", got)
	}
}

func hasPrefix(s string, prefixes []string) bool {
	return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(s, p) })
}

func goList(t *testing.T) []listed {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Name,Imports,Standard", module+"...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var packages []listed
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return packages
		} else if err != nil {
			t.Fatalf("decode go list: %v", err)
		}
		packages = append(packages, p)
	}
}

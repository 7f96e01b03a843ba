//go:build !race

// The suite runs programs that the race detector cannot see into, and would
// only be slowed by it: go test -race leaves it out.

package chaos

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

var (
	flagFault  = flag.String("chaos.fault", "smoke", "faults to run: smoke, all, or names, comma-separated")
	flagSeed   = flag.Uint64("chaos.seed", 1, "seed of every run's chances; 0 takes one from the clock")
	flagDir    = flag.String("chaos.dir", "", "where histories and logs are kept; default: weir-chaos in the user's cache")
	flagVerify = flag.String("chaos.verify", "", "check the histories kept in this directory again; then nothing is run")
	flagAtOnce = flag.Int("chaos.parallel", min(6, runtime.NumCPU()+1), "runs at once; what a machine cannot carry looks like a fleet that stands still")
)

// workshop is what all runs share: the program, and where they work.
type workshop struct {
	dir  string // of this process, gone at its end
	weir string // the program
	keep string // histories and logs
}

var shop workshop // set by TestMain alone

func TestMain(m *testing.M) {
	flag.Parse()
	if err := shop.open(); err != nil {
		log.Fatal(err)
	}
	code := m.Run()
	if err := errors.Join(closeShared(), os.RemoveAll(shop.dir)); err != nil {
		log.Print(err)
	}
	os.Exit(code)
}

func (w *workshop) open() (err error) {
	// Not under $TMPDIR: the server's user must be able to enter, and a
	// socket's path must be short.
	if w.dir, err = os.MkdirTemp("/tmp", "weir-chaos-"); err != nil {
		return err
	}
	if err := os.Chmod(w.dir, 0o711); err != nil {
		return err
	}
	if w.keep = *flagDir; w.keep == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			cache = os.TempDir()
		}
		w.keep = filepath.Join(cache, "weir-chaos")
	}
	w.keep, err = filepath.Abs(w.keep)
	w.weir = filepath.Join(w.dir, "weir")
	return err
}

// build makes the program that is put to the test, once.
var build = sync.OnceValue(func() error {
	cmd := exec.Command("go", "build", "-o", shop.weir, "github.com/weirhq/weir/cmd/weir")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build weir: %w\n%s", err, out)
	}
	return nil
})

// TestFaults breaks a fleet in one way after another and holds what it left to
// every property.
func TestFaults(t *testing.T) {
	if *flagVerify != "" {
		return // asked to look at old runs instead
	}
	chosen, err := choose(*flagFault)
	if err == nil {
		err = build()
	}
	if err != nil {
		t.Fatal(err)
	}
	seed := *flagSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano()) % 1_000_000
	}
	verdicts := make([]Verdict, len(chosen))
	var wg sync.WaitGroup
	slots := make(chan struct{}, max(*flagAtOnce, 1))
	for i, fault := range chosen {
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			verdicts[i] = judge(t, fault, seed)
		})
	}
	wg.Wait()
	t.Logf("seed %d, histories in %s\n%s", seed, shop.keep, Table(verdicts))
}

// judge makes one run and says everything that is wrong with it.
func judge(t *testing.T, fault fault, seed uint64) Verdict {
	began := time.Now()
	h, err := perform(t.Context(), fault, rand.New(rand.NewPCG(seed, 0)))
	if err != nil {
		t.Errorf("%s: %v", fault.name, err)
		return Verdict{Fault: fault.name, Broken: map[string][]string{"run": {err.Error()}}}
	}
	h.Run.Seed = seed
	dir := filepath.Join(shop.keep, fault.name)
	if err := keep(h, filepath.Join(dir, "history.ndjson")); err != nil {
		t.Error(err)
	}
	v := Check(h)
	for property, found := range v.Broken {
		t.Errorf("%s (seed %d, %s): not %s, %d times:\n  %s", fault.name, seed, dir, property, len(found),
			strings.Join(found[:min(len(found), 10)], "\n  "))
	}
	t.Logf("%s (%s) took %v", fault.name, fault.what, time.Since(began).Round(time.Second))
	return v
}

func keep(h *History, file string) error {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	return errors.Join(h.Write(f), f.Close())
}

// perform raises a fleet, lets it send, breaks it, and waits for rest.
func perform(ctx context.Context, fault fault, rng *rand.Rand) (h *History, err error) {
	ctx, cancel := context.WithTimeout(ctx, fault.patience())
	defer cancel()
	f, err := raise(ctx, fault, rng)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.raze()) }()
	if err := f.sending(ctx, fault.warm()); err != nil {
		return nil, err
	}
	leave := func() error { return nil }
	if fault.operated {
		leave = f.operate(ctx)
	}
	if err := errors.Join(fault.strike(ctx, f), leave()); err != nil {
		return nil, fmt.Errorf("strike: %w", err)
	}
	f.rest(ctx)
	if err := f.end(ctx); err != nil {
		return nil, err
	}
	return f.harvest(context.WithoutCancel(ctx))
}

// TestKeptHistories checks old runs again: those of -chaos.verify, else a made
// up one.
func TestKeptHistories(t *testing.T) {
	t.Parallel()
	dir := *flagVerify
	if dir == "" {
		dir = t.TempDir()
		file := filepath.Join(dir, "example", "history.ndjson")
		if err := errors.Join(os.Mkdir(filepath.Dir(file), 0o755), keep(example(), file)); err != nil {
			t.Fatal(err)
		}
	}
	files, err := filepath.Glob(filepath.Join(dir, "*", "history.ndjson"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no histories in %s (%v)", dir, err)
	}
	var verdicts []Verdict
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		h, err := Read(f)
		if err = errors.Join(err, f.Close()); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		v := Check(h)
		for property, found := range v.Broken {
			t.Errorf("%s: not %s:\n  %s", name, property, strings.Join(found, "\n  "))
		}
		verdicts = append(verdicts, v)
	}
	t.Log("\n" + Table(verdicts))
}

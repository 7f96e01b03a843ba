package main

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weirhq/weir/internal/pgtest"
	"github.com/weirhq/weir/internal/sim"
)

// stage is a database, a simulated platform and the program between them.
type stage struct {
	t        testing.TB
	platform *simServer
	listen   string
	dir      string
	env      []string
	database string
}

func newStage(t testing.TB, opts sim.Options) *stage {
	t.Helper()
	s := &stage{t: t, listen: freeAddress(t), dir: t.TempDir(), database: pgtest.URL(t)}
	opts.WebhookURL, opts.AppSecret, opts.RetryBase = "http://"+s.listen+"/webhooks/whatsapp", scriptSecret, 100*time.Millisecond
	opts.Templates = scriptTemplates()
	s.platform = startSim(t, opts)
	s.env = append(os.Environ(), "WEIR_DATABASE_URL="+s.database, "WEIR_GRAPH_URL="+s.platform.URL, "WEIR_ACCESS_TOKEN=token",
		"WEIR_APP_SECRET="+scriptSecret, "WEIR_VERIFY_TOKEN=hello", "WEIR_LISTEN="+s.listen)
	return s
}

// weir runs one command to its end and returns its standard output.
func (s *stage) weir(args ...string) string {
	s.t.Helper()
	cmd := exec.CommandContext(s.t.Context(), "weir", args...)
	cmd.Env, cmd.Dir = s.env, s.dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		s.t.Fatalf("weir %s: %v\n%s%s", strings.Join(args, " "), err, out, stderr.Bytes())
	}
	return string(out)
}

// pool is the stage's database, for what no command shows.
func (s *stage) pool() *pgxpool.Pool {
	s.t.Helper()
	pool, err := pgxpool.New(context.Background(), s.database)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(pool.Close)
	return pool
}

// serve starts a node; its log is kept and shown when the test fails.
func (s *stage) serve(args ...string) *exec.Cmd {
	s.t.Helper()
	log, err := os.CreateTemp(s.dir, "serve-*.log")
	if err != nil {
		s.t.Fatal(err)
	}
	cmd := exec.Command("weir", append([]string{"serve"}, args...)...)
	cmd.Env, cmd.Dir, cmd.Stderr = s.env, s.dir, log
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if s.t.Failed() {
			text, _ := os.ReadFile(log.Name())
			s.t.Logf("%s:\n%s", cmd, text)
		}
		_ = log.Close()
	})
	return cmd
}

// campaign makes and starts a campaign of n people on the script's number.
func (s *stage) campaign(n int, args ...string) {
	s.t.Helper()
	file := filepath.Join(s.dir, "people.csv")
	if err := os.WriteFile(file, []byte(people(n)), 0o600); err != nil {
		s.t.Fatal(err)
	}
	s.weir(append([]string{
		"campaign", "create", "c", "--template", "order_update", "--language", "en_US", "--number", scriptNumber, "--csv", file,
		"--param", "body.1=first_name", "--param", "body.2=order", "--window", "none", "--start",
	}, args...)...)
}

// log waits until the log of some node says so, and returns it.
func (s *stage) log(says string) string {
	s.t.Helper()
	deadline := time.After(patience)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		files, err := filepath.Glob(filepath.Join(s.dir, "serve-*.log"))
		if err != nil {
			s.t.Fatal(err)
		}
		for _, file := range files {
			if text, err := os.ReadFile(file); err == nil && bytes.Contains(text, []byte(says)) {
				return string(text)
			}
		}
		select {
		case <-tick.C:
		case <-deadline:
			s.t.Fatalf("no node's log says %q", says)
		}
	}
}

func (s *stage) status() (view campaignView) {
	s.t.Helper()
	if err := json.Unmarshal([]byte(s.weir("campaign", "status", "c", "--json")), &view); err != nil {
		s.t.Fatal(err)
	}
	return view
}

// patience is how long a test waits for what must come about: as long as the
// slowest machine may take, for what comes about in seconds on others.
const patience = 5 * time.Minute

// until waits for a condition on the campaign, at least for patience.
func (s *stage) until(what string, within time.Duration, ok func(campaignView) bool) campaignView {
	s.t.Helper()
	within = max(within, patience)
	ctx, cancel := context.WithTimeout(s.t.Context(), within)
	defer cancel()
	tick := time.NewTicker(150 * time.Millisecond)
	defer tick.Stop()
	for {
		view := s.status()
		if ok(view) {
			return view
		}
		select {
		case <-ctx.Done():
			s.t.Fatalf("not %s within %v: %s %v", what, within, view.State, view.Counts)
		case <-tick.C:
		}
	}
}

// holds compares the simulator's ledger with the rows, both ways.
func (s *stage) holds(n int) {
	s.t.Helper()
	accepted := map[string]string{} // message id → hashed phone
	people := map[string]int{}
	for _, e := range s.platform.Ledger() {
		if e.WAMID != "" {
			accepted[e.WAMID] = e.To
			people[e.To]++
		}
	}
	for _, times := range people {
		if times > 1 {
			s.t.Errorf("a person got the message %d times", times)
		}
	}
	rows, err := csv.NewReader(strings.NewReader(s.weir("campaign", "export", "c", "--raw"))).ReadAll()
	if err != nil {
		s.t.Fatal(err)
	}
	id, phone := slices.Index(rows[0], "message_id"), slices.Index(rows[0], "phone")
	for _, row := range rows[1:] {
		to, ok := accepted[row[id]]
		if row[id] != "" && (!ok || to != sim.HashPhone(row[phone])) {
			s.t.Errorf("line %s is shown sent with a message that the platform never took for it", row[0])
		}
		delete(accepted, row[id])
	}
	if len(rows)-1 != n || len(accepted) > 0 {
		s.t.Errorf("%d rows, want %d; %d accepted messages stand in no row", len(rows)-1, n, len(accepted))
	}
	s.weir("campaign", "verify", "c")
}

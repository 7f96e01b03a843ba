package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/pgtest"
	"github.com/weirhq/weir/internal/sim"
)

// stage is a database, a simulated platform and the program between them.
type stage struct {
	t        *testing.T
	platform *simServer
	listen   string
	dir      string
	env      []string
}

func newStage(t *testing.T, opts sim.Options) *stage {
	t.Helper()
	s := &stage{t: t, listen: freeAddress(t), dir: t.TempDir()}
	opts.WebhookURL, opts.AppSecret, opts.RetryBase = "http://"+s.listen+"/webhooks/whatsapp", scriptSecret, 100*time.Millisecond
	opts.Templates = scriptTemplates()
	s.platform = startSim(t, opts)
	s.env = append(os.Environ(), "WEIR_DATABASE_URL="+pgtest.URL(t), "WEIR_GRAPH_URL="+s.platform.URL, "WEIR_ACCESS_TOKEN=token",
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
		"--param", "body.1=first_name", "--param", "body.2=order", "--start",
	}, args...)...)
}

func (s *stage) status() (view campaignView) {
	s.t.Helper()
	if err := json.Unmarshal([]byte(s.weir("campaign", "status", "c", "--json")), &view); err != nil {
		s.t.Fatal(err)
	}
	return view
}

// until waits for a condition on the campaign.
func (s *stage) until(what string, within time.Duration, ok func(campaignView) bool) campaignView {
	s.t.Helper()
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

// TestKillAndRestart: kill -9 in the middle of an at-most-once campaign. The
// new node waits out the quarantine and says so; the rows in flight become
// unknown, those that the platform took are settled by their webhooks, the rest
// by the campaign's policy; and the ledger equals the rows.
func TestKillAndRestart(t *testing.T) {
	t.Parallel()
	const n = 1500
	s := newStage(t, sim.Options{
		Latency: sim.Spread{Base: 200 * time.Millisecond, Jitter: 100 * time.Millisecond},
		Sent:    sim.Spread{Base: 300 * time.Millisecond}, Delivered: sim.Spread{Base: 200 * time.Millisecond}, ReadShare: 0.5,
		Numbers: []sim.Number{{ID: scriptNumber, WABA: "waba", Throughput: 250}},
	})
	s.weir("number", "add", scriptNumber, "--waba", "waba", "--limit", "100", "--no-verify")
	s.campaign(n)
	first := s.serve()
	s.until("a third sent", time.Minute, func(v campaignView) bool { return v.Counts["delivered"]+v.Counts["read"] > n/3 })
	if err := first.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = first.Wait()
	second := exec.Command("weir", "serve", "--unknown-window", "5s")
	second.Env, second.Dir = s.env, s.dir
	talk, err := second.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := second.Start(); err != nil {
		t.Fatal(err)
	}
	said := make(chan string, 1)
	go func() { said <- listenFor(talk) }()
	s.until("finished", 2*time.Minute, func(v campaignView) bool { return v.State == "finished" })
	s.until("settled", time.Minute, func(v campaignView) bool {
		return v.Counts["delivered"]+v.Counts["read"]+v.Counts["dead"] == n
	})
	s.holds(n)
	if err := second.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	log := <-said
	if err := second.Wait(); err != nil {
		t.Errorf("serve ended with %v", err)
	}
	for _, want := range []string{"quarantine", "unknown"} {
		if !strings.Contains(log, want) {
			t.Errorf("the restarted node never spoke of %q:\n%s", want, log)
		}
	}
	for _, never := range []string{"+49151", "wamid", "token="} {
		if strings.Contains(log, never) {
			t.Errorf("the log holds %q", never)
		}
	}
	busiest := 0
	for _, entry := range s.platform.Summary(sim.SummaryQuery{}).Numbers {
		busiest = max(busiest, entry.Busiest)
	}
	if busiest > 100 {
		t.Errorf("%d requests in the busiest second, over the limit of 100", busiest)
	}
}

// listenFor reads a log to its end.
func listenFor(r io.Reader) string {
	var all strings.Builder
	for scanner := bufio.NewScanner(r); scanner.Scan(); {
		fmt.Fprintln(&all, scanner.Text())
	}
	return all.String()
}

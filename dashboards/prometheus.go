package dashboards

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"
)

// Prometheus is a private Prometheus server that scrapes one address every
// second. It is there for tests that ask whether the dashboard shows anything.
type Prometheus struct {
	url    string // known once it listens
	client *http.Client
	stop   context.CancelFunc
	ended  chan struct{} // closed when the server is gone
	log    string        // the file with its words
}

const scrapeConfig = `global:
  scrape_interval: 1s
  scrape_timeout: 1s
scrape_configs:
  - job_name: weir
    static_configs:
      - targets: [%q]
`

// pollEvery is how often a server that has no answer yet is asked again.
const pollEvery = 100 * time.Millisecond

// StartPrometheus starts the prometheus on PATH on a free loopback port, with
// its files in dir (which must exist), scraping target ("host:port", path
// /metrics), and returns once it answers. The caller closes it; the end of ctx
// ends it too. The error carries the server's own words when it would not run.
func StartPrometheus(ctx context.Context, dir, target string) (*Prometheus, error) {
	binary, err := exec.LookPath("prometheus")
	if err != nil {
		return nil, fmt.Errorf("find prometheus (install the package prometheus): %w", err)
	}
	config := filepath.Join(dir, "prometheus.yml")
	if err := os.WriteFile(config, fmt.Appendf(nil, scrapeConfig, target), 0o600); err != nil {
		return nil, fmt.Errorf("write scrape config: %w", err)
	}
	ctx, stop := context.WithCancel(ctx)
	p := &Prometheus{
		client: &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}},
		stop:   stop, ended: make(chan struct{}), log: filepath.Join(dir, "prometheus.log"),
	}
	if err := p.start(exec.CommandContext(ctx, binary, "--config.file="+config,
		"--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address=127.0.0.1:0")); err != nil {
		stop()
		return nil, err
	}
	if err := p.awaitReady(ctx); err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

// start runs cmd with its output in a file: a pipe would have to be drained.
func (p *Prometheus) start(cmd *exec.Cmd) error {
	log, err := os.Create(p.log)
	if err != nil {
		return fmt.Errorf("create log of prometheus: %w", err)
	}
	defer log.Close() // the child has its own
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 5 * time.Second
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start prometheus: %w", err)
	}
	go func() {
		defer close(p.ended)
		_ = cmd.Wait() // it was told to go, or its log says why it went
	}()
	return nil
}

// listening finds the port that the system gave.
var listening = regexp.MustCompile(`msg="Listening on".* address=(\S+)`)

func (p *Prometheus) awaitReady(ctx context.Context) error {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for !p.isReady(ctx) {
		select {
		case <-p.ended:
			return fmt.Errorf("start prometheus: it ended and said:\n%s", p.words())
		case <-ctx.Done():
			return fmt.Errorf("start prometheus: %w; it said:\n%s", ctx.Err(), p.words())
		case <-tick.C:
		}
	}
	return nil
}

func (p *Prometheus) isReady(ctx context.Context) bool {
	at := listening.FindSubmatch(p.words())
	if at == nil {
		return false
	}
	p.url = "http://" + string(at[1])
	_, err := p.get(ctx, "/-/ready")
	return err == nil
}

func (p *Prometheus) words() []byte {
	words, err := os.ReadFile(p.log)
	if err != nil {
		return []byte(err.Error())
	}
	return words
}

// Close stops the server and returns when it is gone.
func (p *Prometheus) Close() {
	p.stop()
	<-p.ended
}

// Await returns nil once every expression of every panel has a value other
// than NaN in the same look. Ask while a campaign runs: a number's series go
// with its lease. The first look that can succeed is some 7 s after the start,
// of which Prometheus takes 5 s to begin scraping. When ctx ends first, the error lists those that
// had none; an expression that Prometheus refuses ends the wait at once.
func (p *Prometheus) Await(ctx context.Context, panels []Panel) error {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	var empty []string
	for {
		look, err := p.empty(ctx, panels)
		switch {
		case err == nil && len(look) == 0:
			return nil
		case err == nil:
			empty = look
		case ctx.Err() == nil:
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("await data of %d expressions: %w:\n%s", len(empty), ctx.Err(), strings.Join(empty, "\n"))
		case <-tick.C:
		}
	}
}

func (p *Prometheus) empty(ctx context.Context, panels []Panel) ([]string, error) {
	var without []string
	for _, panel := range panels {
		for _, expr := range panel.Exprs {
			n, err := p.Values(ctx, expr)
			if err != nil {
				return nil, fmt.Errorf("panel %q: %w", panel.Title, err)
			}
			if n == 0 {
				without = append(without, panel.Title+": "+expr)
			}
		}
	}
	return without, nil
}

// Values evaluates expr (an instant vector) now and returns how many series
// have a value other than NaN.
func (p *Prometheus) Values(ctx context.Context, expr string) (int, error) {
	var answer struct {
		Data struct {
			Result []struct{ Value [2]any }
		}
	}
	body, err := p.get(ctx, "/api/v1/query?query="+url.QueryEscape(expr))
	if err != nil {
		return 0, fmt.Errorf("query %s: %w", expr, err)
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return 0, fmt.Errorf("query %s: parse answer: %w", expr, err)
	}
	values := 0
	for _, series := range answer.Data.Result {
		if series.Value[1] != "NaN" {
			values++
		}
	}
	return values, nil
}

// get returns the body of a 200; any other answer is an error with its words.
func (p *Prometheus) get(ctx context.Context, path string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url+path, nil)
	if err != nil {
		return nil, err
	}
	resp, err := p.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", resp.Status, body)
	}
	return body, nil
}

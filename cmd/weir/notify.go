package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/weirhq/weir/internal/notify"
)

// told are the flags of every command that tells others what happens.
type told struct {
	NotifyURL     []string `env:"WEIR_NOTIFY_URL" placeholder:"URL" help:"Addresses that get every notice as a signed webhook (Standard Webhooks)."`
	NotifySecret  []string `env:"WEIR_NOTIFY_SECRET" placeholder:"whsec_…" help:"Their secrets, in the same order; two with a space between them while one is being changed. Better in the environment."`
	SlackURL      []string `env:"WEIR_SLACK_URL" placeholder:"URL" help:"Incoming webhooks of Slack, or of a chat that takes the same. Secret: better in the environment."`
	PagerdutyKey  []string `env:"WEIR_PAGERDUTY_KEY" placeholder:"KEY" help:"Integration keys of PagerDuty's Events API v2. Better in the environment."`
	PagerdutyURL  string   `env:"WEIR_PAGERDUTY_URL" placeholder:"URL" help:"Where those events go. Default: PagerDuty; another takes the same."`
	NotifyPrivate bool     `env:"WEIR_NOTIFY_PRIVATE" help:"Allow http, any port and private addresses for all of these: receivers in your own network."`
}

// endpoints are the ones configured. An error says which variable is wrong, and
// nothing of what is in it.
func (c told) endpoints() ([]*notify.Endpoint, error) {
	if len(c.NotifySecret) != len(c.NotifyURL) {
		return nil, usagef("WEIR_NOTIFY_SECRET has %d secrets for %d addresses in WEIR_NOTIFY_URL: give one for each, in the same order "+
			"(two for one address are separated by a space)", len(c.NotifySecret), len(c.NotifyURL))
	}
	opts := notify.Options{Private: c.NotifyPrivate}
	var all []*notify.Endpoint
	add := func(variable string) func(*notify.Endpoint, error) error {
		return func(e *notify.Endpoint, err error) error {
			if err != nil {
				return usagef("%s: %s", variable, hint(err))
			}
			all = append(all, e)
			return nil
		}
	}
	for i, address := range c.NotifyURL {
		if err := add("WEIR_NOTIFY_URL")(notify.NewWebhook(address, strings.Fields(c.NotifySecret[i]), opts)); err != nil {
			return nil, err
		}
	}
	for _, address := range c.SlackURL {
		if err := add("WEIR_SLACK_URL")(notify.NewSlack(address, opts)); err != nil {
			return nil, err
		}
	}
	for _, key := range c.PagerdutyKey {
		if err := add("WEIR_PAGERDUTY_KEY")(notify.NewPagerDuty(c.PagerdutyURL, key, opts)); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// hint says how to allow what is refused.
func hint(err error) string {
	if errors.Is(err, notify.ErrPrivate) {
		return err.Error() + " (WEIR_NOTIFY_PRIVATE=true)"
	}
	return err.Error()
}

type notifyCmd struct {
	Test notifyTestCmd `cmd:"" help:"Send a test notice to every endpoint and show what came back."`
}

type notifyTestCmd struct {
	told
	JSON bool `help:"Print JSON."`
}

// Help shows an example.
func (notifyTestCmd) Help() string {
	return `  WEIR_SLACK_URL=https://hooks.slack.com/services/… weir notify test

Takes the variables and flags that serve takes, sends one test notice to each
endpoint, and fails unless all took it. An incident that it opens is resolved.`
}

// notifyResult is what came of a test, for scripts.
type notifyResult struct {
	Endpoint string `json:"endpoint"`
	Status   int    `json:"status,omitempty"`
	Millis   int64  `json:"ms"`
	Error    string `json:"error,omitempty"`
}

func (c notifyTestCmd) Run(ctx context.Context, s *session) error {
	endpoints, err := c.endpoints()
	if err != nil {
		return err
	}
	if len(endpoints) == 0 {
		return usagef("nobody is told yet: set WEIR_NOTIFY_URL and WEIR_NOTIFY_SECRET, WEIR_SLACK_URL or WEIR_PAGERDUTY_KEY, as for serve")
	}
	results := make([]notifyResult, len(endpoints))
	failed := false
	for i, e := range endpoints {
		start := time.Now()
		status, err := e.Test(ctx)
		results[i] = notifyResult{Endpoint: e.Name(), Status: status, Millis: time.Since(start).Milliseconds()}
		if err != nil {
			results[i].Error, failed = hint(err), true
		}
	}
	if err := c.print(s, results); err != nil {
		return err
	}
	if failed {
		return errSilent
	}
	return nil
}

func (c notifyTestCmd) print(s *session, results []notifyResult) error {
	if c.JSON {
		return printJSON(s.std.out, results)
	}
	t := newTable(s.std.out, "ENDPOINT", "STATUS", "TOOK", "ERROR")
	for _, r := range results {
		status := ""
		if r.Status != 0 {
			status = fmt.Sprint(r.Status)
		}
		t.row(r.Endpoint, status, fmt.Sprint(r.Millis, "ms"), r.Error)
	}
	return t.flush()
}

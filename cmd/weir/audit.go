package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/weirhq/weir/internal/store"
)

type auditCmd struct {
	Since past `placeholder:"TIME" help:"Only what was done since then: 24h ago, or a time with its zone. Default: ever."`
	JSON  bool `help:"Print JSON."`
}

// Help shows an example.
func (auditCmd) Help() string {
	return `  weir audit --since 24h
  weir audit --since 2026-12-01T09:00:00+01:00 --json

What is on record: replays with --force, unknown outcomes that were closed,
breakers that were held open or closed, databases that were confirmed, stops of
everything with their end, and opt-outs that were added, imported or taken back.`
}

// auditView is an entry for scripts: its fields are a promise.
type auditView struct {
	At      string          `json:"at"`
	Who     string          `json:"who"`
	What    string          `json:"what"`
	Subject string          `json:"subject"`
	Details json.RawMessage `json:"details"`
}

func (c auditCmd) Run(ctx context.Context, s *session) error {
	return s.with(ctx, func(db *database) error {
		entries, err := db.Audit(ctx, c.Since.Time)
		if err != nil {
			return err
		}
		if c.JSON {
			return printJSON(s.std.out, auditViews(entries))
		}
		t := newTable(s.std.out, "AT", "WHO", "WHAT", "SUBJECT", "DETAILS")
		for _, v := range auditViews(entries) {
			t.row(v.At, v.Who, v.What, v.Subject, string(v.Details))
		}
		return t.flush()
	})
}

func auditViews(entries []store.AuditEntry) []auditView {
	views := make([]auditView, len(entries))
	for i, e := range entries {
		views[i] = auditView{At: stamp(e.At), Who: e.Who, What: e.What, Subject: e.Subject, Details: e.Body}
	}
	return views
}

// past is an instant that an operator means by how long it is ago, or as it is.
type past struct{ time.Time }

// UnmarshalText reads 24h, or what moment reads.
func (p *past) UnmarshalText(text []byte) error {
	if ago, err := time.ParseDuration(string(text)); err == nil {
		p.Time = time.Now().Add(-ago.Abs())
		return nil
	}
	var at moment
	if at.UnmarshalText(text) != nil {
		return fmt.Errorf("%q is no time: write how long ago, for example 24h, or the day, the time and the zone, for example 2026-12-01T09:00:00+01:00", text)
	}
	p.Time = at.Time
	return nil
}

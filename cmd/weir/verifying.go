package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/weirhq/weir/engine"
	"github.com/weirhq/weir/internal/cloudapi"
	"github.com/weirhq/weir/internal/store"
)

// checkTargets finds misspelt places without asking Meta.
func checkTargets(params []engine.Param) error {
	if err := cloudapi.CheckParams(params); err != nil {
		return usagef("%v (give --param for each parameter of the template)", err)
	}
	return nil
}

// templateCheck holds a campaign against its template at Meta.
type templateCheck struct {
	client *cloudapi.Client
	store  *store.Store
	warn   io.Writer
	// spare leaves out parameters that the template does not take: columns that
	// merely happen to be in the file, and that nobody asked for.
	spare bool
}

// run returns the template with every place resolved. Every business account
// of the campaign's numbers must have it. An API that cannot be asked is a
// warning.
func (c templateCheck) run(ctx context.Context, spec store.CampaignSpec) (engine.Template, error) {
	resolved := spec.Template
	asked := map[string]bool{}
	for _, n := range spec.Numbers {
		number, err := c.store.FindNumber(ctx, n.ID)
		if err != nil {
			return resolved, err
		}
		if asked[number.WABA] {
			continue
		}
		asked[number.WABA] = true
		if resolved, err = c.one(ctx, number, resolved); err != nil {
			return resolved, err
		}
	}
	return resolved, nil
}

func (c templateCheck) one(ctx context.Context, n store.NumberInfo, t engine.Template) (engine.Template, error) {
	info, err := c.client.Template(ctx, cloudapi.TemplateRef{WABA: n.WABA, Number: n.ID, Name: t.Name, Language: t.Language})
	if errors.Is(err, cloudapi.ErrNoReads) {
		_, _ = fmt.Fprintf(c.warn, "warning: %v: the template was not checked\n", err)
		return t, checkTargets(t.Params)
	}
	if err != nil {
		return t, fmt.Errorf("%w (--no-verify skips this check)", err)
	}
	if c.spare {
		t = onlyTaken(info, t)
	}
	return cloudapi.CheckTemplate(info, t)
}

func onlyTaken(info cloudapi.TemplateInfo, t engine.Template) engine.Template {
	takes := func(target string) bool {
		parsed, err := cloudapi.ParseTarget(target)
		return err == nil && (slices.Contains(info.Needs, parsed) || slices.Contains(info.May, parsed)) ||
			strings.HasPrefix(target, "button.")
	}
	var kept []engine.Param
	for _, p := range t.Params {
		if takes(p.Target) {
			kept = append(kept, p)
		}
	}
	t.Params = kept
	return t
}

// verify fills in what Meta says of a number, and stops for what it could
// never send with.
func (c numberAddCmd) verify(ctx context.Context, s *session, db *database, n *store.NumberInfo) error {
	client, err := c.client(ctx, db.Store, s.log, nil)
	if err != nil {
		return err
	}
	defer client.Close()
	info, err := client.Number(ctx, c.ID)
	if errors.Is(err, cloudapi.ErrNoReads) {
		_, err = fmt.Fprintf(s.std.err, "warning: %v: the number was not checked\n", err)
		return err
	}
	if err != nil {
		return fmt.Errorf("%w (--no-verify skips this check)", err)
	}
	n.Display = info.Display
	if info.MPS > 0 {
		if c.Limit != nil && *c.Limit > float64(info.MPS) {
			return fmt.Errorf("number %s may send %d messages per second by Meta's word, not %.4g: leave --limit out, or lower it", c.ID, info.MPS, *c.Limit)
		}
		n.Limit = float64(info.MPS)
	}
	if info.Status != "" && info.Status != "CONNECTED" {
		return fmt.Errorf("number %s is %s at Meta, and cannot send until it is CONNECTED (--no-verify adds it all the same)", c.ID, info.Status)
	}
	if info.WebhookURL == "" {
		_, _ = fmt.Fprintln(s.std.err, "warning: Meta shows no webhook address for this number: without webhooks nothing gets beyond accepted")
	}
	if info.Quality == "RED" {
		_, _ = fmt.Fprintln(s.std.err, "warning: Meta rates this number's quality RED: its templates may be paused")
	}
	return nil
}

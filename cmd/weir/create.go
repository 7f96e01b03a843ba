package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weirhq/weir/engine"
	"github.com/weirhq/weir/internal/audience"
	"github.com/weirhq/weir/internal/store"
)

type campaignCreateCmd struct {
	graph
	fallbacks
	Name           string   `arg:"" help:"The campaign's name: its handle in every other command."`
	Template       string   `required:"" help:"Name of the approved template."`
	Language       string   `required:"" help:"The template's language code, for example en_US."`
	Number         []string `required:"" placeholder:"ID" help:"Numbers that send it (phone_number_id); they share its people."`
	CSV            string   `name:"csv" required:"" type:"existingfile" placeholder:"FILE" help:"The audience: a CSV with a header row."`
	PhoneColumn    string   `default:"phone" help:"Column with the phone numbers."`
	DefaultCountry string   `placeholder:"CC" help:"Country of numbers without a country code, for example BR."`
	Param          []string `sep:"none" placeholder:"PLACE=COLUMN" help:"Fill a template parameter from a column (body.1=first_name), or for everyone alike (header.image:=https://…). Without any, columns named like the parameters are used."`
	Category       string   `enum:",marketing,utility,authentication" default:"" help:"marketing, utility or authentication. Default: the template's."`
	Priority       int      `help:"Higher goes first on a shared number; equal ones take turns."`
	At             moment   `placeholder:"TIME" help:"Start then, as 2026-12-01T09:00:00+01:00."`
	ExpireAt       moment   `placeholder:"TIME" help:"Send nothing from then on."`
	Encoding       string   `placeholder:"NAME" help:"The file's encoding, for example windows-1250. Default: UTF-8, UTF-16 and Latin-1 are told apart."`
	Start          bool     `help:"Start once the file is in."`
	OnUnknown      string   `enum:"fail,resend,hold" default:"fail" help:"When nobody knows whether a message went out: fail (never twice), resend (at least once) or hold."`
	MaxAttempts    int      `default:"5" help:"Calls per recipient at most."`
	Retry          string   `enum:"full,decorrelated" default:"full" help:"How the waits between a recipient's attempts are drawn: full or decorrelated jitter. campaign policy shows what that means."`
	AbsentDays     int      `default:"30" placeholder:"DAYS" help:"Marketing: leave out whom a message of any campaign did not reach in this many days because they are not on WhatsApp (131026). 0: nobody."`
	Cap            limit    `placeholder:"N/DAYS" help:"Marketing: leave out who has had N marketing messages of any campaign in so many days, as 2/7. Default: no cap."`
	NoVerify       bool     `help:"Do not ask Meta about the template."`
	windowFlags
}

// Help shows an example.
func (campaignCreateCmd) Help() string {
	return `  weir campaign create spring --template order_update --language en_US --number 106540352242922 \
       --csv people.csv --default-country BR --param body.1=first_name --param body.2=order_no

Prints the campaign's id alone. Rejected rows go to FILE.rejected.csv, with reasons.
An import that was cut short goes on when the same command is given again.`
}

func (c campaignCreateCmd) Run(ctx context.Context, s *session) error {
	_, windowErr := c.read()
	if err := errors.Join(c.At.ahead("--at"), c.ExpireAt.ahead("--expire-at"), c.fallbacks.check(c.Number), windowErr); err != nil {
		return err
	}
	columns, params, err := c.bind()
	if err != nil {
		return err
	}
	return s.with(ctx, func(db *database) error {
		spec, err := c.spec(ctx, s, db, params)
		if err != nil {
			return err
		}
		if spec.Columns, spec.Template.Params, err = usedColumns(columns, spec.Template.Params); err != nil {
			return err
		}
		printBindings(s.std.err, spec)
		c.printWindow(s.std.err, spec.Window)
		campaign, err := createOrResume(ctx, db.Store, spec)
		if err != nil {
			return err
		}
		if campaign, err = c.importFile(ctx, s, db, campaign); err != nil {
			return err
		}
		if _, err := fmt.Fprintln(s.std.out, campaign.ID); err != nil {
			return err
		}
		if campaign.Import.Accepted == 0 {
			return fmt.Errorf("campaign %s has no recipients: every row was rejected; mend the file, weir campaign drop %s and create it anew", campaign.Name, shellWord(campaign.Name))
		}
		if c.Start || !c.At.IsZero() {
			return s.start(ctx, db, campaign, c.At.IsZero())
		}
		return nil
	})
}

// spec is the campaign as asked for, checked against the template at Meta.
func (c campaignCreateCmd) spec(ctx context.Context, s *session, db *database, params []engine.Param) (store.CampaignSpec, error) {
	spec := store.CampaignSpec{
		Name: c.Name, Priority: c.Priority, StartAt: c.At.Time, ExpireAt: c.ExpireAt.Time,
		OnUnknown: engine.OnUnknown(c.OnUnknown), Retry: engine.Retry{MaxAttempts: c.MaxAttempts, Jitter: engine.Jitter(c.Retry)},
		Template:   engine.Template{Name: c.Template, Language: c.Language, Category: engine.Category(c.Category), Params: params},
		AbsentDays: c.AbsentDays, Cap: c.Cap.Messages, CapDays: c.Cap.Days,
	}
	for _, id := range c.Number {
		spec.Numbers = append(spec.Numbers, store.CampaignNumber{ID: id})
	}
	c.fallbacks.join(&spec)
	if c.NoVerify {
		var err error
		spec.Window, err = c.of(cmp.Or(spec.Template.Category, engine.Marketing))
		return spec, errors.Join(checkTargets(params), err)
	}
	client, err := c.client(ctx, db.Store, s.log, nil)
	if err != nil {
		return spec, err
	}
	defer client.Close()
	check := templateCheck{client: client, store: db.Store, warn: s.std.err, spare: len(c.Param) == 0}
	if spec.Template, err = check.run(ctx, spec); err != nil {
		return spec, err
	}
	spec.Window, err = c.of(spec.Template.Category)
	return spec, err
}

// printBindings says which parameter will be filled from where: the moment to
// notice that the wrong column is meant.
func printBindings(w io.Writer, spec store.CampaignSpec) {
	var bindings []string
	for _, p := range spec.Template.Params {
		from := fmt.Sprintf("%q for everyone", p.Literal)
		if p.Column >= 0 {
			from = "column " + spec.Columns[p.Column]
		}
		bindings = append(bindings, p.Target+" = "+from)
	}
	if bindings == nil {
		bindings = []string{"no parameters"}
	}
	_, _ = fmt.Fprintf(w, "template %s/%s: %s\n", spec.Template.Name, spec.Template.Language, strings.Join(bindings, ", "))
}

// createOrResume makes the campaign, or finds the one of this name whose
// import was cut short.
func createOrResume(ctx context.Context, s *store.Store, spec store.CampaignSpec) (store.Campaign, error) {
	_, err := s.CreateCampaign(ctx, spec)
	if err != nil && !errors.Is(err, store.ErrExists) {
		return store.Campaign{}, err
	}
	campaign, findErr := s.FindCampaign(ctx, spec.Name)
	switch {
	case findErr != nil:
		return store.Campaign{}, findErr
	case err != nil && (campaign.State != store.Importing || campaign.Reason != ""):
		return store.Campaign{}, err
	case err != nil:
		if other := differs(campaign.CampaignSpec, spec); other != "" {
			return store.Campaign{}, usagef("campaign %s is half imported with another %s: give the command as it was, or drop it with weir campaign drop %[1]s", spec.Name, other)
		}
	}
	return campaign, nil
}

// differs names what two askings for one campaign do not have in common, "" if
// nothing. An import goes on only for exactly the campaign it was begun for.
func differs(was, is store.CampaignSpec) string {
	was.OnUnknown, is.OnUnknown = cmp.Or(was.OnUnknown, engine.UnknownFails), cmp.Or(is.OnUnknown, engine.UnknownFails)
	is.Template.Category = cmp.Or(is.Template.Category, engine.Marketing)
	for _, c := range []struct {
		what string
		same bool
	}{
		{"template", was.Template.Name == is.Template.Name && was.Template.Language == is.Template.Language},
		{"category", was.Template.Category == is.Template.Category},
		{"--param", slices.Equal(was.Template.Params, is.Template.Params) && slices.Equal(was.Columns, is.Columns)},
		{"--number", slices.Equal(senders(was, false), senders(is, false))},
		{"--fallback-number", slices.Equal(senders(was, true), senders(is, true))},
		{"--fallback-wait", cmp.Or(was.Fallback.Wait, store.FallbackWait) == cmp.Or(is.Fallback.Wait, store.FallbackWait)},
		{"--fallback-after", was.Fallback.After == is.Fallback.After},
		{"--priority", was.Priority == is.Priority},
		{"--at", was.StartAt.Truncate(time.Microsecond).Equal(is.StartAt.Truncate(time.Microsecond))},
		{"--expire-at", was.ExpireAt.Truncate(time.Microsecond).Equal(is.ExpireAt.Truncate(time.Microsecond))},
		{"--on-unknown", was.OnUnknown == is.OnUnknown},
		{"--max-attempts", was.MaxAttempts == is.MaxAttempts},
		{"--retry", was.Jitter == is.Jitter},
		{"--absent-days", was.AbsentDays == is.AbsentDays},
		{"--window, --days, --tz or --holidays", reflect.DeepEqual(was.Window, is.Window)},
		{"--cap", was.Cap == is.Cap && was.CapDays == is.CapDays},
	} {
		if !c.same {
			return c.what
		}
	}
	return ""
}

// bind reads the header and says which template parameter comes from where:
// Column is an index into the returned columns.
func (c campaignCreateCmd) bind() (columns []string, params []engine.Param, err error) {
	file, err := os.Open(c.CSV)
	if err != nil {
		return nil, nil, fmt.Errorf("open audience: %w", err)
	}
	defer file.Close()
	head, err := audience.Open(file, audience.Options{
		PhoneColumn: c.PhoneColumn, DefaultCountry: c.DefaultCountry, Encoding: c.Encoding,
		Zones: audience.ZoneSource{Column: c.column()},
	})
	if err != nil {
		return nil, nil, fmt.Errorf("read %s: %w", c.CSV, err)
	}
	columns = head.Columns()
	if len(c.Param) == 0 {
		return columns, paramsByName(columns, c.PhoneColumn, c.column()), nil
	}
	for _, text := range c.Param {
		p, err := parseParam(text, columns)
		if err != nil {
			return nil, nil, err
		}
		params = append(params, p)
	}
	return columns, params, nil
}

// parseParam reads PLACE=COLUMN or PLACE:=VALUE.
func parseParam(text string, columns []string) (engine.Param, error) {
	place, value, ok := strings.Cut(text, "=")
	switch {
	case !ok || place == "" || value == "":
		return engine.Param{}, usagef("--param %s: want PLACE=COLUMN, for example body.1=first_name, or PLACE:=VALUE for one value for everyone", text)
	case strings.HasSuffix(place, ":"):
		return engine.Param{Target: strings.TrimSuffix(place, ":"), Column: -1, Literal: value}, nil
	}
	i := slices.IndexFunc(columns, func(name string) bool { return strings.EqualFold(name, value) })
	if i < 0 {
		return engine.Param{}, usagef("--param %s: the file has no column %q; it has %s (one value for everyone is written %s:=%s)",
			text, value, strings.Join(columns, ", "), place, value)
	}
	return engine.Param{Target: place, Column: i}, nil
}

// paramsByName takes every column but the phone's and the time zone's for the body parameter of its
// name or number, and columns named like a place for that place. What the
// template does not have is left out later, if Meta can be asked.
func paramsByName(columns []string, phone, zone string) (params []engine.Param) {
	for i, name := range columns {
		if strings.EqualFold(name, phone) || strings.EqualFold(name, zone) {
			continue
		}
		target := name
		if !strings.Contains(name, ".") {
			target = "body." + name
		}
		if n, err := strconv.Atoi(name); err == nil {
			target = fmt.Sprintf("body.%d", n)
		}
		params = append(params, engine.Param{Target: target, Column: i})
	}
	return params
}

// usedColumns keeps the columns that a parameter takes, once each, and
// renumbers the parameters.
func usedColumns(columns []string, params []engine.Param) ([]string, []engine.Param, error) {
	var used []string
	out := slices.Clone(params)
	for i, p := range out {
		if p.Column < 0 {
			continue
		}
		if p.Column >= len(columns) {
			return nil, nil, fmt.Errorf("parameter %s takes column %d of %d", p.Target, p.Column+1, len(columns))
		}
		name := columns[p.Column]
		if out[i].Column = slices.Index(used, name); out[i].Column < 0 {
			used = append(used, name)
			out[i].Column = len(used) - 1
		}
	}
	return used, out, nil
}

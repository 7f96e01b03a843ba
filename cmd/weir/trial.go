package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/weirhq/weir/engine"
	"github.com/weirhq/weir/internal/audience"
)

type campaignTestCmd struct {
	graph
	Name   string `arg:"" help:"Name or id of the campaign."`
	To     string `required:"" placeholder:"PHONE" help:"Your own phone, in international form."`
	Row    int64  `placeholder:"LINE" help:"Line of the file whose values to use. Default: the first recipient's."`
	Number string `placeholder:"ID" help:"Number to send from. Default: the campaign's first."`
}

// Help shows an example.
func (campaignTestCmd) Help() string {
	return `  weir campaign test spring --to +14155550123

One real message with a recipient's values. It is no recipient of the campaign,
and changes nothing of it.`
}

func (c campaignTestCmd) Run(ctx context.Context, s *session) error {
	to, err := audience.ParsePhone(c.To, "")
	if err != nil {
		return usagef("--to: %v", err)
	}
	return s.with(ctx, func(db *database) error {
		campaign, err := db.FindCampaign(ctx, c.Name)
		if err != nil {
			return err
		}
		if stop, err := db.Stopped(ctx); err != nil || stop.Stands() {
			return cmp.Or(err, errors.New("not sent: everything is stopped "+sinceWords(stop)+"; weir go lets it go on"))
		}
		values, err := db.SampleValues(ctx, campaign.ID, c.Row)
		if err != nil {
			return err
		}
		client, err := c.client(ctx, db.Store, s.log, nil)
		if err != nil {
			return err
		}
		defer client.Close()
		number := c.Number
		if number == "" {
			number = campaign.Numbers[0].ID
		}
		sender, err := newSieve(client)
		if err != nil {
			return err
		}
		answer := sender.Send(ctx, engine.Message{Number: number, To: to, Template: &campaign.Template, Values: values})
		return printAnswer(s.std.err, answer)
	})
}

func printAnswer(w io.Writer, a engine.Answer) error {
	switch {
	case a.Action == engine.Accept && a.Held:
		_, err := fmt.Fprintln(w, "accepted, and held by Meta for quality assessment: it may arrive later, or not")
		return err
	case a.Action == engine.Accept:
		_, err := fmt.Fprintln(w, "accepted: look at your phone")
		return err
	case a.Action == engine.Reconcile:
		return fmt.Errorf("nobody knows whether it went out (%s): look at your phone before you try again", a.Title)
	default:
		return fmt.Errorf("not sent: %s", inWords(a.Code, a.Title, a.Advice))
	}
}

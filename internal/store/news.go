package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weirhq/weir/engine"
	"github.com/weirhq/weir/internal/store/db"
)

// TemplateSaid is the platform's last word on a campaign's template, by webhook;
// zero when there was none.
type TemplateSaid struct {
	Word string // as PAUSED
	Go   bool   // it may be sent
	At   time.Time
}

// hear acts on what events say, in as many round trips for thousands of words as
// for one. Said twice, or late, each changes nothing.
func (s *Store) hear(ctx context.Context, events []engine.Event) error {
	persons := &db.SparePersonsParams{}
	var rest []engine.News
	for _, e := range events {
		for _, n := range e.News {
			switch {
			case n.About == engine.AboutPerson:
				addPreference(persons, n)
			case n.About == engine.AboutAccount && n.Bears == engine.BearsNothing:
			default:
				rest = append(rest, n)
			}
		}
	}
	for _, round := range foldNews(rest) {
		if err := s.hearRound(ctx, round); err != nil {
			return fmt.Errorf("hear the platform's news: %w", refusedData(err))
		}
	}
	return s.sparePersons(ctx, persons)
}

// hearRound takes at most one word a subject.
func (s *Store) hearRound(ctx context.Context, round []engine.News) error {
	if err := s.hearAccounts(ctx, about(engine.AboutAccount, round)); err != nil {
		return err
	}
	if err := s.hearTemplates(ctx, about(engine.AboutTemplate, round)); err != nil {
		return err
	}
	if err := s.hearNumbers(ctx, about(engine.AboutNumber, round)); err != nil {
		return err
	}
	return s.hearLimits(ctx, about(engine.AboutLimit, round))
}

// hearTemplates stops what sends a template that may not be sent. It does not go
// on by itself when it may be again: hours have passed, and a pause was people's
// answer to this very message, so whether to send more of it is the operator's
// to say.
func (s *Store) hearTemplates(ctx context.Context, news []engine.News) error {
	if len(news) == 0 {
		return nil
	}
	p := &db.HearTemplatesParams{}
	for i, n := range news {
		p.Keys = append(p.Keys, int32(i))
		p.Accounts = append(p.Accounts, n.Account)
		p.Names = append(p.Names, n.Template)
		p.Languages = append(p.Languages, n.Language)
		p.Words = append(p.Words, clean(n.Word))
		p.Bears = append(p.Bears, n.Bears.String())
		p.Reasons = append(p.Reasons, reason(order(n)))
		p.AtMs = append(p.AtMs, millis(n.At))
	}
	var rows []db.HearTemplatesRow
	err := again(func() (err error) {
		rows, err = s.q.HearTemplates(ctx, s.pool, p)
		return err
	})
	for _, row := range rows {
		r := order(news[row.Key])
		r.Kind, r.Scope, r.Campaign, r.Number = engine.HaltCampaign, engine.ScopeTemplate, row.CampaignID, row.NumberID
		err = errors.Join(err, again(func() error { return s.Restrain(ctx, r) }))
	}
	return err
}

func (s *Store) hearAccounts(ctx context.Context, news []engine.News) error {
	if len(news) == 0 {
		return nil
	}
	p := &db.HearAccountsParams{}
	for i, n := range news {
		p.Keys = append(p.Keys, int32(i))
		p.Accounts = append(p.Accounts, n.Account)
		p.Words = append(p.Words, clean(n.Word))
		p.Bears = append(p.Bears, n.Bears.String())
		p.Reasons = append(p.Reasons, reason(order(n)))
		p.AtMs = append(p.AtMs, millis(n.At))
	}
	var rows []db.HearAccountsRow
	err := again(func() (err error) {
		rows, err = s.q.HearAccounts(ctx, s.pool, p)
		return err
	})
	for _, row := range rows {
		r := order(news[row.Key])
		r.Kind, r.Scope, r.Number = engine.HaltNumber, engine.ScopeWABA, row.NumberID
		err = errors.Join(err, again(func() error { return s.Restrain(ctx, r) }))
	}
	return err
}

func (s *Store) hearNumbers(ctx context.Context, news []engine.News) error {
	if len(news) == 0 {
		return nil
	}
	p := &db.HearNumbersParams{}
	for _, n := range news {
		p.Accounts = append(p.Accounts, n.Account)
		p.Phones = append(p.Phones, n.Phone)
		p.Words = append(p.Words, clean(n.Word))
		p.Bears = append(p.Bears, n.Bears.String())
		p.Reasons = append(p.Reasons, clean(n.Reason))
		p.Advices = append(p.Advices, clean(n.Advice))
		p.AtMs = append(p.AtMs, millis(n.At))
	}
	return again(func() error { return s.q.HearNumbers(ctx, s.pool, p) })
}

func (s *Store) hearLimits(ctx context.Context, news []engine.News) error {
	if len(news) == 0 {
		return nil
	}
	p := &db.HearLimitsParams{}
	for _, n := range news {
		p.Accounts = append(p.Accounts, n.Account)
		p.Limits = append(p.Limits, n.Limit)
		p.AtMs = append(p.AtMs, millis(n.At))
	}
	return again(func() error { return s.q.HearLimits(ctx, s.pool, p) })
}

// order is the restraint that news asks for, but for what it is of.
func order(n engine.News) engine.Restraint {
	return engine.Restraint{Reason: n.Reason, Advice: n.Advice, Told: n.Said()}
}

// addPreference adds what a person said of the account's marketing.
func addPreference(p *db.SparePersonsParams, n engine.News) {
	for _, phone := range phones(n.Phone) {
		addSpared(p, spared{phone: phone, spare: n.Spare, at: n.At})
		p.Accounts[len(p.Accounts)-1], p.Reasons[len(p.Reasons)-1] = clean(n.Account), preferences[n.Spare]
	}
}

var preferences = map[engine.Spare]string{
	engine.SpareForGood: "stopped marketing in WhatsApp", engine.SpareNoLonger: "resumed marketing in WhatsApp",
}

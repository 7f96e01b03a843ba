package store

import (
	"context"
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

// hear acts on what events say, one after another: they are few. Said twice, or
// late, each changes nothing.
func (s *Store) hear(ctx context.Context, events []engine.Event) error {
	persons := &db.SparePersonsParams{}
	for _, e := range events {
		for _, n := range e.News {
			if n.About == engine.AboutPerson {
				addPreference(persons, n)
				continue
			}
			if err := again(func() error { return s.hearNews(ctx, n) }); err != nil {
				return fmt.Errorf("hear the platform's news: %w", refusedData(err))
			}
		}
	}
	return s.sparePersons(ctx, persons)
}

func (s *Store) hearNews(ctx context.Context, n engine.News) error {
	switch n.About {
	case engine.AboutTemplate:
		return s.hearTemplate(ctx, n)
	case engine.AboutAccount:
		return s.hearAccount(ctx, n)
	case engine.AboutNumber:
		return s.q.HearNumber(ctx, s.pool, &db.HearNumberParams{
			Account: n.Account, Phone: n.Phone, Word: clean(n.Word), Bears: n.Bears.String(),
			Reason: clean(n.Reason), Advice: clean(n.Advice), At: instant(n.At),
		})
	case engine.AboutLimit:
		return s.q.HearLimit(ctx, s.pool, &db.HearLimitParams{Account: n.Account, DailyLimit: n.Limit, At: instant(n.At)})
	default:
		return nil
	}
}

// hearTemplate stops what sends a template that may not be sent. It does not go
// on by itself when it may be again: hours have passed, and a pause was people's
// answer to this very message, so whether to send more of it is the operator's
// to say.
func (s *Store) hearTemplate(ctx context.Context, n engine.News) error {
	rows, err := s.q.HearTemplate(ctx, s.pool, &db.HearTemplateParams{
		Account: n.Account, Name: clean(n.Template), Language: clean(n.Language), Word: clean(n.Word),
		Bears: n.Bears.String(), Reason: reason(order(n)), At: instant(n.At),
	})
	if err != nil || len(rows) == 0 {
		return err
	}
	r := order(n)
	r.Kind, r.Scope, r.Campaign, r.Number = engine.HaltCampaign, engine.ScopeTemplate, rows[0].CampaignID, rows[0].NumberID
	return s.Restrain(ctx, r)
}

func (s *Store) hearAccount(ctx context.Context, n engine.News) error {
	if n.Bears == engine.BearsNothing {
		return nil
	}
	numbers, err := s.q.HearAccount(ctx, s.pool, &db.HearAccountParams{
		Account: n.Account, Word: clean(n.Word), Bears: n.Bears.String(), Reason: reason(order(n)), At: instant(n.At),
	})
	if err != nil || len(numbers) == 0 {
		return err
	}
	r := order(n)
	r.Kind, r.Scope, r.Number = engine.HaltNumber, engine.ScopeWABA, numbers[0]
	return s.Restrain(ctx, r)
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

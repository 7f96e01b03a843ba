package main

import (
	"context"
	"slices"

	"github.com/weirhq/weir/engine"
	"github.com/weirhq/weir/internal/audience"
	"github.com/weirhq/weir/internal/cloudapi"
	"github.com/weirhq/weir/internal/store"
)

// sieve keeps back what Meta would take and never deliver. The import has
// refused such rows already, those that came in by another way excepted.
type sieve struct {
	engine.Sender
	countries *audience.Countries
}

func newSieve(s engine.Sender) (*sieve, error) {
	countries, err := audience.NewCountries()
	if err != nil {
		return nil, err
	}
	return &sieve{s, countries}, nil
}

// Send implements engine.Sender.
func (s *sieve) Send(ctx context.Context, m engine.Message) engine.Answer {
	if s.unserved(m.Template.Category, m.To) {
		return engine.Answer{Action: engine.Fail, Local: true, Title: engine.ReasonUnserved}
	}
	return s.Sender.Send(ctx, m)
}

// unserved reports whether nothing of a category arrives at a phone.
func (s *sieve) unserved(c engine.Category, phone string) bool {
	nowhere := cloudapi.Undelivered(c)
	return len(nowhere) > 0 && slices.Contains(nowhere, s.countries.Of(phone))
}

// ownPhones are the phone numbers of a campaign's senders, as far as they are
// known: nobody writes to himself, and Meta refuses it (131021).
func ownPhones(ctx context.Context, db *store.Store, c store.Campaign) ([]string, error) {
	var own []string
	for _, n := range c.Numbers {
		info, err := db.FindNumber(ctx, n.ID)
		if err != nil {
			return nil, err
		}
		if phone, err := audience.ParsePhone(info.Display, ""); err == nil {
			own = append(own, phone)
		}
	}
	return own, nil
}

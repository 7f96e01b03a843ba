package store

import (
	"context"

	"github.com/weirhq/weir/engine"
	"github.com/weirhq/weir/internal/store/db"
)

// Scopes of a suppression that no number or account narrows.
const (
	ScopeAll       = "all"
	ScopeMarketing = "marketing"
)

// grantWishes writes what persons asked for in their messages, in every way in which
// their phone may stand in a file.
func (s *Store) grantWishes(ctx context.Context, events []engine.Event) error {
	p := &db.HeedWishesParams{}
	for _, e := range events {
		scopes, stop := asked(e.Wish)
		for _, scope := range scopes {
			for _, phone := range phones(e.From) {
				p.Phones = append(p.Phones, phone)
				p.Numbers = append(p.Numbers, clean(e.Number))
				p.Scopes = append(p.Scopes, scope)
				p.Stops = append(p.Stops, stop)
				p.AtMs = append(p.AtMs, millis(e.At))
			}
		}
	}
	if len(p.Phones) == 0 {
		return nil
	}
	return wrap("grant wishes", refusedData(again(func() error { return s.q.HeedWishes(ctx, s.pool, p) })))
}

func asked(w engine.Wish) (scopes []string, stop bool) {
	switch w {
	case engine.WishStop:
		return []string{ScopeMarketing}, true
	case engine.WishStopAll:
		return []string{ScopeAll}, true
	case engine.WishStart:
		return []string{ScopeMarketing, ScopeAll}, false
	default:
		return nil, false
	}
}

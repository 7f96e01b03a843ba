package store

import (
	"cmp"
	"slices"

	"github.com/weirhq/weir/engine"
)

// subject is what a piece of news is about: of two words about it, one stands.
type subject struct {
	about                              engine.About
	account, template, language, phone string
}

func subjectOf(n engine.News) subject {
	s := subject{about: n.About, account: n.Account}
	switch n.About {
	case engine.AboutTemplate:
		s.template, s.language = n.Template, n.Language
	case engine.AboutNumber:
		s.phone = n.Phone
	}
	return s
}

// foldNews reduces news to the last word of each bearing about each subject, and
// sets them in rounds of at most one word a subject, the earlier first. One body
// may hold thousands about one template, and there are four bearings. An earlier
// stop is not left out for the sake of a later word: it stops, and what may be
// sent again is for the operator to let go on.
func foldNews(all []engine.News) [][]engine.News {
	type key struct {
		subject
		bears engine.Bearing
	}
	at := make(map[key]int, len(all))
	var last []engine.News
	for _, n := range all {
		n.Account, n.Template, n.Language, n.Phone = clean(n.Account), clean(n.Template), clean(n.Language), clean(n.Phone)
		k := key{subjectOf(n), n.Bears}
		if i, ok := at[k]; !ok {
			at[k] = len(last)
			last = append(last, n)
		} else if compareNews(n, last[i]) > 0 {
			last[i] = n
		}
	}
	slices.SortStableFunc(last, func(a, b engine.News) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(forbids[b.Bears], forbids[a.Bears]))
	})
	said := make(map[subject]int, len(last))
	var rounds [][]engine.News
	for _, n := range last {
		s := subjectOf(n)
		nth := said[s]
		said[s]++
		if nth == len(rounds) {
			rounds = append(rounds, nil)
		}
		rounds[nth] = append(rounds[nth], n)
	}
	return rounds
}

// compareNews orders words of one bearing about one subject: the later is the
// greater, and of two limits of one second the lower.
func compareNews(a, b engine.News) int {
	return cmp.Or(a.At.Compare(b.At), cmp.Compare(b.Limit, a.Limit))
}

// forbids ranks bearings: of one second, what forbids more comes first, and
// stands against what comes after it.
var forbids = [...]int{engine.BearsWarning: 1, engine.BearsStop: 2, engine.BearsGo: 0}

// about is those of a round that are about one kind of subject.
func about(what engine.About, round []engine.News) (some []engine.News) {
	for _, n := range round {
		if n.About == what {
			some = append(some, n)
		}
	}
	return some
}

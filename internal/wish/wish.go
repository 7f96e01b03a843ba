// Package wish hides how people say in a chat that they want no more of it, or
// want it again: a table of words in many languages, and how a text is held
// against it.
//
// It promises that the same word is found in any case, with or without accents,
// with punctuation, emoji, spaces and polite words around it, in any Unicode
// form; and that a text which says anything else besides is no wish. It never
// guesses, never looks at more than a short text, and keeps nothing of it.
package wish

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/weirhq/weir/engine"
)

// Options make a table; the zero value is the built-in one.
type Options struct {
	Stop, Start []string // words or short phrases to add
	NoDefaults  bool     // none but those
	StopAll     bool     // a stop is of all messages, not of marketing alone
}

// Table says what a text asks for. It is safe for concurrent use.
type Table struct {
	wishes map[string]engine.Wish // by folded words
	polite map[string]bool
}

// New makes a table. It fails on a word that holds no letter, is longer than
// any text that is looked at, or stands for both wishes.
func New(o Options) (*Table, error) {
	t := &Table{wishes: map[string]engine.Wish{}, polite: map[string]bool{}}
	stop := engine.WishStop
	if o.StopAll {
		stop = engine.WishStopAll
	}
	if !o.NoDefaults {
		o.Stop, o.Start = append(slices.Clone(o.Stop), stopWords...), append(slices.Clone(o.Start), startWords...)
	}
	for _, list := range []struct {
		words []string
		wish  engine.Wish
	}{{o.Stop, stop}, {o.Start, engine.WishStart}} {
		for _, word := range list.words {
			if err := t.add(word, list.wish); err != nil {
				return nil, err
			}
		}
	}
	for _, word := range politeWords {
		t.polite[strings.Join(fold(word), " ")] = true
	}
	return t, nil
}

func (t *Table) add(word string, wish engine.Wish) error {
	key := strings.Join(fold(word), " ")
	switch was, ok := t.wishes[key]; {
	case len(word) > longest:
		return fmt.Errorf("the word %q is longer than %d bytes", word, longest)
	case key == "":
		return fmt.Errorf("the word %q has no letter in it", word)
	case ok && was != wish:
		return fmt.Errorf("the word %q stands for stopping and for starting: leave one out (--no-default-words leaves out ours)", word)
	}
	t.wishes[key] = wish
	return nil
}

// Read is what a message with these texts asks for: the text of a message, or
// the payload and the label of a button. A stop among them beats a start.
func (t *Table) Read(texts ...string) engine.Wish {
	found := engine.WishNothing
	for _, text := range texts {
		switch w := t.one(text); {
		case w == engine.WishStop || w == engine.WishStopAll:
			return w
		case w != engine.WishNothing:
			found = w
		}
	}
	return found
}

func (t *Table) one(text string) engine.Wish {
	if len(text) > longest {
		return engine.WishNothing
	}
	words := fold(text)
	for {
		if w, ok := t.wishes[strings.Join(words, " ")]; ok || len(words) == 0 {
			return w
		}
		rest := t.plain(words)
		if len(rest) == len(words) {
			return engine.WishNothing
		}
		words = rest
	}
}

// plain takes one polite phrase, of up to three words, off an end.
func (t *Table) plain(words []string) []string {
	for n := min(3, len(words)); n > 0; n-- {
		if t.polite[strings.Join(words[len(words)-n:], " ")] {
			return words[:len(words)-n]
		}
		if t.polite[strings.Join(words[:n], " ")] {
			return words[n:]
		}
	}
	return words
}

// Words lists the table, folded and in order: what stops, and what starts.
func (t *Table) Words() (stop, start []string) {
	for _, key := range slices.Sorted(maps.Keys(t.wishes)) {
		if t.wishes[key] == engine.WishStart {
			start = append(start, key)
		} else {
			stop = append(stop, key)
		}
	}
	return stop, start
}

package main

import (
	"fmt"

	"github.com/weirhq/weir/internal/wish"
)

// words are the flags that say by which words persons opt out.
type words struct {
	StopWords      []string `env:"WEIR_STOP_WORDS" placeholder:"WORD,…" help:"More words by which a message, or the button of a template, opts a person out; case, accents and punctuation do not matter."`
	StartWords     []string `env:"WEIR_START_WORDS" placeholder:"WORD,…" help:"More words that take such an opt-out back."`
	NoDefaultWords bool     `env:"WEIR_NO_DEFAULT_WORDS" help:"Only those words, not ours: weir suppress words lists them."`
	StopScope      string   `env:"WEIR_STOP_SCOPE" enum:"marketing,all" default:"marketing" help:"What such a word stops: marketing, or all messages."`
}

func (w words) table() (*wish.Table, error) {
	t, err := wish.New(wish.Options{Stop: w.StopWords, Start: w.StartWords, NoDefaults: w.NoDefaultWords, StopAll: w.StopScope == "all"})
	if err != nil {
		return nil, usagef("WEIR_STOP_WORDS, WEIR_START_WORDS: %v", err)
	}
	return t, nil
}

type suppressWordsCmd struct {
	words
	Text []string `arg:"" optional:"" help:"Say what these texts ask for, instead of listing the words."`
	JSON bool     `help:"Print JSON."`
}

// Help shows an example.
func (suppressWordsCmd) Help() string {
	return `  weir suppress words
  weir suppress words "Stop, please!" "bus stop"

A message opts a person out when it is nothing but such a word: case, accents,
punctuation, emoji and polite words around it do not matter. So does a template's
quick-reply button whose label or payload is one. Give it the WEIR_STOP_WORDS and
WEIR_START_WORDS of your nodes.`
}

func (c suppressWordsCmd) Run(s *session) error {
	table, err := c.table()
	if err != nil {
		return err
	}
	if len(c.Text) > 0 {
		return c.try(s, table)
	}
	stop, start := table.Words()
	if c.JSON {
		return printJSON(s.std.out, map[string][]string{"stop": append([]string{}, stop...), "start": append([]string{}, start...)})
	}
	t := newTable(s.std.out, "ASKS", "WORD")
	for _, word := range stop {
		t.row("stop", word)
	}
	for _, word := range start {
		t.row("start", word)
	}
	return t.flush()
}

// try says what texts ask for.
func (c suppressWordsCmd) try(s *session, table *wish.Table) error {
	type tried struct {
		Text string `json:"text"`
		Asks string `json:"asks"`
	}
	var all []tried
	for _, text := range c.Text {
		all = append(all, tried{text, table.Read(text).String()})
	}
	if c.JSON {
		return printJSON(s.std.out, all)
	}
	t := newTable(s.std.out, "ASKS", "TEXT")
	for _, one := range all {
		t.row(one.Asks, fmt.Sprintf("%q", one.Text))
	}
	return t.flush()
}

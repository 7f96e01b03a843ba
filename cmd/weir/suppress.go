package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/weirhq/weir/internal/audience"
	"github.com/weirhq/weir/internal/store"
)

type suppressCmd struct {
	Add    suppressAddCmd    `cmd:"" help:"Put a person on the list of whom nothing is sent to."`
	Remove suppressRemoveCmd `cmd:"" help:"Take a person off the list."`
	Import suppressImportCmd `cmd:"" help:"Put everybody of a CSV file on the list."`
	List   suppressListCmd   `cmd:"" help:"Show who is on the list."`
	Words  suppressWordsCmd  `cmd:"" help:"Show by which words persons opt out, or what a text asks for."`
}

// suppressOrder are the flags of what puts people on the list.
type suppressOrder struct {
	Scope          string `default:"all" placeholder:"SCOPE" help:"What is not sent to them: all, marketing, utility, authentication, or whatever number:ID or waba:ID sends."`
	Reason         string `placeholder:"TEXT" help:"Why, for people; it shows in weir explain."`
	Until          moment `placeholder:"TIME" help:"Until then, as 2026-12-01T09:00:00+01:00. Default: for good."`
	DefaultCountry string `placeholder:"CC" help:"Country of phones without a country code, for example BR."`
}

func (o suppressOrder) order() (store.SuppressionOrder, error) {
	if !o.Until.IsZero() && !o.Until.After(time.Now()) {
		return store.SuppressionOrder{}, usagef("--until %s has passed: give a time to come, or leave it out", stamp(o.Until.Time))
	}
	return store.SuppressionOrder{Scope: o.Scope, Reason: o.Reason, Until: o.Until.Time, Who: who()}, nil
}

type suppressAddCmd struct {
	Phone string `arg:"" help:"The person's phone, in international form."`
	suppressOrder
}

// Help shows an example.
func (suppressAddCmd) Help() string {
	return `  weir suppress add +4915112345678 --scope marketing --reason "called us"

It holds from the next claim on, in campaigns that are running too; what a node
holds already, at most two seconds of work, may still go out.`
}

func (c suppressAddCmd) Run(ctx context.Context, s *session) error {
	phone, err := audience.ParsePhone(c.Phone, c.DefaultCountry)
	if err != nil {
		return usagef("%v", err)
	}
	order, err := c.order()
	if err != nil {
		return err
	}
	return s.with(ctx, func(db *database) error {
		added, err := db.Suppress(ctx, phone, order)
		if err != nil {
			return err
		}
		said := "added: nothing is sent to them any more (" + c.Scope + ")"
		if !added {
			said = "on the list already (" + c.Scope + "): nothing was changed"
		}
		_, err = fmt.Fprintln(s.std.err, said)
		return err
	})
}

type suppressRemoveCmd struct {
	Phone          string `arg:"" help:"The person's phone, in international form."`
	Scope          string `placeholder:"SCOPE" help:"Only of this scope. Default: of all."`
	Force          bool   `help:"Also what they said themselves, in a message or to Meta. It is on record who did it."`
	DefaultCountry string `placeholder:"CC" help:"Country of a phone without a country code, for example BR."`
}

// Help shows an example.
func (suppressRemoveCmd) Help() string {
	return `  weir suppress remove +4915112345678

Takes back what operators put on the list. What the person said, in a message or to
Meta, is theirs to take back: it takes --force, once you are sure that they want it,
and weir audit and weir explain show who did it. Whom a campaign has left out already
stays left out of it.`
}

func (c suppressRemoveCmd) Run(ctx context.Context, s *session) error {
	phone, err := audience.ParsePhone(c.Phone, c.DefaultCountry)
	if err != nil {
		return usagef("%v", err)
	}
	return s.with(ctx, func(db *database) error {
		lifted, err := db.Unsuppress(ctx, phone, store.SuppressionOrder{Scope: c.Scope, Who: who(), Force: c.Force})
		if errors.Is(err, store.ErrRefused) {
			return ownWord(lifted)
		}
		if err != nil {
			return err
		}
		for _, o := range lifted {
			if _, err := fmt.Fprintln(s.std.err, "lifted: "+suppressionWords(o)); err != nil {
				return err
			}
		}
		if len(lifted) == 0 {
			_, err = fmt.Fprintln(s.std.err, "not on the list: nothing was changed")
		}
		return err
	})
}

// ownWord refuses to take back what a person said themselves.
func ownWord(said []store.Suppression) error {
	words := make([]string, len(said))
	for i, o := range said {
		words[i] = fmt.Sprintf("at %s, %s", stamp(o.At), suppressionWords(o))
	}
	return fmt.Errorf("nothing was changed: that is the person's own word (%s). Are you sure that they want to be written to again? Then give --force: it is on record who did it", strings.Join(words, "; "))
}

type suppressImportCmd struct {
	CSV         string `arg:"" name:"file" type:"existingfile" help:"A CSV with a header row."`
	PhoneColumn string `default:"phone" help:"Column with the phone numbers."`
	Encoding    string `placeholder:"NAME" help:"The file's encoding, for example windows-1250. Default: UTF-8, UTF-16 and Latin-1 are told apart."`
	suppressOrder
}

// Help shows an example.
func (suppressImportCmd) Help() string {
	return `  weir suppress import opted-out.csv --scope marketing --default-country BR

All of the file or nothing: give it again after it was cut short. Rows without a
phone go to FILE.rejected.csv, with reasons; rows read = added + already + rejected.`
}

func (c suppressImportCmd) Run(ctx context.Context, s *session) error {
	order, err := c.order()
	if err != nil {
		return err
	}
	file, err := os.Open(c.CSV)
	if err != nil {
		return fmt.Errorf("open file: %w", err)
	}
	defer file.Close()
	people, err := audience.Open(file, audience.Options{PhoneColumn: c.PhoneColumn, DefaultCountry: c.DefaultCountry, Encoding: c.Encoding})
	if err != nil {
		return fmt.Errorf("read %s: %w", c.CSV, err)
	}
	rejects := audience.NewRejects(rejectsPath(c.CSV), people)
	defer rejects.Close()
	return s.with(ctx, func(db *database) error {
		n, err := db.ImportSuppressions(ctx, filepath.Base(c.CSV), importRows(ctx, people, rejects), order)
		if err != nil {
			return fmt.Errorf("%w (nothing was changed: mend it and give the same command again)", err)
		}
		said := fmt.Sprintf("%s rows read = %s added + %s already on the list + %s rejected\n", group(n.Read), group(n.Added), group(n.Already), group(n.Rejected))
		if n.Defaulted > 0 {
			said += fmt.Sprintf("%s numbers had no country code and were read as %s\n", group(n.Defaulted), c.DefaultCountry)
		}
		if n.Rejected > 0 {
			said += fmt.Sprintf("the rejected rows are in %s, each with a reason and a hint: mend it and import it too\n", rejects.Path())
		}
		_, err = io.WriteString(s.std.err, said)
		return err
	})
}

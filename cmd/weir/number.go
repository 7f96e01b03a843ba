package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/weirhq/weir/engine"
	"github.com/weirhq/weir/internal/store"
)

type numberCmd struct {
	Add  numberAddCmd  `cmd:"" help:"Add a number."`
	List numberListCmd `cmd:"" help:"List the numbers."`
	Set  numberSetCmd  `cmd:"" help:"Change a number; running nodes take it up within seconds."`
}

type numberAddCmd struct {
	graph
	ID        string   `arg:"" help:"The number's phone_number_id (WhatsApp Manager shows it; it is not the phone number)."`
	WABA      string   `name:"waba" required:"" help:"Id of its WhatsApp business account."`
	Limit     *float64 `help:"Messages per second Meta allows it, both directions. Default: what Meta says, else 80."`
	Headroom  float64  `default:"0.2" help:"Share of the limit left free for replies and other senders."`
	Burst     int      `default:"1" help:"Messages that may go at once after a lull, at most a twentieth of the limit."`
	TokenFile string   `type:"path" help:"File with this number's own access token, on every node."`
	NoVerify  bool     `help:"Do not ask Meta about the number."`
}

// Help shows an example.
func (numberAddCmd) Help() string {
	return "  weir number add 106540352242922 --waba 102290129340398 --limit 80 --headroom 0.2"
}

func (c numberAddCmd) Run(ctx context.Context, s *session) error {
	return s.with(ctx, func(db *database) error {
		n := store.NumberInfo{
			Number:    engine.Number{ID: c.ID, WABA: c.WABA, Limit: 80, Headroom: c.Headroom, Burst: c.Burst},
			TokenFile: c.TokenFile,
		}
		if !c.NoVerify {
			if err := c.verify(ctx, s, db, &n); err != nil {
				return err
			}
		}
		if c.Limit != nil {
			n.Limit = *c.Limit
		}
		if err := db.AddNumber(ctx, n); err != nil {
			return err
		}
		_, err := fmt.Fprintf(s.std.err, "number %s added: %.4g messages per second (limit %.4g, headroom %.3g)\n", c.ID, n.Rate(), n.Limit, n.Headroom)
		return err
	})
}

type numberListCmd struct {
	JSON bool `help:"Print JSON."`
}

func (c numberListCmd) Run(ctx context.Context, s *session) error {
	return s.with(ctx, func(db *database) error {
		numbers, err := db.Numbers(ctx)
		if err != nil {
			return err
		}
		if c.JSON {
			views := make([]numberView, len(numbers))
			for i, n := range numbers {
				views[i] = viewNumber(n)
			}
			return printJSON(s.std.out, views)
		}
		t := newTable(s.std.out, "NUMBER", "DISPLAY", "WABA", "RATE", "LIMIT", "HEADROOM", "PEOPLE/24H", "STATE", "META SAYS", "OWNER")
		for _, n := range numbers {
			t.row(n.ID, n.Display, n.WABA, numberRate(n.Number), fmt.Sprintf("%.4g", n.Limit), fmt.Sprintf("%.3g", n.Headroom), dailyLimit(n), numberState(n), saidOf(n), n.Holder)
		}
		return t.flush()
	})
}

// numberView is a number as scripts read it.
type numberView struct {
	ID         string  `json:"id"`
	Display    string  `json:"display,omitempty"`
	WABA       string  `json:"waba"`
	Limit      float64 `json:"limit_mps"`
	Headroom   float64 `json:"headroom"`
	Burst      int     `json:"burst"`
	Rate       float64 `json:"rate_mps"` // what campaigns may use of the limit
	Pace       float64 `json:"pace_mps"` // what goes now: less than the rate after throttles
	TokenFile  string  `json:"token_file,omitempty"`
	Enabled    bool    `json:"enabled"`
	StopReason string  `json:"stop_reason,omitempty"`
	Paused     float64 `json:"paused_seconds"` // how much longer a throttle holds it
	Owner      string  `json:"owner,omitempty"`

	// By Meta's webhooks: its last word on the number's quality or pace and on its
	// account, and how many people its portfolio may reach in 24 hours (-1: no limit).
	Said          string `json:"said,omitempty"`
	SaidAt        string `json:"said_at,omitempty"`
	AccountSaid   string `json:"account_said,omitempty"`
	AccountSaidAt string `json:"account_said_at,omitempty"`
	DailyLimit    int64  `json:"daily_limit,omitempty"`
}

func viewNumber(n store.NumberInfo) numberView {
	v := numberView{
		ID: n.ID, Display: n.Display, WABA: n.WABA, Limit: n.Limit, Headroom: n.Headroom, Burst: max(n.Burst, 1), Rate: n.Rate(), Pace: n.Pace(),
		TokenFile: n.TokenFile, Enabled: n.Enabled, StopReason: n.StopReason, Paused: n.Paused.Seconds(), Owner: n.Holder,
		Said: n.Said, SaidAt: stamp(n.SaidAt), AccountSaid: n.AccountSaid, AccountSaidAt: stamp(n.AccountSaidAt), DailyLimit: n.DailyLimit,
	}
	if v.DailyLimit == engine.NoLimit {
		v.DailyLimit = -1
	}
	return v
}

func dailyLimit(n store.NumberInfo) string {
	switch n.DailyLimit {
	case 0:
		return ""
	case engine.NoLimit:
		return "no limit"
	default:
		return group(n.DailyLimit)
	}
}

// saidOf is what Meta's webhooks last said of a number and of its account.
func saidOf(n store.NumberInfo) string {
	var said []string
	if n.Said != "" {
		said = append(said, n.Said+" "+stamp(n.SaidAt))
	}
	if n.AccountSaid != "" {
		said = append(said, "account "+n.AccountSaid+" "+stamp(n.AccountSaidAt))
	}
	return strings.Join(said, ", ")
}

// numberRate is the configured rate, and the one that throttles have taught
// where that is less.
func numberRate(n engine.Number) string {
	if pace := n.Pace(); pace < n.Rate() {
		return fmt.Sprintf("%.4g of %.4g", pace, n.Rate())
	}
	return fmt.Sprintf("%.4g", n.Rate())
}

func numberState(n store.NumberInfo) string {
	switch {
	case !n.Enabled:
		return "stopped: " + n.StopReason + " (then " + enableNumber(n.ID) + ")"
	case n.Paused > 0:
		return "paused for " + n.Paused.Round(time.Second).String()
	default:
		return "ready"
	}
}

type numberSetCmd struct {
	ID        string   `arg:"" help:"phone_number_id."`
	Limit     *float64 `help:"Messages per second Meta allows it."`
	Headroom  *float64 `help:"Share of the limit left free."`
	Burst     *int     `help:"Messages that may go at once after a lull."`
	TokenFile *string  `type:"path" help:"File with this number's own access token; empty: the one for all."`
	Enable    bool     `help:"Let a number that was stopped send again." xor:"able"`
	Disable   bool     `help:"Stop a number: nothing more is claimed for it." xor:"able"`
}

// Help shows an example.
func (numberSetCmd) Help() string { return "  weir number set 106540352242922 --limit 250 --enable" }

func (c numberSetCmd) Run(ctx context.Context, s *session) error {
	change := store.NumberChange{Limit: c.Limit, Headroom: c.Headroom, Burst: c.Burst, TokenFile: c.TokenFile}
	if change == (store.NumberChange{}) && !c.Enable && !c.Disable {
		return usagef("number set needs something to change: --limit, --headroom, --burst, --token-file, --enable or --disable")
	}
	return s.with(ctx, func(db *database) error {
		if err := db.SetNumber(ctx, c.ID, change); err != nil {
			return err
		}
		if c.Enable {
			if err := db.EnableNumber(ctx, c.ID); err != nil {
				return err
			}
		}
		if c.Disable {
			if err := db.DisableNumber(ctx, c.ID, "by the operator"); err != nil {
				return err
			}
		}
		n, err := db.FindNumber(ctx, c.ID)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(s.std.err, "number %s: %.4g messages per second (limit %.4g, headroom %.3g), %s\n", n.ID, n.Rate(), n.Limit, n.Headroom, numberState(n))
		return err
	})
}

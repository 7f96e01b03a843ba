package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/weirhq/weir/internal/store"
)

type databaseCmd struct {
	Status  databaseStatusCmd  `cmd:"" help:"Show which database answers, and whether it is the one that you vouch for."`
	Confirm databaseConfirmCmd `cmd:"" help:"Vouch for the database as it is now, after a fail-over or a restore: sending goes on."`
}

type databaseStatusCmd struct {
	JSON bool `help:"Print JSON: confirmed, what it was, what it is, how much waits."`
}

// Help shows an example.
func (databaseStatusCmd) Help() string {
	return "  weir database status --json | jq .confirmed\n\n" + unconfirmed
}

const unconfirmed = `A standby that was promoted and a backup that was restored answer as another database:
commits may be missing there. On such a one nothing is claimed, no campaign is
finished or expired and no unknown recipient is decided until an operator confirms
it; what webhooks say is recorded.`

func (c databaseStatusCmd) Run(ctx context.Context, s *session) error {
	return s.with(ctx, func(db *database) error {
		identity, err := db.Identity(ctx)
		if err != nil {
			return err
		}
		if c.JSON {
			return printJSON(s.std.out, identityView(identity))
		}
		_, err = io.WriteString(s.std.out, strings.Join(identityLines(identity), "\n")+"\n")
		return err
	})
}

type databaseConfirmCmd struct {
	Yes bool `help:"Do not ask. Nothing is asked either when no terminal is there to answer."`
}

// Help shows an example.
func (databaseConfirmCmd) Help() string {
	return "  weir database status\n  weir database confirm\n\n" + unconfirmed
}

func (c databaseConfirmCmd) Run(ctx context.Context, s *session) error {
	return s.with(ctx, func(db *database) error {
		identity, err := db.Identity(ctx)
		if err != nil {
			return err
		}
		_, _ = fmt.Fprintln(s.std.err, strings.Join(identityLines(identity), "\n"))
		if identity.Confirmed() {
			return nil
		}
		if !c.Yes && isTerminal(s.std.in) && !agreed(s.std) {
			return errors.New("nothing was confirmed")
		}
		if err := db.Confirm(ctx, identity.Cluster, who()); err != nil {
			return err
		}
		_, err = fmt.Fprintf(s.std.err, "confirmed: %s recipients of %s campaigns are sent to as before\n", group(identity.Waiting), group(identity.Campaigns))
		return err
	})
}

// agreed asks.
func agreed(std streams) bool {
	_, _ = fmt.Fprint(std.err, "Is that done, and shall sending go on? [y/N] ")
	answer, _ := bufio.NewReader(std.in).ReadString('\n')
	answer = strings.ToLower(strings.TrimSpace(answer))
	return answer == "y" || answer == "yes"
}

// identityLines shows it to people: what changed, how much waits, and what to
// look at before it is vouched for.
func identityLines(i store.Identity) []string {
	lines := []string{
		"database   " + describe(i.Cluster),
		"confirmed  " + stamp(i.ConfirmedAt),
	}
	if i.Confirmed() {
		return lines
	}
	heard := "none has ever arrived here"
	if i.Heard >= 0 {
		heard = "the last one came " + i.Heard.Round(time.Second).String() + " ago"
	}
	return append(lines[:1],
		"before     "+describe(i.Vouched)+", confirmed "+stamp(i.ConfirmedAt),
		"NOT CONFIRMED: "+change(i),
		fmt.Sprintf("waiting    %s recipients of %s campaigns are not sent to, and %s more have an outcome that is still open", group(i.Waiting), group(i.Campaigns), group(i.Ambiguous)),
		"lost       nothing, if the standby was synchronous. Else the last commits of the old primary, and all since the backup:",
		"           people whose message went out may stand here as waiting, and get it again; a pause, a cancel or an opt-out may be forgotten",
		"first      1. make sure that no other server answers as this database, the old primary above all",
		"           2. let webhooks arrive until they have caught up ("+heard+"): each settles a recipient, those too whose message this database has forgotten",
		"           3. pause or cancel again what should not be sent, and add opt-outs again, as far as they are missing",
		"then       weir database confirm",
	)
}

func describe(c store.Cluster) string {
	return fmt.Sprintf("server %s, timeline %d", c.System(), timeline(c))
}

// timeline is 0 when it cannot be read.
func timeline(c store.Cluster) uint64 {
	n, _ := strconv.ParseUint(c.Timeline(), 16, 64)
	return n
}

// change says what kind of event it was.
func change(i store.Identity) string {
	switch {
	case i.Cluster.System() != i.Vouched.System():
		return "it is another server: a dump was restored, or the server was upgraded or set up anew"
	case timeline(i.Cluster) < timeline(i.Vouched):
		return "it is on an older timeline: the server from before the fail-over seems to answer again"
	default:
		return "a standby was promoted, or a backup was restored"
	}
}

// identityView is the identity for scripts.
func identityView(i store.Identity) map[string]any {
	view := map[string]any{
		"confirmed": i.Confirmed(), "confirmed_at": stamp(i.ConfirmedAt), "cluster": i.Cluster, "vouched": i.Vouched,
		"campaigns": i.Campaigns, "waiting": i.Waiting, "ambiguous": i.Ambiguous, "webhook_seconds": nil,
	}
	if i.Heard >= 0 {
		view["webhook_seconds"] = i.Heard.Seconds()
	}
	return view
}

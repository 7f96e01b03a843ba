// Command weir sends WhatsApp campaigns in bulk through Meta's Cloud API, on
// one Postgres. It is thin: it reads flags and environment, builds the parts
// that the other packages offer, and prints. stdout is data, stderr is talk.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	_ "time/tzdata" // windows need the zones, and the image has none

	"github.com/alecthomas/kong"
)

// Exit codes of every command.
const (
	exitOK      = 0
	exitFailure = 1 // it was understood and did not work
	exitUsage   = 2 // it was not understood
)

func main() {
	// The first signal asks for a clean end; a second one, once the handler is
	// gone, ends the process at once.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	code := run(ctx, os.Args[1:], streams{os.Stdin, os.Stdout, os.Stderr})
	stop()
	os.Exit(code)
}

// session is what every command works in.
type session struct {
	globals
	std streams
	log *slog.Logger
}

// streams are a command's ends: data goes to out, talk to err.
type streams struct {
	in       io.Reader
	out, err io.Writer
}

// cli is the command tree; kong reads it.
type cli struct {
	globals
	Version kong.VersionFlag `help:"Print the version."`

	Serve    serveCmd    `cmd:"" help:"Run a node: send, receive webhooks, run jobs. Several on one database are a fleet."`
	Migrate  migrateCmd  `cmd:"" help:"Bring the database's schema up to date, or take it down."`
	Database databaseCmd `cmd:"" help:"Which database answers, and whether you vouch for it."`
	Number   numberCmd   `cmd:"" help:"The business phone numbers that send."`
	Campaign campaignCmd `cmd:"" help:"Create, start, watch and prove campaigns."`
	Stop     stopCmd     `cmd:"" help:"Stop everything, and wait until nothing more goes out."`
	Go       goCmd       `cmd:"" help:"End the stop of everything: sending goes on."`
	Dead     deadCmd     `cmd:"" help:"Who was not reached: list, send anew, give up."`
	Suppress suppressCmd `cmd:"" help:"Whom nothing is sent to: add, remove, import and list opt-outs."`
	Explain  explainCmd  `cmd:"" help:"Show everything on record about one person, over all campaigns."`
	Notify   notifyCmd   `cmd:"" help:"Try the endpoints that are told when something happens."`
	Breaker  breakerCmd  `cmd:"" help:"What stops the fleet when the platform is in trouble."`
	Audit    auditCmd    `cmd:"" help:"What operators did against the usual rules, and who it was."`
	Sim      simCmd      `cmd:"" help:"Run a simulated Cloud API to rehearse on."`
	Bench    benchCmd    `cmd:"" help:"Measure what this Postgres and this machine sustain."`
	Demo     demoCmd     `cmd:"" help:"Send a campaign on this machine, end to end, and prove it."`
}

// globals are the flags of every command.
type globals struct {
	DatabaseURL      string      `env:"WEIR_DATABASE_URL" placeholder:"URL" help:"Postgres to use. Unset: a private one in the user's data directory."`
	LeaseDatabaseURL string      `env:"WEIR_LEASE_DATABASE_URL" placeholder:"URL" help:"The same database with no pooler in between, for leases, imports and migrations. Set it when --database-url leads to a transaction pooler (PgBouncer)."`
	DataDir          string      `env:"WEIR_DATA_DIR" type:"path" placeholder:"DIR" help:"Where the private Postgres keeps its data."`
	LogLevel         *slog.Level `env:"WEIR_LOG_LEVEL" placeholder:"LEVEL" help:"debug, info, warn or error. Default: info for serve and sim, else warn."`
}

func run(ctx context.Context, args []string, std streams) (code int) {
	var c cli
	exited := -1
	parser, err := kong.New(&c, kong.Name("weir"), kong.Writers(std.out, std.err),
		kong.Description("Sends WhatsApp campaigns in bulk: paced, provable, on one Postgres."),
		kong.Exit(func(code int) { exited = code }), kong.UsageOnError(),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}), kong.Vars{"version": version()},
		kong.BindTo(ctx, (*context.Context)(nil)))
	if err != nil {
		_, _ = fmt.Fprintln(std.err, "weir:", err)
		return exitFailure
	}
	parsed, err := parser.Parse(args)
	switch {
	case exited >= 0: // --help or --version has been printed
		return exited
	case err != nil:
		_, _ = fmt.Fprintf(std.err, "weir: %v\n%s\n", err, whereHelp(err))
		return exitUsage
	}
	s := &session{globals: c.globals, std: std}
	s.log = slog.New(slog.NewTextHandler(std.err, &slog.HandlerOptions{Level: s.logLevel(parsed.Command())}))
	return report(std.err, s.advised(parsed.Run(s)))
}

// whereHelp names the help of the command that was called wrongly, as far as it
// was understood.
func whereHelp(err error) string {
	if wrong, ok := errors.AsType[*kong.ParseError](err); ok && wrong.Context != nil {
		if command := wrong.Context.Selected(); command != nil {
			return "Run `" + command.FullPath() + " --help` for what it takes."
		}
	}
	return "Run `weir --help` for the commands."
}

// version is the release that was built, or what the go command knows of the
// sources.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "weir (devel)"
	}
	return "weir " + info.Main.Version
}

// logLevel keeps commands that end by themselves to warnings: what they have to
// say they print.
func (g globals) logLevel(command string) slog.Level {
	switch {
	case g.LogLevel != nil:
		return *g.LogLevel
	case command == "serve" || command == "sim":
		return slog.LevelInfo
	default:
		return slog.LevelWarn
	}
}

// usageError is a mistake in how a command was called.
type usageError struct{ msg string }

func (e usageError) Error() string { return e.msg }

func usagef(format string, args ...any) error { return usageError{fmt.Sprintf(format, args...)} }

// errSilent fails a command that has already said why.
var errSilent = errors.New("said already")

func report(w io.Writer, err error) int {
	var usage usageError
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, errSilent):
		return exitFailure
	case errors.As(err, &usage):
		_, _ = fmt.Fprintln(w, "weir:", err)
		return exitUsage
	case err.Error() == context.Canceled.Error(): // by Ctrl-C, and there is nothing more to say
		_, _ = fmt.Fprintln(w, "weir: interrupted")
		return exitFailure
	default:
		_, _ = fmt.Fprintln(w, "weir:", err)
		return exitFailure
	}
}

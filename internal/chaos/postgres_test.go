//go:build !race

package chaos

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/weirhq/weir/internal/localpg"
	"github.com/weirhq/weir/migrations"
)

// The suite's servers lose nothing when their processes die, unlike other
// tests' ones; a machine's crash is not among the faults, so nothing waits for
// a disk.
const (
	serverConfig = "synchronous_commit = on\nautovacuum = on\nwal_level = replica\nmax_wal_senders = 4\n"
	idleStop     = time.Minute // a killed suite leaves no server behind
)

// server is a Postgres that can be broken.
type server struct {
	options localpg.Options
	local   *localpg.Server
	clock   string // the file that sets its clock, if there is one
}

func newServer(name string) *server {
	return &server{options: localpg.Options{
		Dir: filepath.Join(shop.dir, name), Test: true, Config: serverConfig, IdleStop: idleStop,
	}}
}

func startServer(ctx context.Context, name string, skewed bool) (s *server, err error) {
	s = newServer(name)
	if skewed {
		s.clock = s.options.Dir + ".clock"
		if s.options.Env, err = fakeClock(s.clock); err != nil {
			return nil, err
		}
	}
	s.local, err = localpg.Start(ctx, s.options)
	return s, err
}

// follow starts a standby of the server, behind a link.
func (s *server) follow(ctx context.Context, over *link) (*server, error) {
	standby := newServer(filepath.Base(s.options.Dir) + "-standby")
	var err error
	standby.local, err = s.local.Follow(ctx, over.addr(), standby.options)
	return standby, err
}

// restart brings a crashed server back, at its old address.
func (s *server) restart(ctx context.Context) error {
	again, err := localpg.Start(ctx, s.options)
	if err != nil {
		return err
	}
	before := s.local
	s.local = again
	return before.Close()
}

// addr is where the server listens.
func (s *server) addr() (string, error) {
	u, err := url.Parse(s.local.LoopbackURL("x"))
	if err != nil {
		return "", fmt.Errorf("read the server's address: %w", err)
	}
	return u.Host, nil
}

// shared is the server of the runs that leave theirs alone.
var shared = sync.OnceValues(func() (*server, error) {
	s, err := startServer(context.Background(), "shared", false)
	sharedRuns.Store(err == nil)
	return s, err
})

var (
	sharedRuns atomic.Bool
	databases  atomic.Int64
)

func closeShared() error {
	if !sharedRuns.Load() {
		return nil
	}
	s, err := shared()
	return errors.Join(err, s.local.Close())
}

// database makes a database with Weir's schema and the suite's own notes.
func (s *server) database(ctx context.Context) (string, error) {
	name := fmt.Sprint("run", databases.Add(1))
	if err := s.local.EnsureDatabase(ctx, name); err != nil {
		return "", err
	}
	if err := migrations.Up(ctx, s.local.LoopbackURL(name)); err != nil {
		return "", err
	}
	conn, err := pgx.Connect(ctx, s.local.LoopbackURL(name))
	if err != nil {
		return "", fmt.Errorf("connect to the run's database: %w", err)
	}
	_, err = conn.Exec(ctx, notes)
	return name, errors.Join(err, conn.Close(ctx))
}

// notes writes down what the program deletes again: which lease claimed what,
// who became unknown when, how campaigns moved. Triggers write in the
// program's own transactions, so a note exists exactly when the fact does.
const notes = `
CREATE SCHEMA chaos;
CREATE TABLE chaos.claims (number_id text, lease_id uuid, seq bigint, at timestamptz, ids bigint[], fences int[]);
CREATE TABLE chaos.doubts (recipient_id bigint, claim int, at timestamptz);
CREATE TABLE chaos.moves (n bigint GENERATED ALWAYS AS IDENTITY, campaign_id bigint, was text, state text, at timestamptz);
CREATE FUNCTION chaos.claim() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO chaos.claims VALUES (NEW.number_id, NEW.lease_id, NEW.seq, NEW.at, NEW.ids, NEW.fences); RETURN NULL; END $$;
CREATE FUNCTION chaos.doubt() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO chaos.doubts VALUES (NEW.recipient_id, NEW.claim, clock_timestamp()); RETURN NULL; END $$;
CREATE FUNCTION chaos.move() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    IF TG_OP = 'INSERT' OR OLD.state <> NEW.state THEN
        INSERT INTO chaos.moves (campaign_id, was, state, at)
        VALUES (NEW.id, CASE WHEN TG_OP = 'UPDATE' THEN OLD.state ELSE '' END, NEW.state, clock_timestamp());
    END IF; RETURN NULL; END $$;
CREATE TRIGGER chaos_claim AFTER INSERT ON claims FOR EACH ROW EXECUTE FUNCTION chaos.claim();
CREATE TRIGGER chaos_doubt AFTER INSERT OR UPDATE ON unknowns FOR EACH ROW EXECUTE FUNCTION chaos.doubt();
CREATE TRIGGER chaos_move AFTER INSERT OR UPDATE ON campaigns FOR EACH ROW EXECUTE FUNCTION chaos.move();
`

package localpg

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// startTimeout bounds crash recovery: 4 GB of WAL replay in well under it.
const startTimeout = 2 * time.Minute

// cluster is one data directory and what is needed to run a server on it.
//
//	dir/start.lock users.lock    who uses the server (lock.go)
//	dir/server.json              port and password, for whoever attaches
//	dir/postgresql.conf pg_hba.conf   written anew at every start
//	dir/data/                    PGDATA, the owner's
//	dir/run/                     socket and log, the owner's
//	dir/fetched-VERSION/bin/     binaries, where the machine had none
type cluster struct {
	Options
	dir   string
	owner owner
	bin   binaries
	sock  string // directory of the socket
	state state
}

// state is what a process needs to know about a server that another started.
type state struct {
	Port     int    `json:"port"` // kept across restarts: pools of others reconnect
	Password string `json:"password"`
}

func newCluster(o Options) (*cluster, error) {
	dir, err := o.Dir, error(nil)
	if dir == "" {
		if dir, err = DefaultDir(); err != nil {
			return nil, err
		}
	}
	c := &cluster{Options: o, owner: serverOwner()}
	if c.dir, err = c.owner.makeBase(dir); err != nil {
		return nil, err
	}
	if err := c.owner.makePrivate(c.path("run")); err != nil {
		return nil, err
	}
	if c.sock, err = c.socketDir(); err != nil {
		return nil, err
	}
	return c, nil
}

func (c *cluster) path(name string) string { return filepath.Join(c.dir, name) }

func (c *cluster) loadState() error {
	text, err := os.ReadFile(c.path("server.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = json.Unmarshal(text, &c.state)
	}
	if err != nil {
		return fmt.Errorf("read %s (delete it when the server is stopped): %w", c.path("server.json"), err)
	}
	return nil
}

// ensureRunning runs under start.lock.
func (c *cluster) ensureRunning(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := errors.Join(c.loadState(), c.pickBinaries(ctx)); err != nil {
		return err
	}
	for {
		pid, running := c.postmaster(ctx)
		if !running {
			return c.start(ctx)
		}
		err := c.ping(ctx)
		if err == nil {
			c.Logger.Info("attached to the private PostgreSQL", "dir", c.dir, "pid", pid)
			return nil
		}
		if pauseErr := pause(ctx, lockPoll); pauseErr != nil {
			return fmt.Errorf("wait for PostgreSQL (pid %d) in %s to accept connections: %w", pid, c.dir, err)
		}
	}
}

func (c *cluster) pickBinaries(ctx context.Context) error {
	extra := c.path("fetched-*/bin")
	all := findBinaries(ctx, c.BinDirs, extra)
	if len(all) == 0 {
		c.Logger.Info("no PostgreSQL on this machine: fetching it once", "version", string(fetchVersion), "dir", c.dir)
		if err := c.fetchBinaries(ctx); err != nil {
			return fmt.Errorf("%w (%w)", ErrNoPostgres, err)
		}
		if all = findBinaries(ctx, c.BinDirs, extra); len(all) == 0 {
			return fmt.Errorf("%w (what was fetched into %s does not run here)", ErrNoPostgres, c.dir)
		}
	}
	var err error
	c.bin, err = choose(all, c.path("data"))
	return err
}

// postmaster is the live server process of this data directory. The pid file
// alone proves nothing: after a reboot its number may belong to anybody.
func (c *cluster) postmaster(ctx context.Context) (pid int, running bool) {
	text, err := os.ReadFile(c.path("data/postmaster.pid"))
	if err != nil {
		return 0, false
	}
	first, _, _ := strings.Cut(string(text), "\n")
	if pid, err = strconv.Atoi(strings.TrimSpace(first)); err != nil || pid <= 0 {
		return 0, false
	}
	return pid, strings.Contains(commandLine(ctx, pid), c.path("data"))
}

// ping returns nil when the server takes connections, even if it has none left.
func (c *cluster) ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, c.socketURL("postgres"))
	if sqlState(err) == "53300" { // too_many_connections
		return nil
	}
	if err != nil {
		return err
	}
	return conn.Close(ctx)
}

func (c *cluster) socketURL(database string) string {
	q := url.Values{"host": {c.sock}, "port": {strconv.Itoa(c.state.Port)}}
	u := url.URL{Scheme: "postgres", User: url.User(role), Path: "/" + database, RawQuery: q.Encode()}
	return u.String()
}

// socketDir is where the socket fits: the kernel allows a path of 104 bytes on
// macOS and 108 on Linux with its closing NUL, and home directories can be deep.
func (c *cluster) socketDir() (string, error) {
	const room = 103 - len("/.s.PGSQL.65535")
	run := c.path("run")
	if len(run) <= room {
		return run, nil
	}
	short := filepath.Join("/tmp", "weir-"+shortHash(c.dir))
	return short, c.owner.makePrivate(short)
}

// freePort asks the kernel for a loopback port, preferring the one used before.
func freePort(ctx context.Context, before int) (int, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp4", fmt.Sprintf("127.0.0.1:%d", before))
	if err != nil && before != 0 {
		l, err = lc.Listen(ctx, "tcp4", "127.0.0.1:0")
	}
	if err != nil {
		return 0, fmt.Errorf("find a free loopback port: %w", err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	return port, l.Close()
}

func sqlState(err error) string {
	if pgErr, ok := errors.AsType[*pgconn.PgError](err); ok {
		return pgErr.Code
	}
	return ""
}

// logStart says what an operator would otherwise have to look for.
func (c *cluster) logStart() {
	attrs := []any{"dir", c.dir, "version", c.bin.major, "port", c.state.Port}
	if c.owner.drop {
		attrs = append(attrs, "user", c.owner.name)
	}
	c.Logger.Info("started a private PostgreSQL", attrs...)
}

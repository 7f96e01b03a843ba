package pgtest

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/weirhq/weir/internal/localpg"
)

// Pooled is the address of a database (as [URL] gave it) behind a PgBouncer of
// the test's own. It pools by transaction, hands out its few sessions in turn,
// so that no two transactions in a row of one client meet in the same one, and
// prepares no statements. settings are further lines of its configuration.
// Where no PgBouncer is installed the test is passed over, but fails in CI.
func Pooled(t testing.TB, database string, settings ...string) string {
	t.Helper()
	program, err := exec.LookPath("pgbouncer")
	if err != nil {
		program, err = exec.LookPath("/usr/sbin/pgbouncer")
	}
	switch {
	case err == nil:
	case os.Getenv("CI") != "":
		t.Fatal("pgtest: no PgBouncer: apt-get install pgbouncer")
	default:
		t.Skip("needs PgBouncer: apt-get install pgbouncer")
	}
	to, err := pgx.ParseConfig(database)
	if err != nil {
		t.Fatalf("pgtest: read database URL: %v", err)
	}
	host, port := freeAddress(t)
	bounce(t, program, strings.Join(append([]string{
		"[databases]",
		to.Database + " = " + target(to),
		"[pgbouncer]", "listen_addr = " + host, "listen_port = " + port, "unix_socket_dir =",
		"auth_type = any", "pool_mode = transaction", "default_pool_size = 4", "server_round_robin = 1", "max_client_conn = 500",
	}, settings...), "\n"))
	address := url.URL{Scheme: "postgres", User: url.User(to.User), Host: net.JoinHostPort(host, port), Path: "/" + to.Database, RawQuery: "sslmode=disable"}
	await(t, address.Host)
	return address.String()
}

// target is a server in the words of its configuration, which knows no empty value.
func target(to *pgx.ConnConfig) string {
	text := fmt.Sprintf("host=%s port=%d user=%s", quoted(to.Host), to.Port, quoted(to.User))
	if to.Password != "" {
		text += " password=" + quoted(to.Password)
	}
	return text
}

func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

func freeAddress(t testing.TB) (host, port string) {
	t.Helper()
	address, err := Address()
	if err == nil {
		host, port, err = net.SplitHostPort(address)
	}
	if err != nil {
		t.Fatal(err)
	}
	return host, port
}

// bounce runs the program until the test ends, as a user who is not root.
func bounce(t testing.TB, program, config string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "weir-pgbouncer-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	file := filepath.Join(dir, "pgbouncer.ini")
	if err := os.WriteFile(file, []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	cmd := localpg.Command(ctx, program, file)
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		stop()
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stop()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("pgbouncer:\n%s", log.Bytes())
		}
	})
}

func await(t testing.TB, address string) {
	t.Helper()
	deadline := time.After(patience)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		c, err := net.Dial("tcp", address)
		if err == nil {
			_ = c.Close()
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("pgtest: PgBouncer does not listen: %v", err)
		}
	}
}

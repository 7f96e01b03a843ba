package localpg

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgproto3"
)

// watchdog is a session inside the server that outlives the client who began
// it: a backend in the middle of a statement does not notice that its client
// has gone. It looks every second for other clients and, after enough looks
// without any, asks the postmaster for a fast shutdown. So no process has to
// outlive its test run, and no kill -9 leaves a server behind for good.
//
// It commits each round to hold no snapshot, and lives in the database
// "postgres", so that nobody's DROP DATABASE or TEMPLATE waits for it.
const watchdog = `DO $$
DECLARE quiet int := 0;
BEGIN
  WHILE quiet < %d LOOP
    PERFORM pg_sleep(1);
    IF EXISTS (SELECT FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid())
    THEN quiet := 0; ELSE quiet := quiet + 1; END IF;
    COMMIT;
  END LOOP;
  COPY (SELECT 1) TO PROGRAM 'kill -INT %d';
END $$`

// watchIdle starts the watchdog and leaves it alone.
func (c *cluster) watchIdle(ctx context.Context) error {
	text, err := os.ReadFile(c.path("data/postmaster.pid"))
	if err != nil {
		return fmt.Errorf("read pid of the server: %w", err)
	}
	first, _, _ := strings.Cut(string(text), "\n")
	pid, err := strconv.Atoi(strings.TrimSpace(first))
	if err != nil {
		return fmt.Errorf("read pid of the server: %w", err)
	}
	conn, err := pgx.Connect(ctx, c.socketURL("postgres")+"&application_name=weir-idle-stop")
	if err != nil {
		return fmt.Errorf("connect the idle watch: %w", err)
	}
	rounds := max(1, int(c.IdleStop/time.Second))
	front := conn.PgConn().Frontend()
	front.SendQuery(&pgproto3.Query{String: fmt.Sprintf(watchdog, rounds, pid)})
	if err := front.Flush(); err != nil {
		return fmt.Errorf("start the idle watch: %w", err)
	}
	// The bare socket: a polite close would wait for the statement's end.
	if err := conn.PgConn().Conn().Close(); err != nil {
		return fmt.Errorf("leave the idle watch: %w", err)
	}
	return nil
}

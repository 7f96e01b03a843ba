package localpg

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgproto3"
)

// watchdog is a session inside the server that outlives the client who began
// it: a backend in the middle of a statement does not notice that its client
// has gone. It looks every second for clients and, after enough looks without
// any, asks the postmaster for a fast shutdown. So no process has to outlive
// its test run, and no kill -9 leaves a server behind for good.
//
// It commits each round to hold no snapshot, and lives in the database
// "postgres", so that nobody's DROP DATABASE or TEMPLATE waits for it. Other
// watchdogs are no clients, or two would keep each other busy.
const watchdog = `DO $$
DECLARE quiet int := 0;
BEGIN
  WHILE quiet < %d LOOP
    PERFORM pg_sleep(1);
    IF EXISTS (SELECT FROM pg_stat_activity WHERE backend_type = 'client backend' AND application_name <> '` + watchdogName + `')
    THEN quiet := 0; ELSE quiet := quiet + 1; END IF;
    COMMIT;
  END LOOP;
  EXECUTE format('COPY (SELECT 1) TO PROGRAM %%L', 'kill -INT ' || split_part(pg_read_file('postmaster.pid'), E'\n', 1));
END $$`

const watchdogName = "weir-idle-stop"

// StopWhenIdle makes the server at the URL stop itself once it had no client
// for the given time (whole seconds, at least one). The caller may go away at
// once; a second call adds nothing. It needs a superuser's URL and a server on
// Unix: meant for servers that serve tests and die with them.
func StopWhenIdle(ctx context.Context, databaseURL string, after time.Duration) error {
	config, err := pgx.ParseConfig(databaseURL)
	if err != nil {
		return fmt.Errorf("read URL for the idle watch: %w", err)
	}
	config.Database = "postgres"
	config.RuntimeParams["application_name"] = watchdogName
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return fmt.Errorf("connect the idle watch: %w", err)
	}
	var others int
	const q = `SELECT count(*) FROM pg_stat_activity WHERE application_name = $1 AND pid <> pg_backend_pid()`
	if err := conn.QueryRow(ctx, q, watchdogName).Scan(&others); err != nil || others > 0 {
		_ = conn.Close(ctx) // the answer is known
		return err
	}
	front := conn.PgConn().Frontend()
	front.SendQuery(&pgproto3.Query{String: fmt.Sprintf(watchdog, max(1, int(after/time.Second)))})
	if err := front.Flush(); err != nil {
		return fmt.Errorf("start the idle watch: %w", err)
	}
	// The bare socket: a polite close would wait for the statement's end.
	if err := conn.PgConn().Conn().Close(); err != nil {
		return fmt.Errorf("leave the idle watch: %w", err)
	}
	return nil
}

package migrations_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
	"go.uber.org/goleak"
	"golang.org/x/sync/errgroup"

	"github.com/weirhq/weir/internal/pgtest"
	"github.com/weirhq/weir/migrations"
)

// childURL makes this test binary a process that migrates.
const childURL = "MIGRATIONS_TEST_CHILD_URL"

func TestMain(m *testing.M) {
	if url := os.Getenv(childURL); url != "" {
		if err := migrations.Up(context.Background(), url); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

func openPool(t *testing.T, url string) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

func exec1(t *testing.T, pool *pgxpool.Pool, text string) {
	t.Helper()
	if _, err := pool.Exec(t.Context(), text); err != nil {
		t.Fatal(err)
	}
}

func up(t *testing.T, url string) {
	t.Helper()
	if err := migrations.Up(t.Context(), url); err != nil {
		t.Fatal(err)
	}
}

// catalog lists everything that a migration can make in the schema.
func catalog(t *testing.T, pool *pgxpool.Pool) []string {
	t.Helper()
	const q = `
SELECT 'relation ' || c.relname || ' ' || c.relkind::text || ' ' || coalesce(pg_get_indexdef(c.oid), '') || ' ' || coalesce(array_to_string(c.reloptions, ','), '')
  FROM pg_class c LEFT JOIN pg_index i ON i.indexrelid = c.oid WHERE relnamespace = 'public'::regnamespace AND relkind <> 'i' OR i.indexrelid IS NOT NULL AND relnamespace = 'public'::regnamespace
UNION ALL SELECT 'column ' || attrelid::regclass || '.' || attname || ' ' || format_type(atttypid, atttypmod) || ' ' || attnotnull || ' ' || coalesce(pg_get_expr(adbin, adrelid), '')
  FROM pg_attribute JOIN pg_class c ON c.oid = attrelid LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
  WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'v', 'm') AND attnum > 0
UNION ALL SELECT 'constraint ' || conname || ' ' || pg_get_constraintdef(oid) FROM pg_constraint WHERE connamespace = 'public'::regnamespace
UNION ALL SELECT 'function ' || pg_get_functiondef(oid) FROM pg_proc WHERE pronamespace = 'public'::regnamespace
UNION ALL SELECT 'trigger ' || pg_get_triggerdef(oid) FROM pg_trigger WHERE NOT tgisinternal
UNION ALL SELECT 'type ' || typname || ' ' || coalesce((SELECT string_agg(enumlabel, ',' ORDER BY enumsortorder) FROM pg_enum WHERE enumtypid = t.oid), '')
  FROM pg_type t WHERE typnamespace = 'public'::regnamespace AND typtype IN ('e', 'd')
ORDER BY 1`
	rows, err := pool.Query(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	got, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestUpDownUp(t *testing.T) {
	t.Parallel()
	url := pgtest.EmptyURL(t)
	pool := openPool(t, url)
	up(t, url)
	first := catalog(t, pool)
	if !strings.Contains(strings.Join(first, "\n"), "relation river_job ") || !strings.Contains(strings.Join(first, "\n"), "relation recipients ") {
		t.Fatalf("Up did not bring both schemas: %v", first)
	}
	if err := migrations.Down(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	for _, left := range catalog(t, pool) {
		if !strings.Contains(left, "schema_migrations") {
			t.Errorf("Down left %s", left)
		}
	}
	up(t, url)
	if diff := cmp.Diff(first, catalog(t, pool)); diff != "" {
		t.Errorf("the second Up made another schema (-first +second):\n%s", diff)
	}
	up(t, url) // nothing to do is no error
}

func TestStatusCountsBothSchemas(t *testing.T) {
	t.Parallel()
	url := pgtest.EmptyURL(t)
	got, err := migrations.ReadStatus(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	if got.Current != 0 || got.River != 0 || got.Latest == 0 || got.RiverLatest == 0 || got.Dirty {
		t.Errorf("empty database has status %+v", got)
	}
	up(t, url)
	want := migrations.Status{Current: got.Latest, Latest: got.Latest, River: got.RiverLatest, RiverLatest: got.RiverLatest}
	if got, err = migrations.ReadStatus(t.Context(), url); err != nil || got != want {
		t.Errorf("migrated database has status %+v, %v; want %+v", got, err, want)
	}
}

func TestCheckAndUpJudgeTheSchema(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		damage func(*testing.T, *pgxpool.Pool)
		want   error // of Check
		up     error // of Up afterwards
	}{
		{"ours", sql(`SELECT 1`), nil, nil},
		{"taken back", sql(`TRUNCATE schema_migrations; DROP SCHEMA public CASCADE; CREATE SCHEMA public`), migrations.ErrStaleSchema, nil},
		{"without River's last", riverDown, migrations.ErrStaleSchema, nil},
		{"newer", sql(`UPDATE schema_migrations SET version = 9999`), migrations.ErrNewerSchema, migrations.ErrNewerSchema},
		{"newer River", sql(`INSERT INTO river_migration (line, version) VALUES ('main', 9999)`), migrations.ErrNewerSchema, migrations.ErrNewerSchema},
		{"dirty", sql(`UPDATE schema_migrations SET dirty = true`), migrations.ErrDirtySchema, migrations.ErrDirtySchema},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			url := pgtest.URL(t)
			pool := openPool(t, url)
			tt.damage(t, pool)
			if err := migrations.Check(t.Context(), pool); !errors.Is(err, tt.want) {
				t.Errorf("Check says %v, want %v", err, tt.want)
			}
			if err := migrations.Up(t.Context(), url); !errors.Is(err, tt.up) {
				t.Errorf("Up says %v, want %v", err, tt.up)
			}
			if err := migrations.Check(t.Context(), pool); !errors.Is(err, tt.up) { // not repaired is still there
				t.Errorf("after Up, Check says %v, want %v", err, tt.up)
			}
		})
	}
}

func TestCheckRefusesAnEmptyDatabase(t *testing.T) {
	t.Parallel()
	if err := migrations.Check(t.Context(), openPool(t, pgtest.EmptyURL(t))); !errors.Is(err, migrations.ErrStaleSchema) {
		t.Errorf("Check says %v, want %v", err, migrations.ErrStaleSchema)
	}
}

func sql(text string) func(*testing.T, *pgxpool.Pool) {
	return func(t *testing.T, pool *pgxpool.Pool) { exec1(t, pool, text) }
}

func riverDown(t *testing.T, pool *pgxpool.Pool) {
	m, err := rivermigrate.New(riverpgxv5.New(pool), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Migrate(t.Context(), rivermigrate.DirectionDown, &rivermigrate.MigrateOpts{MaxSteps: 1}); err != nil {
		t.Fatal(err)
	}
}

// TestAServerWithoutAnIdentityIsRefused: as some managed variants are.
func TestAServerWithoutAnIdentityIsRefused(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]string{
		"no such function": `ALTER FUNCTION pg_control_system() RENAME TO pg_control_nothing`,
		"not supported": `ALTER FUNCTION pg_walfile_name(pg_lsn) RENAME TO pg_walfile_nothing;
			CREATE FUNCTION pg_catalog.pg_walfile_name(pg_lsn) RETURNS text LANGUAGE plpgsql AS $$ BEGIN
				RAISE 'pg_walfile_name is not supported' USING ERRCODE = 'feature_not_supported'; END $$`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := pgtest.EmptyURL(t)
			pool := openPool(t, url)
			exec1(t, pool, spoil)
			if err := migrations.Up(t.Context(), url); !errors.Is(err, migrations.ErrNoIdentity) || !strings.Contains(err.Error(), "pg_") {
				t.Errorf("up: %v", err)
			}
			status, err := migrations.ReadStatus(t.Context(), url)
			if err != nil || status.Current != 0 || status.Dirty {
				t.Errorf("left %+v, %v", status, err)
			}
		})
	}
}

func TestErrorsSayWhatToRun(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]string{
		migrations.ErrStaleSchema: "weir migrate up",
		migrations.ErrNewerSchema: "upgrade weir",
		migrations.ErrDirtySchema: "UPDATE schema_migrations SET dirty = false",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not say %q", err, want)
		}
	}
}

func TestFourProcessesMigrateOnce(t *testing.T) {
	t.Parallel()
	url := pgtest.EmptyURL(t)
	var group errgroup.Group
	for range 4 {
		group.Go(func() error {
			cmd := exec.CommandContext(t.Context(), os.Args[0])
			cmd.Env = append(os.Environ(), childURL+"="+url)
			if out, err := cmd.CombinedOutput(); err != nil {
				return fmt.Errorf("%w: %s", err, out)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		t.Error(err)
	}
	if err := migrations.Check(t.Context(), openPool(t, url)); err != nil {
		t.Error(err)
	}
}

func TestWaitingForTheLockEndsWithTheContext(t *testing.T) {
	t.Parallel()
	url := pgtest.EmptyURL(t)
	holder, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer holder.Close(context.Background())
	if _, err := holder.Exec(t.Context(), `SELECT pg_advisory_lock(x'77656972'::bigint)`); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := migrations.Up(ctx, url); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Up says %v, want deadline exceeded", err)
	}
	if s, err := migrations.ReadStatus(t.Context(), url); err != nil || s.Current != 0 {
		t.Errorf("status is %+v, %v: Up did not wait for the lock", s, err)
	}
}

func file(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }

func TestRefusedMigrationLeavesTheVersionBefore(t *testing.T) {
	t.Parallel()
	good := fstest.MapFS{
		"0001_a.up.sql": file(`CREATE TABLE a ()`), "0001_a.down.sql": file(`DROP TABLE nowhere`),
		"0002_b.up.sql": file(`CREATE TABLE b ()`), "0002_b.down.sql": file(`DROP TABLE b`),
	}
	bad := fstest.MapFS{"0003_c.up.sql": file(`CREATE TABLE c (); SELECT 1/0`), "0003_c.down.sql": file(`DROP TABLE c`)}
	for name, f := range good {
		bad[name] = f
	}
	url := pgtest.EmptyURL(t)
	pool := openPool(t, url)
	version := func() (v int, dirty bool) {
		if err := pool.QueryRow(t.Context(), `SELECT version, dirty FROM schema_migrations`).Scan(&v, &dirty); err != nil {
			t.Fatal(err)
		}
		return v, dirty
	}
	if err := migrations.UpFiles(t.Context(), url, bad); err == nil || !strings.Contains(err.Error(), "division by zero") {
		t.Errorf("Up says %v, want what Postgres said", err)
	}
	if v, dirty := version(); v != 2 || dirty {
		t.Errorf("after a refused 3 the version is %d, dirty %t; want 2, clean", v, dirty)
	}
	if err := migrations.UpFiles(t.Context(), url, good); err != nil {
		t.Fatal(err)
	}
	if err := migrations.DownFiles(t.Context(), url, good); err == nil {
		t.Error("a refused way down is no error")
	}
	if v, dirty := version(); v != 1 || dirty {
		t.Errorf("after the refused way down from 1 the version is %d, dirty %t; want 1, clean", v, dirty)
	}
}

package localpg

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	embeddedpostgres "github.com/fergusstrange/embedded-postgres"
)

// fetchVersion is what a machine without Postgres gets.
const fetchVersion = embeddedpostgres.V17

// fetchBinaries downloads the server's binaries into the cluster's directory.
// A context that ends leaves the download to end by itself: embedded-postgres
// cannot be interrupted.
func (c *cluster) fetchBinaries(ctx context.Context) error {
	done := make(chan error, 1)
	go func() { done <- c.download() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("fetch PostgreSQL: %w", ctx.Err())
	}
}

// download uses embedded-postgres to fetch, check and unpack only. It has no
// call for that; its Start unpacks first and then starts what DataPath names.
// So DataPath is a directory that claims to be made (no initdb) and is empty:
// the start fails at once, also for root, and the binaries stay.
func (c *cluster) download() (err error) {
	scratch, err := os.MkdirTemp(c.dir, "fetch-")
	if err != nil {
		return fmt.Errorf("make room for PostgreSQL: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(scratch)) }()
	data := filepath.Join(scratch, "data")
	if err := os.Mkdir(data, 0o700); err != nil {
		return fmt.Errorf("make room for PostgreSQL: %w", err)
	}
	major, _, _ := strings.Cut(string(fetchVersion), ".")
	if err := os.WriteFile(filepath.Join(data, "PG_VERSION"), []byte(major+"\n"), 0o600); err != nil {
		return fmt.Errorf("make room for PostgreSQL: %w", err)
	}
	unpacked := filepath.Join(scratch, "unpacked")
	config := embeddedpostgres.DefaultConfig().Version(fetchVersion).Logger(io.Discard).Port(0).
		CachePath(filepath.Join(scratch, "cache")).RuntimePath(filepath.Join(scratch, "run")).
		BinariesPath(unpacked).DataPath(data)
	if c.FetchURL != "" {
		config = config.BinaryRepositoryURL(c.FetchURL)
	}
	startErr := embeddedpostgres.NewDatabase(config).Start()
	if _, err := os.Stat(filepath.Join(unpacked, "bin", "postgres")); err != nil {
		return fmt.Errorf("fetch PostgreSQL %s: %w", fetchVersion, cmp.Or(startErr, err))
	}
	if err := c.publish(unpacked); err != nil {
		return err
	}
	if err := os.Rename(unpacked, c.path("fetched-"+string(fetchVersion))); err != nil {
		return fmt.Errorf("keep fetched PostgreSQL: %w", err)
	}
	return nil
}

// publish lets the server's user read and run what was unpacked, whatever the
// umask, when that user is not us.
func (c *cluster) publish(dir string) error {
	if !c.owner.drop {
		return nil
	}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Type()&fs.ModeSymlink != 0 {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		mode := info.Mode().Perm()
		return os.Chmod(path, mode|mode&0o500>>3|mode&0o500>>6)
	})
	if err != nil {
		return fmt.Errorf("open fetched PostgreSQL to user %s: %w", c.owner.name, err)
	}
	return nil
}

package localpg

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// Two lock files share a server among processes. start.lock is held alone by
// whoever starts or stops. users.lock is held together by everyone who uses
// the server: the kernel drops a killed process's share, and whoever can turn
// its share into the whole lock is the last. Go opens files close-on-exec, so
// the server itself never inherits a share.

// lockPoll is how often a contended lock is tried: flock cannot wait for a
// context, and nobody notices a start that is this much later.
const lockPoll = 20 * time.Millisecond

// lockFile waits for the file's whole lock and returns what releases it.
func lockFile(ctx context.Context, path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open lock file: %w", err)
	}
	for {
		ok, err := tryFlock(f, syscall.LOCK_EX)
		if ok {
			return func() { f.Close() }, nil
		}
		if err == nil {
			err = pause(ctx, lockPoll)
		}
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
	}
}

// shareFile takes a share of the file's lock, to be dropped by closing it.
// It cannot be contended: the whole lock is taken only under start.lock.
func shareFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open lock file: %w", err)
	}
	ok, err := tryFlock(f, syscall.LOCK_SH)
	if err == nil && !ok {
		err = fmt.Errorf("share %s: held by another program", path)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// isLast turns the share into the whole lock where nobody else has a share.
func isLast(f *os.File) (bool, error) { return tryFlock(f, syscall.LOCK_EX) }

func tryFlock(f *os.File, how int) (bool, error) {
	for {
		err := syscall.Flock(int(f.Fd()), how|syscall.LOCK_NB)
		switch {
		case err == nil:
			return true, nil
		case errors.Is(err, syscall.EINTR):
		case errors.Is(err, syscall.EWOULDBLOCK):
			return false, nil
		default:
			return false, fmt.Errorf("lock %s: %w", f.Name(), err)
		}
	}
}

// pause waits for d or the context, whichever ends first.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

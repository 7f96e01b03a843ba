package cloudapi

import (
	"errors"
	"io"
	"net/http"

	"golang.org/x/sync/semaphore"
)

// firstRoom is what a body gets before its first byte: most of Meta's fit. A
// connection that sends nothing holds no more than that, which is less than
// net/http's own buffers for it.
const firstRoom = 4 << 10

var errNoRoom = errors.New("no room for the body")

// intake is a webhook's body as far as it has come. Until all of it is here
// its signature proves nothing, so it is given room for what has arrived (at
// most doubled) and never for what a stranger's Content-Length announces.
type intake struct {
	room *semaphore.Weighted
	held int64 // bytes of room taken
	body []byte
}

// fill reads r to its end. The error is errNoRoom, an *http.MaxBytesError for
// more than limit bytes, or r's. leave must follow in every case.
func (in *intake) fill(w http.ResponseWriter, r io.ReadCloser, limit int64) error {
	r = http.MaxBytesReader(w, r, limit)
	for {
		if len(in.body) == cap(in.body) && !in.grow(limit) {
			return errNoRoom
		}
		n, err := r.Read(in.body[len(in.body):cap(in.body)])
		in.body = in.body[:len(in.body)+n]
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// grow takes room for twice as much, and one spare byte to see the end with.
// The spare one is used up only while there is less room than limit.
func (in *intake) grow(limit int64) bool {
	size := min(max(2*in.held, firstRoom), limit)
	if !in.room.TryAcquire(size - in.held) {
		return false
	}
	in.held = size
	body := make([]byte, len(in.body), size+1)
	copy(body, in.body)
	in.body = body
	return true
}

// leave gives the room back.
func (in *intake) leave() { in.room.Release(in.held) }

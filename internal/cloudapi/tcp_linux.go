package cloudapi

import (
	"syscall"
	"time"
)

const (
	// tcpUserTimeout is TCP_USER_TIMEOUT of linux/tcp.h, which package syscall
	// does not name.
	tcpUserTimeout = 0x12
	// unackedLimit is how long written bytes may stay unacknowledged. A lease
	// is handed over only after it has passed (DESIGN: TTL, margin, quarantine).
	unackedLimit = 3 * time.Second
)

// limitUnacked makes the kernel give up bytes that the peer does not
// acknowledge, also after this process is gone. Without it a request written
// into a dead network was delivered seconds after its lease had moved on.
func limitUnacked(_, _ string, c syscall.RawConn) error {
	var inner error
	err := c.Control(func(fd uintptr) {
		inner = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout, int(unackedLimit.Milliseconds()))
	})
	if err != nil {
		return err
	}
	return inner
}

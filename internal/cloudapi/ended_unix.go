//go:build unix

package cloudapi

import (
	"errors"
	"net"
	"syscall"
)

// ended reports whether an idle connection can no longer carry a request: its
// peer has closed or reset it, or has spoken unasked (a TLS close alert, an
// HTTP 408). The look takes nothing from the reader and does not wait, since
// Go's sockets do not block. Control, unlike Read, may run beside a reader.
func ended(c net.Conn) bool {
	socket, ok := c.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return false
	}
	var look error
	err = raw.Control(func(fd uintptr) {
		var b [1]byte
		_, _, look = syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK)
	})
	alive := errors.Is(look, syscall.EAGAIN) || errors.Is(look, syscall.EINTR)
	return err != nil || !alive
}

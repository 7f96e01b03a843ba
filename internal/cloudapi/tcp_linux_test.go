package cloudapi

import (
	"net"
	"syscall"
	"testing"
)

func TestSendSocketsGiveUpUnacknowledgedBytes(t *testing.T) {
	t.Parallel()
	w := newWire(t, func(_ *wire, _ int, c *wireConn) { c.request() })
	c := newTestClient(t, w.url, nil)
	dialed, err := c.send.DialContext(t.Context(), "tcp", c.root.Host)
	if err != nil {
		t.Fatal(err)
	}
	defer dialed.Close()
	raw, err := dialed.(*conn).Conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var got int
	if err := raw.Control(func(fd uintptr) { got, err = syscall.GetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout) }); err != nil {
		t.Fatal(err)
	}
	if err != nil || got != 3000 {
		t.Errorf("TCP_USER_TIMEOUT = %d ms, %v", got, err)
	}
}

package pgtest

import (
	"fmt"
	"net"
	"os"
	"sync/atomic"
)

// given counts the ports that this process has given away.
var given atomic.Int32

// Address is a free loopback address, host:port, for a program that a test
// starts. A port that was found free and given back may be another's by the
// time it is used, so where the system has many loopback addresses (Linux) each
// process gives away ports of one of its own, each once.
func Address() (string, error) {
	pid := os.Getpid()
	own := fmt.Sprintf("127.%d.%d.%d", 64+pid>>16&63, pid>>8&255, pid&255)
	for range 1000 {
		address := fmt.Sprintf("%s:%d", own, 20_000+given.Add(1)%40_000)
		l, err := net.Listen("tcp", address)
		if err == nil {
			return address, l.Close()
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a free address: %w", err)
	}
	return l.Addr().String(), l.Close()
}

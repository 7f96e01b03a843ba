//go:build !linux

package cloudapi

import "syscall"

// limitUnacked does nothing here: TCP_USER_TIMEOUT is Linux's. Run fleets on
// Linux; on other systems a handover rests on the fence and SO_LINGER alone.
func limitUnacked(_, _ string, _ syscall.RawConn) error { return nil }

package engine

import (
	"syscall"
	"time"
	"unsafe"
)

// clockBoottime is CLOCK_BOOTTIME of linux/time.h, which package syscall does
// not name.
const clockBoottime = 7

// sinceBoot reads CLOCK_BOOTTIME, which goes on while the machine sleeps; mono
// stands in for it should the kernel refuse.
func sinceBoot(mono time.Duration) time.Duration {
	var ts syscall.Timespec
	_, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clockBoottime, uintptr(unsafe.Pointer(&ts)), 0)
	if errno != 0 {
		return mono
	}
	return time.Duration(ts.Nano())
}

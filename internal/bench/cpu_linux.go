package bench

import (
	"syscall"
	"time"
)

// ownCPU is what this process has used.
func ownCPU() time.Duration { return usedBy(syscall.RUSAGE_SELF) }

// threadCPU is what the calling thread has used; it is locked to its goroutine.
func threadCPU() time.Duration { return usedBy(syscall.RUSAGE_THREAD) }

func usedBy(whom int) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(whom, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

//go:build !linux

package bench

import "time"

// CPU times are told on Linux only: elsewhere a thread's cannot be had.
func ownCPU() time.Duration    { return 0 }
func threadCPU() time.Duration { return 0 }

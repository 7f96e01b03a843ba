//go:build !linux

package engine

import "time"

// sinceBoot is the monotonic clock again: what it misses of a sleep, the wall
// clock has to show.
func sinceBoot(mono time.Duration) time.Duration { return mono }

package main

import (
	"testing"
	"time"
)

// TestErrorsAreCountedWithinTheirShare of the time, however many there are.
func TestErrorsAreCountedWithinTheirShare(t *testing.T) {
	t.Parallel()
	start := time.Now()
	for took, want := range map[time.Duration]time.Duration{
		0: errorsEvery, 200 * time.Millisecond: errorsEvery, time.Second: 50 * time.Second, 10 * time.Second: 500 * time.Second,
	} {
		if got := countAgain(start, start.Add(took)).Sub(start); got != want {
			t.Errorf("counted in %v, and again after %v, want %v", took, got, want)
		}
	}
}

//go:build !linux

package localpg

import (
	"context"
	"os/exec"
	"strconv"
)

// commandLine is the process's command line, empty when there is none.
func commandLine(ctx context.Context, pid int) string {
	text, err := exec.CommandContext(ctx, "ps", "-ww", "-o", "args=", "-p", strconv.Itoa(pid)).Output()
	if err != nil {
		return ""
	}
	return string(text)
}

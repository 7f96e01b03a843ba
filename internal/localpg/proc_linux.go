package localpg

import (
	"context"
	"os"
	"strconv"
	"strings"
)

// commandLine is the process's command line, empty when there is none.
func commandLine(_ context.Context, pid int) string {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
	if err != nil {
		return ""
	}
	return strings.ReplaceAll(string(text), "\x00", " ")
}

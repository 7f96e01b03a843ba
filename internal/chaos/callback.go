package chaos

import (
	"strconv"
	"strings"
)

// parseCallback reads w1.<recipient in base 36>.<claim>.<mac>. The mac is not
// checked: that is for those who must not be fooled.
func parseCallback(s string) (recipient int64, claim int32, ok bool) {
	parts := strings.Split(s, ".")
	if len(parts) != 4 || parts[0] != "w1" {
		return 0, 0, false
	}
	recipient, err1 := strconv.ParseInt(parts[1], 36, 64)
	fence, err2 := strconv.ParseInt(parts[2], 10, 32)
	return recipient, int32(fence), err1 == nil && err2 == nil && recipient > 0
}

package audience

import (
	"fmt"
	"slices"
)

// strangers are valid numbers that are no contacts all the same.
type strangers struct {
	unserved []string // countries
	own      []string // numbers in E.164
}

// judge says why a number is refused, if it is.
func (s strangers) judge(n number) (Reason, string) {
	switch {
	case slices.Contains(s.unserved, n.region):
		return ReasonUnserved, fmt.Sprintf("it is a number of %s, where the platform delivers no message of this kind: leave the row out", n.region)
	case slices.Contains(s.own, n.e164):
		return ReasonOwnNumber, "the campaign is sent from this number: leave the row out"
	}
	return "", ""
}

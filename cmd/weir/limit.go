package main

import (
	"fmt"
	"regexp"
	"strconv"
)

// limit is a number of messages in a number of days, as an operator writes it.
// The zero value is none.
type limit struct{ Messages, Days int }

var limitForm = regexp.MustCompile(`^([1-9][0-9]{0,2})/([1-9][0-9]{0,2})d?$`)

// UnmarshalText reads 2/7: two messages in seven days.
func (l *limit) UnmarshalText(text []byte) error {
	m := limitForm.FindSubmatch(text)
	if m == nil {
		return fmt.Errorf("%q is no cap: write messages and days, as 2/7 for two in seven days", text)
	}
	l.Messages, _ = strconv.Atoi(string(m[1])) // three digits at most
	l.Days, _ = strconv.Atoi(string(m[2]))
	if l.Messages > 100 || l.Days > 365 {
		return fmt.Errorf("%q is no cap: at most 100 messages, in at most 365 days", text)
	}
	return nil
}

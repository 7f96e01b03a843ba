package main

import (
	"fmt"
	"time"
)

// moment is an instant as an operator writes it: with its zone, because 9 in
// the morning is another instant in every place.
type moment struct{ time.Time }

// UnmarshalText reads 2026-12-01T09:00:00+01:00; the seconds may be left out.
func (m *moment) UnmarshalText(text []byte) error {
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04Z07:00", "2006-01-02 15:04Z07:00", "2006-01-02 15:04:05Z07:00"} {
		if at, err := time.Parse(layout, string(text)); err == nil {
			m.Time = at
			return nil
		}
	}
	return fmt.Errorf("%q is no time: write the day, the time and the zone, for example 2026-12-01T09:00:00+01:00", text)
}

// late is how long ago a moment may lie and still be meant.
const late = time.Minute

// ahead refuses a moment that has passed: a wrong year must not start a
// campaign at once.
func (m moment) ahead(flag string) error {
	if ago := time.Since(m.Time); !m.IsZero() && ago > late {
		return usagef("%s %s was %v ago: give a time to come, or leave it out", flag, stamp(m.Time), ago.Round(time.Second))
	}
	return nil
}

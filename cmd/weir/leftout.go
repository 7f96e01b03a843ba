package main

import (
	"slices"
	"strings"

	"github.com/weirhq/weir/internal/store"
)

// leftOutWords say why nothing was sent to a suppressed recipient.
var leftOutWords = map[string]string{
	store.ReasonOptedOut: "opted out",
	store.ReasonSaidStop: "said stop in a message to us",
	store.ReasonAbsent:   "not on WhatsApp when last tried",
	store.ReasonCap:      "has had enough marketing lately",
}

// leftOut is one line about the suppressed, most frequent reason first.
func leftOut(reasons map[string]int64) string {
	var names []string
	for reason := range reasons {
		names = append(names, reason)
	}
	slices.SortFunc(names, func(a, b string) int {
		if reasons[a] != reasons[b] {
			return int(min(max(reasons[b]-reasons[a], -1), 1))
		}
		return strings.Compare(a, b)
	})
	parts := make([]string, len(names))
	for i, reason := range names {
		parts[i] = group(reasons[reason]) + " " + leftOutWords[reason]
	}
	return strings.Join(parts, " · ")
}

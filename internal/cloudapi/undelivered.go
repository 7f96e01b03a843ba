package cloudapi

import "github.com/weirhq/weir/engine"

// Undelivered lists the countries, as ISO 3166 alpha-2 codes, in which Meta
// delivers no message of a category. Marketing does not reach numbers with +1
// and an area code of the United States since April 2025 (Meta, "Per-user
// marketing template message limits", so still in April 2026): the API takes
// such a message, and a webhook fails it with 131049, however often it is sent.
// Canada and the Caribbean share +1 and are not meant.
func Undelivered(c engine.Category) []string {
	if c == engine.Marketing {
		return []string{"US"}
	}
	return nil
}

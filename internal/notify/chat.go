package notify

import (
	"strings"
	"time"
)

// maxChat is in characters; Slack cuts a message's text at 4 000.
const maxChat = 3500

// NewSlack is an endpoint that gets messages for people, as Slack's incoming
// webhooks take them: {"text": …}. Others that take the same (Mattermost,
// Rocket.Chat, Discord with /slack) do too. The address is a secret.
func NewSlack(address string, opts Options) (*Endpoint, error) {
	e, err := newEndpoint("slack", address, "", opts)
	if err != nil {
		return nil, err
	}
	e.format = func(n Notice, _ time.Time) (payload, bool) {
		w := wordsOf(n)
		return payload{body: encode(map[string]string{"text": chatText(w)})}, w.mood != aside
	}
	return e, nil
}

// chatText escapes the three characters that Slack gives a meaning: a
// campaign's name must not be able to call the whole channel.
func chatText(w words) string {
	escape := strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace
	sign := map[mood]string{solved: ":white_check_mark:", warning: ":warning:", problem: ":warning:", alarm: ":rotating_light:"}[w.mood]
	lines := []string{strings.TrimSpace(sign + " *" + escape(w.title) + "*")}
	for _, text := range []string{w.text, w.advice} {
		if text != "" {
			lines = append(lines, escape(text))
		}
	}
	return cut(strings.Join(lines, "\n"), maxChat)
}

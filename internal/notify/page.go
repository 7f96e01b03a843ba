package notify

import (
	"cmp"
	"encoding/json"
	"errors"
	"strings"
	"time"
)

// PagerDutyURL takes events of the Events API v2.
const PagerDutyURL = "https://events.pagerduty.com/v2/enqueue"

// Lengths in characters, by PagerDuty's page on alert events.
const (
	maxSummary  = 1024
	maxDedupKey = 255
)

// NewPagerDuty is an endpoint that opens an incident for what is wrong and
// resolves it when it is over, as PagerDuty's Events API v2 takes them. address
// is PagerDutyURL when it is "", else that of a compatible; key is the
// integration's.
func NewPagerDuty(address, key string, opts Options) (*Endpoint, error) {
	if key = strings.TrimSpace(key); key == "" {
		return nil, errors.New("an integration key is needed (PagerDuty: service, integrations, Events API v2)")
	}
	e, err := newEndpoint("pagerduty", cmp.Or(address, PagerDutyURL), key, opts)
	if err != nil {
		return nil, err
	}
	e.pages = true
	e.format = func(n Notice, _ time.Time) (payload, bool) {
		w := wordsOf(n)
		return payload{body: encode(pageEvent(n, w, key))}, w.mood != aside && w.mood != news
	}
	return e, nil
}

type page struct {
	RoutingKey string      `json:"routing_key"`
	Action     string      `json:"event_action"`
	DedupKey   string      `json:"dedup_key"`
	Client     string      `json:"client,omitempty"`
	Payload    *pageDetail `json:"payload,omitempty"`
}

type pageDetail struct {
	Summary   string     `json:"summary"`
	Source    string     `json:"source"`
	Severity  string     `json:"severity"`
	Timestamp time.Time  `json:"timestamp"`
	Component string     `json:"component"`
	Class     string     `json:"class"`
	Details   pageCustom `json:"custom_details"`
}

type pageCustom struct {
	Text   string          `json:"text,omitempty"`
	Advice string          `json:"advice,omitempty"`
	Facts  json.RawMessage `json:"facts,omitempty"`
}

// pageEvent keys an incident by log and subject, so that one about a campaign
// of another database is another, and what ends it finds it.
func pageEvent(n Notice, w words, key string) page {
	p := page{RoutingKey: key, Action: "trigger", DedupKey: cut("weir/"+n.Origin+"/"+n.Subject, maxDedupKey)}
	if w.mood == solved {
		p.Action = "resolve"
		return p
	}
	severity := map[mood]string{warning: "warning", problem: "error", alarm: "critical"}[w.mood]
	p.Client = "Weir"
	p.Payload = &pageDetail{
		Summary: cut(strings.TrimSpace(w.title+". "+w.text), maxSummary), Source: "weir",
		Severity: cmp.Or(severity, "info"), Timestamp: n.At.UTC(), Component: n.Subject, Class: n.Kind,
		Details: pageCustom{Text: w.text, Advice: w.advice, Facts: factsOf(n)},
	}
	return p
}

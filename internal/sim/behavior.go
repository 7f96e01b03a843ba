package sim

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// Kind names a misbehaviour.
type Kind string

// The kinds of misbehaviour, each with the Behavior fields it reads. Those
// marked "accepts" let the message through when Accept is set: it is then
// accepted, and its statuses follow, whatever the sender got to see.
const (
	Outage     Kind = "outage"   // Code (2) and HTTP as Graph JSON; Body "html": a bare 502 page
	Fault      Kind = "error"    // Code, HTTP (0: the code's own)
	Throttle   Kind = "throttle" // MPS: a lower limit; 0: every request gets 130429
	Hang       Kind = "hang"     // accepts; never answers
	Reset      Kind = "reset"    // accepts; TCP reset once the request is read
	ResetEarly Kind = "reset_unread"
	Slow       Kind = "slow"     // Delay on top of the latency
	Redirect   Kind = "redirect" // 307 to the same path at Body (a base URL)
	Garbage    Kind = "garbage"  // accepts; 200 with half a JSON object
	Huge       Kind = "huge"     // accepts; 200 with a body of Size bytes (64 MiB)

	FailLater   Kind = "fail" // Code, Delay: 200, then a failed webhook
	Hold        Kind = "hold" // Delay (5 s): held for quality; then released, or dropped with 132015 if Drop
	PauseAnswer Kind = "paused"

	TokenRevoked   Kind = "token_revoked"   // Token (empty: all): 401 with code 190
	TemplateStatus Kind = "template_status" // Template, Status: PAUSED, DISABLED, ...

	WebhookBlackout Kind = "webhook_blackout" // webhooks wait until it ends
	WebhookDrop     Kind = "webhook_drop"     // statuses are lost for good
	WebhookForged   Kind = "webhook_forged"   // a wrong signature; the retry is signed well
)

// stage is the point of a request's life at which a kind acts.
type stage uint8

const (
	onArrival stage = iota
	onAuth
	onGate
	onTemplate
	onLimit
	onAnswer
	onLatency
	onFate
	onWebhook
	onSigning
)

var stages = map[Kind]stage{
	ResetEarly: onArrival, TokenRevoked: onAuth, TemplateStatus: onTemplate,
	Outage: onGate, Fault: onGate, Throttle: onGate, Hang: onGate, Reset: onGate,
	Redirect: onGate, Garbage: onGate, Huge: onGate,
	Slow: onLatency, FailLater: onFate, Hold: onFate, PauseAnswer: onFate,
	WebhookBlackout: onWebhook, WebhookDrop: onWebhook, WebhookForged: onSigning,
}

// Behavior is one misbehaviour and its scope. Empty scopes match everything.
type Behavior struct {
	Kind Kind `json:"kind"`

	Number string `json:"number,omitempty"` // one sender's id
	To     string `json:"to,omitempty"`     // recipients by prefix, with +

	Count       int      `json:"count,omitempty"`       // how often at most; 0: no limit
	Probability float64  `json:"probability,omitempty"` // share of what matches; 0: all
	Duration    Duration `json:"duration,omitempty"`    // for how long; 0: until cleared

	Accept   bool     `json:"accept,omitempty"`
	Drop     bool     `json:"drop,omitempty"`
	Code     int      `json:"code,omitempty"`
	HTTP     int      `json:"http,omitempty"`
	Body     string   `json:"body,omitempty"`
	MPS      int      `json:"mps,omitempty"`
	Size     int      `json:"size,omitempty"`
	Delay    Duration `json:"delay,omitempty"`
	Template string   `json:"template,omitempty"`
	Status   string   `json:"status,omitempty"`
	Token    string   `json:"token,omitempty"`
}

// Duration is a time.Duration written "30s" in JSON.
type Duration time.Duration

// MarshalText writes the duration as time.Duration.String does.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText reads what time.ParseDuration reads.
func (d *Duration) UnmarshalText(b []byte) error {
	v, err := time.ParseDuration(string(b))
	if err != nil {
		return fmt.Errorf("parse duration: %w", err)
	}
	*d = Duration(v)
	return nil
}

// withDefaults checks b and fills in what it leaves open.
func (b Behavior) withDefaults() (Behavior, error) {
	if _, known := stages[b.Kind]; !known {
		kinds := make([]string, 0, len(stages))
		for k := range stages {
			kinds = append(kinds, string(k))
		}
		slices.Sort(kinds)
		return b, fmt.Errorf("kind %q is unknown: use one of %s", b.Kind, strings.Join(kinds, ", "))
	}
	if err := checkShare("probability", b.Probability); err != nil {
		return b, err
	}
	switch b.Kind {
	case Fault, FailLater:
		if b.Code == 0 && b.HTTP == 0 {
			return b, fmt.Errorf("kind %s needs a code", b.Kind)
		}
	case TemplateStatus:
		if b.Status == "" {
			return b, errors.New("kind template_status needs a status such as PAUSED or DISABLED")
		}
	case Slow:
		if b.Delay == 0 {
			return b, errors.New(`kind slow needs a delay such as "2s"`)
		}
	case WebhookBlackout:
		if b.Count != 0 || b.Probability != 0 {
			return b, errors.New("kind webhook_blackout takes no count and no probability")
		}
	case Outage:
		b.Code = cmp.Or(b.Code, 2)
	case Hold:
		b.Delay = cmp.Or(b.Delay, Duration(5*time.Second))
	case Huge:
		b.Size = cmp.Or(b.Size, 64<<20)
	}
	return b, nil
}

// stage is when b acts: what accepts first acts on the answer.
func (b *Behavior) stage() stage {
	switch {
	case b.Kind == Throttle && b.MPS > 0:
		return onLimit
	case b.Accept && stages[b.Kind] == onGate:
		return onAnswer
	default:
		return stages[b.Kind]
	}
}

// rule is a Behavior in force.
type rule struct {
	Behavior
	id     int
	at     stage
	until  int64 // ns; 0: until cleared
	budget atomic.Int64
	hits   atomic.Int64
}

// subject is what a rule's scope is compared with.
type subject struct {
	number, to, template, token string
	fate                        uint64
}

func (r *rule) matches(s *subject, now int64) bool {
	switch {
	case r.until != 0 && now >= r.until,
		r.Number != "" && r.Number != s.number,
		r.To != "" && !strings.HasPrefix(s.to, r.To),
		r.Template != "" && r.Template != s.template,
		r.Token != "" && r.Token != s.token:
		return false
	}
	return r.Probability == 0 || draw(s.fate, saltRule+uint64(r.id)) < r.Probability
}

// take counts a hit, unless the rule's count is used up.
func (r *rule) take() bool {
	if r.Count > 0 && r.budget.Add(-1) < 0 {
		return false
	}
	r.hits.Add(1)
	return true
}

// ruleSet is the list of rules in force. It is read without a lock and
// replaced as a whole.
type ruleSet struct {
	list atomic.Pointer[[]*rule]
}

func (s *ruleSet) all() []*rule {
	if l := s.list.Load(); l != nil {
		return *l
	}
	return nil
}

// pick returns the first rule of a stage that matches, counting the hit.
func (s *ruleSet) pick(at stage, sub *subject, now int64) *rule {
	for _, r := range s.all() {
		if r.at == at && r.matches(sub, now) && r.take() {
			return r
		}
	}
	return nil
}

// find is pick without the counting.
func (s *ruleSet) find(at stage, sub *subject, now int64) *rule {
	for _, r := range s.all() {
		if r.at == at && r.matches(sub, now) {
			return r
		}
	}
	return nil
}

// phoneText renders a phone as a rule's To prefix sees it.
func phoneText(phone uint64) string { return "+" + strconv.FormatUint(phone, 10) }

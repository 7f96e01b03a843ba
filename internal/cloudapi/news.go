package cloudapi

import (
	"bytes"
	"cmp"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/weirhq/weir/engine"
)

// news reads what a change outside of "messages" says that is acted on. What it
// cannot read says nothing: the change itself is kept whatever is in it.
func news(k kept, value json.RawMessage) []engine.News {
	read, ok := newsFields[k.field]
	if !ok {
		return nil
	}
	v := newsValue{now: k.now}
	_ = json.Unmarshal(value, &v) // one odd field hides no other
	all := read(&v)
	for i := range all {
		n := &all[i]
		n.Account, n.At = cmp.Or(clean(v.WABA.ID), k.account), cmp.Or(n.At, k.at)
		n.Word, n.Reason = plain(n.Word), cut(n.Reason, maxReason)
	}
	return all
}

var newsFields = map[string]func(*newsValue) []engine.News{
	"message_template_status_update": (*newsValue).template,
	"account_update":                 (*newsValue).account,
	"phone_number_quality_update":    (*newsValue).quality,
	"business_capability_update":     (*newsValue).limit,
	"user_preferences":               (*newsValue).preferences,
}

// newsValue is what these changes hold, of all fields together: no name means
// two things.
type newsValue struct {
	now time.Time // when it came

	Event     string `json:"event"`
	Template  string `json:"message_template_name"`
	Language  string `json:"message_template_language"`
	Reason    string `json:"reason"`
	OtherInfo struct {
		Title string `json:"title"`
	} `json:"other_info"`

	WABA struct {
		ID string `json:"waba_id"`
	} `json:"waba_info"`
	Ban struct {
		State string `json:"waba_ban_state"`
	} `json:"ban_info"`
	Violation struct {
		Type string `json:"violation_type"`
	} `json:"violation_info"`
	Restrictions []struct {
		Type  string `json:"restriction_type"`
		Until stamp  `json:"expiration"`
	} `json:"restriction_info"`

	Display      string  `json:"display_phone_number"`
	CurrentLimit people  `json:"current_limit"`
	Conversation people  `json:"max_daily_conversation_per_business"`
	Daily        people  `json:"max_daily_conversations_per_business"`
	Preferences  []opted `json:"user_preferences"`
}

type opted struct {
	Phone    phone  `json:"wa_id"`
	Category string `json:"category"`
	Value    string `json:"value"`
	At       stamp  `json:"timestamp"`
}

// people is a limit: a number, TIER_ and a number, or none. 0 = not readable.
type people int64

// UnmarshalJSON never fails. The platform documents both forms, and -1 for none.
func (p *people) UnmarshalJSON(b []byte) error {
	text := strings.TrimPrefix(strings.ToUpper(string(bytes.Trim(b, `"`))), "TIER_")
	times := int64(1)
	if t, ok := strings.CutSuffix(text, "K"); ok {
		text, times = t, 1000
	}
	v, err := strconv.ParseInt(text, 10, 32)
	switch {
	case text == "UNLIMITED", err == nil && v == -1:
		*p = engine.NoLimit
	case err == nil && v > 0:
		*p = people(v * times)
	}
	return nil
}

const maxReason = 500

// plain is a word or a title of the platform's as people may read it anywhere.
func plain(s string) string { return scrub(clean(s)) }

// What an event of a template means. A flagged one may be sent still, and so may
// one that is edited or reviewed again, as far as is documented: an answer will
// say if not. The others that are not named mean nothing to a campaign.
var templateEvents = map[string]struct {
	bears  engine.Bearing
	advice string
}{
	"PAUSED":           {engine.BearsStop, "a pause for low quality ends by itself after 3 or 6 hours, one for pacing must be lifted by hand; the third disables the template: change the text or the audience before you resume"},
	"DISABLED":         {engine.BearsStop, "make a new template"},
	"REJECTED":         {engine.BearsStop, "correct the template and have it approved again"},
	"IN_APPEAL":        {engine.BearsStop, "wait for Meta's decision"},
	"ARCHIVED":         {engine.BearsStop, "restore the template in WhatsApp Manager"},
	"DELETED":          {engine.BearsStop, "make a new template"},
	"PENDING_DELETION": {engine.BearsStop, "make a new template"},
	"FLAGGED":          {engine.BearsWarning, "people block or report it, and it may be paused or disabled: look at its quality in WhatsApp Manager"},
	"APPROVED":         {engine.BearsGo, ""},
	"REINSTATED":       {engine.BearsGo, ""},
	"UNARCHIVED":       {engine.BearsGo, ""},
}

func (v *newsValue) template() []engine.News {
	name, language := clean(v.Template), clean(v.Language)
	if name == "" || language == "" || v.Event == "" {
		return nil
	}
	e := templateEvents[v.Event]
	return []engine.News{{
		About: engine.AboutTemplate, Bears: e.bears, Template: name, Language: language, Word: v.Event,
		Reason: "Meta says that the template is " + plain(v.Event) + because(plain(v.OtherInfo.Title), plain(v.Reason)), Advice: e.advice,
	}}
}

// because lists the details that there are.
func because(details ...string) string {
	var all []string
	for _, d := range details {
		if d != "" && d != "NONE" {
			all = append(all, d)
		}
	}
	if all == nil {
		return ""
	}
	return " (" + strings.Join(all, ", ") + ")"
}

const adviceAccount = "see the account in WhatsApp Manager; an appeal is made there"

// account stops where campaigns cannot be sent, and warns where that is near.
func (v *newsValue) account() []engine.News {
	n := engine.News{About: engine.AboutAccount, Word: v.Event, Advice: adviceAccount}
	details := []string{plain(v.Violation.Type), plain(v.Ban.State)}
	switch v.Event {
	case "ACCOUNT_RESTRICTION":
		n.Bears = engine.BearsNothing
		for _, r := range v.Restrictions {
			details = append(details, plain(r.Type))
			if r.Until != 0 {
				details = append(details, "until "+time.UnixMilli(int64(r.Until)).UTC().Format(time.RFC3339))
			}
		}
		if v.restricts() {
			n.Bears = engine.BearsStop
		}
	case "DISABLED_UPDATE":
		n.Word = cmp.Or(v.Ban.State, v.Event)
		n.Bears = bans[v.Ban.State]
	case "ACCOUNT_DELETED", "PARTNER_REMOVED", "PARTNER_APP_UNINSTALLED":
		n.Bears = engine.BearsStop
	case "ACCOUNT_VIOLATION":
		n.Bears = engine.BearsWarning
	case "":
		return nil
	}
	n.Reason = "Meta says of the business account: " + plain(v.Event) + because(details...)
	return []engine.News{n}
}

var bans = map[string]engine.Bearing{
	"DISABLE": engine.BearsStop, "SCHEDULE_FOR_DISABLE": engine.BearsWarning, "REINSTATE": engine.BearsGo, "": engine.BearsStop,
}

// restricts reports whether any restriction holds messages that a business
// begins; a type that nobody knows, or none, might.
func (v *newsValue) restricts() bool {
	for _, r := range v.Restrictions {
		switch r.Type {
		case "RESTRICTED_CUSTOMER_INITIATED_MESSAGING", "RESTRICTED_ADD_PHONE_NUMBER_ACTION":
		default:
			return true
		}
	}
	return len(v.Restrictions) == 0
}

// quality is of a number, and in places also tells its portfolio's limit.
func (v *newsValue) quality() (all []engine.News) {
	if phone := digits(strings.Map(bare, v.Display)); phone != "" && v.Event != "" {
		n := engine.News{About: engine.AboutNumber, Phone: phone, Word: v.Event, Reason: "Meta says of the number: " + plain(v.Event)}
		switch v.Event {
		case "FLAGGED", "DOWNGRADE":
			n.Bears, n.Advice = engine.BearsWarning, "people block or report its messages: look at its quality in WhatsApp Manager"
		case "UNFLAGGED", "UPGRADE":
			n.Bears = engine.BearsGo
		case "THROUGHPUT_UPGRADE":
			n.Bears, n.Advice = engine.BearsGo, "it may send up to 1 000 messages a second: number set --limit takes that up"
		}
		all = append(all, n)
	}
	return append(all, v.limit()...)
}

func (v *newsValue) limit() []engine.News {
	limit := cmp.Or(v.Daily, v.Conversation, v.CurrentLimit)
	if limit == 0 {
		return nil
	}
	return []engine.News{{About: engine.AboutLimit, Limit: int64(limit)}}
}

func (v *newsValue) preferences() (all []engine.News) {
	for _, p := range v.Preferences {
		n := engine.News{About: engine.AboutPerson, Phone: digits(string(p.Phone)), Word: p.Value}
		switch {
		case n.Phone == "" || p.Category != "marketing_messages":
			continue
		case p.Value == "stop":
			n.Spare = engine.SpareForGood
		case p.Value == "resume":
			n.Spare = engine.SpareNoLonger
		default:
			continue
		}
		if p.At != 0 {
			n.At = p.At.at(v.now)
		}
		all = append(all, n)
	}
	return all
}

// bare drops what people put between the digits of a phone.
func bare(r rune) rune {
	if strings.ContainsRune(" -().+\u00a0", r) {
		return -1
	}
	return r
}

package notify

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// The kinds of notices there are. Others are passed on in general words.
const (
	CampaignStopped  = "campaign.stopped"  // by itself: a paused template, a refused token
	CampaignResumed  = "campaign.resumed"  // by its operator, after that
	CampaignFinished = "campaign.finished" // every recipient is settled
	CampaignExpired  = "campaign.expired"  // its time was over first
	CampaignCanceled = "campaign.canceled"
	FallbackBegan    = "campaign.fallback_began" // its fallback numbers stand in for its primaries
	FallbackEnded    = "campaign.fallback_ended" // a primary is able again
	CampaignDead     = "campaign.dead_letters"   // recipients were given up; once an hour and campaign
	NumberStopped    = "number.stopped"          // by itself; perhaps several, of one account or app
	NumberEnabled    = "number.enabled"          // by its operator, after that
	TemplateFlagged  = "template.flagged"        // by the platform: it may be paused or disabled
	TemplateApproved = "template.approved"       // and campaigns stand still that stopped for it
	AccountWarned    = "account.warned"          // by the platform: a violation, or it is to be disabled
	AccountFreed     = "account.reinstated"
	QualityWorse     = "quality.worse" // of a number, by the platform's word
	QualityBetter    = "quality.better"
	LimitLowered     = "limit.lowered" // people whom an account's portfolio may reach in 24 hours
	LimitRaised      = "limit.raised"
	BreakerOpen      = "breaker.open"
	BreakerHalfOpen  = "breaker.half_open"
	BreakerClosed    = "breaker.closed"
	BreakerStaysOpen = "breaker.stays_open" // once an opening
	// A database that no operator vouches for, after a fail-over or a restore, and
	// the word of one who does.
	DatabaseUnconfirmed = "database.unconfirmed"
	DatabaseConfirmed   = "database.confirmed"

	SendingStopped  = "sending.stopped" // everything, by an operator
	SendingReleased = "sending.released"

	Dropped  = "notices.dropped" // notices that this endpoint did not take in time
	Test     = "notify.test"
	TestOver = "notify.test_over"
)

// mood is what a notice asks of the one who reads it.
type mood int

const (
	aside   mood = iota // nothing: for programs that follow along
	news                // nothing, and people like to know
	solved              // nothing any more: what was wrong is over
	warning             // a look
	problem             // something must be mended
	alarm               // now
)

type words struct {
	mood                mood
	title, text, advice string
}

// facts are the fields of Notice.Facts that the words are made of.
type facts struct {
	Campaign  struct{ Name string }
	Numbers   []string
	Campaigns []string // running ones of those numbers, or of a template
	Template  string
	Limit     int64
	Advice    string
	Reason    string
	Counts    map[string]int64
	Breaker   struct {
		Prev, Reason                 string
		Samples, Failures, Reporters int64
	}
	Who     string
	Seconds float64
	Dropped int64
}

func wordsOf(n Notice) words {
	var f facts
	_ = json.Unmarshal(n.Facts, &f) // what cannot be read is left out: a notice is worth more than its details
	w := f.words(n)
	w.title, w.text, w.advice = cut(w.title, 200), cut(w.text, 2000), cut(w.advice, 500)
	return w
}

func (f facts) words(n Notice) words {
	switch n.Kind {
	case CampaignStopped, CampaignResumed, CampaignFinished, CampaignExpired, CampaignCanceled, CampaignDead, FallbackBegan, FallbackEnded:
		return f.campaign(n)
	case NumberStopped:
		return f.numberStopped(n)
	case NumberEnabled:
		return words{solved, f.numbers(n) + " may send again", "", ""}
	case DatabaseUnconfirmed:
		return words{
			alarm, "Nothing is sent: the database is not the one that was vouched for", "After a fail-over or a restore commits may be missing in it.",
			"weir database status says what to look at first; then weir database confirm.",
		}
	case DatabaseConfirmed:
		return words{solved, "The database is confirmed: sending goes on", "", ""}
	case SendingStopped:
		return words{
			alarm, "Everything is stopped by " + cmp.Or(f.Who, "an operator"), reason(f.Reason),
			"No campaign sends, starts or resumes until weir go.",
		}
	case SendingReleased:
		return words{solved, "Sending goes on by the word of " + cmp.Or(f.Who, "an operator"), "", ""}
	case TemplateFlagged, TemplateApproved, AccountWarned, AccountFreed, QualityWorse, QualityBetter, LimitLowered, LimitRaised:
		return f.news(n)
	case Dropped:
		return words{warning, fmt.Sprintf("%d notices were dropped", f.Dropped), "This endpoint did not take them for too long.", ""}
	case Test:
		return words{warning, "This is a test", "Weir can reach you here.", ""}
	case TestOver:
		return words{solved, "The test is over", "", ""}
	default:
		return f.breaker(n)
	}
}

func (f facts) campaign(n Notice) words {
	name := "Campaign " + cmp.Or(f.Campaign.Name, n.Subject)
	id := strings.TrimPrefix(n.Subject, "campaign:")
	switch n.Kind {
	case CampaignStopped:
		return words{
			problem, name + " stopped itself", reason(f.Reason),
			"Nothing more of it is sent. Mend what the reason says, then: weir campaign resume " + id,
		}
	case CampaignResumed:
		return words{solved, name + " goes on", "", ""}
	case CampaignFinished:
		return words{solved, name + " is finished", f.tally(), ""}
	case CampaignExpired:
		return words{
			warning, name + " is over: its time ran out", f.tally(),
			"Those expired were not sent to: weir campaign export " + id + " says who.",
		}
	case CampaignCanceled:
		return words{solved, name + " was canceled", f.tally(), ""}
	case CampaignDead:
		return words{
			news, name + " has dead letters", reason(f.Reason),
			"Who was given up, why, and what to do: weir dead list --campaign " + id,
		}
	case FallbackBegan:
		return words{
			news, name + " goes on with its fallback numbers: " + list(f.Numbers), "No primary number can send. " + reason(f.Reason),
			"Whatever waits is theirs until a primary is able again: weir campaign status " + id,
		}
	default: // FallbackEnded
		return words{news, name + " is sent by its primary numbers again", "", ""}
	}
}

func (f facts) numberStopped(n Notice) words {
	text := reason(f.Reason)
	if len(f.Campaigns) > 0 {
		text += " Running campaigns that use it: " + list(f.Campaigns) + "."
	}
	number := "ID"
	if len(f.Numbers) > 0 {
		number = f.Numbers[0]
	}
	advice := "Nothing more is sent from it. Mend what the reason says, then: weir number set " + number + " --enable"
	if len(f.Numbers) > 1 {
		advice += ", and the same for the others"
	}
	return words{problem, f.numbers(n) + " stopped", text, advice}
}

// numbers names the numbers of a notice. Their ids are Meta's; the phone
// numbers themselves are nobody's business on the way.
func (f facts) numbers(n Notice) string {
	switch len(f.Numbers) {
	case 0:
		return n.Subject
	case 1:
		return "Number " + f.Numbers[0]
	default:
		return fmt.Sprintf("Number %s and %d more", f.Numbers[0], len(f.Numbers)-1)
	}
}

func (f facts) breaker(n Notice) words {
	what := "Number " + strings.TrimPrefix(n.Subject, "number:")
	if n.Subject == "host" {
		what = "The platform"
	}
	b := f.Breaker
	seen := ""
	if b.Samples > 0 {
		seen = fmt.Sprintf(" %d of %d calls failed, as %d of the nodes saw it.", b.Failures, b.Samples, b.Reporters)
	}
	const wait = "Nothing is lost and no attempt is spent. Weir probes, and goes on by itself."
	switch {
	case n.Kind == BreakerOpen && b.Prev != "closed":
		return words{aside, what + " is still in trouble", reason(b.Reason), wait}
	case n.Kind == BreakerOpen:
		return words{warning, what + " is in trouble: sending is held back", reason(b.Reason) + seen, wait}
	case n.Kind == BreakerStaysOpen:
		return words{
			alarm, fmt.Sprintf("%s has been in trouble for %.0f s", what, f.Seconds), reason(b.Reason),
			wait + " Look whether the platform says that it has an outage.",
		}
	case n.Kind == BreakerHalfOpen:
		return words{aside, what + " is being tried with one message", reason(b.Reason), ""}
	case n.Kind == BreakerClosed:
		return words{solved, what + " takes messages again", reason(b.Reason), ""}
	default:
		return words{news, n.Kind + ": " + n.Subject, reason(f.Reason), ""}
	}
}

// tally says how a campaign's recipients ended, the many first.
func (f facts) tally() string {
	statuses := slices.SortedFunc(maps.Keys(f.Counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(f.Counts[b], f.Counts[a]), cmp.Compare(a, b))
	})
	var total int64
	var parts []string
	for _, s := range statuses {
		if f.Counts[s] != 0 {
			total += f.Counts[s]
			parts = append(parts, fmt.Sprintf("%d %s", f.Counts[s], s))
		}
	}
	if total == 0 {
		return ""
	}
	return fmt.Sprintf("%d recipients: %s.", total, strings.Join(parts, ", "))
}

func reason(text string) string {
	if text == "" {
		return ""
	}
	return "Reason: " + strings.TrimSuffix(text, ".") + "."
}

// list names a few and counts the rest.
func list(names []string) string {
	const few = 5
	if len(names) <= few {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:few], ", "), len(names)-few)
}

// cut shortens a text to most characters.
func cut(text string, most int) string {
	runes := []rune(text)
	if len(runes) <= most {
		return text
	}
	return string(runes[:most-1]) + "…"
}

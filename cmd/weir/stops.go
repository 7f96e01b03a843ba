package main

import (
	"cmp"
	"strconv"
	"time"

	"github.com/weirhq/weir/engine"
	"github.com/weirhq/weir/internal/cloudapi"
	"github.com/weirhq/weir/internal/store"
)

// ownAdvice is what to do about the reasons that are Weir's own; what Meta's
// codes ask for is in cloudapi's table, and a stop carries it along.
func ownAdvice(reason string) string {
	switch reason {
	case store.ReasonUnknown, store.ReasonClosed:
		return "it may have arrived: weir dead replay --force may send it twice"
	case engine.ReasonUnserved:
		return "Meta delivers no marketing to US numbers: leave them out of the audience"
	case engine.ReasonRefused:
		return "Meta said the same again a day later: leave them out for a while"
	case engine.ReasonAttempts:
		return "replay once the cause is over: weir dead replay"
	default:
		return ""
	}
}

// adviceOn is what an operator can do about a code and a reason, "" for nothing.
// Whose message may have gone out is the first thing to know; then what the code
// says, which is more than that attempts ran out.
func adviceOn(code int, reason string) string {
	if reason == store.ReasonUnknown || reason == store.ReasonClosed || code == 0 {
		return ownAdvice(reason)
	}
	return cmp.Or(cloudapi.Advice(code), ownAdvice(reason))
}

// inWords is a code, what it means and what to do, in one line.
func inWords(code int, title, advice string) string {
	text := title
	if code != 0 {
		text = strconv.Itoa(code) + " " + title
	}
	if advice = cmp.Or(advice, adviceOn(code, title)); advice != "" {
		text += "; " + advice
	}
	return text
}

// campaignStands says why a campaign stands still and what lets it go on, ""
// when it does not.
func campaignStands(c store.Campaign) string {
	switch {
	case c.State == store.Running && c.Paused > 0:
		return "pauses     for another " + c.Paused.Round(time.Second).String() + ": " + c.Reason
	case c.Reason == "":
		return ""
	case c.Stopped:
		return "stopped:   " + c.Reason + " (then weir go)"
	case (c.State == store.Pausing || c.State == store.Paused) && !c.ResumeAt.IsZero():
		return "stopped:   " + c.Reason + " until " + stamp(c.ResumeAt) + " (sooner: " + resumeCampaign(c.Name) + ")"
	case c.State == store.Pausing || c.State == store.Paused:
		return "stopped:   " + c.Reason + " (then " + resumeCampaign(c.Name) + ")"
	default:
		return "stopped:   " + c.Reason
	}
}

// resumeCampaign and enableNumber are the last step after what a reason asks for.
func resumeCampaign(name string) string { return "weir campaign resume " + shellWord(name) }

func enableNumber(id string) string { return "weir number set " + id + " --enable" }

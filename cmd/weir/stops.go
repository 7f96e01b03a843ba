package main

import (
	"time"

	"github.com/weirhq/weir/internal/store"
)

// campaignStands says why a campaign stands still and what lets it go on, ""
// when it does not.
func campaignStands(c store.Campaign) string {
	switch {
	case c.State == store.Running && c.Paused > 0:
		return "pauses     for another " + c.Paused.Round(time.Second).String() + ": " + c.Reason
	case c.Reason == "":
		return ""
	case c.State == store.Pausing || c.State == store.Paused:
		return "stopped:   " + c.Reason + " (then " + resumeCampaign(c.Name) + ")"
	default:
		return "stopped:   " + c.Reason
	}
}

// resumeCampaign and enableNumber are the last step after what a reason asks for.
func resumeCampaign(name string) string { return "weir campaign resume " + shellWord(name) }

func enableNumber(id string) string { return "weir number set " + id + " --enable" }

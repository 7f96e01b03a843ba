package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/weirhq/weir/engine"
	"github.com/weirhq/weir/internal/store"
)

// standing is where a person stands in each campaign, and what has to come
// before it moves on: the claim's own gates, in words.
func standing(p store.Person) []standingView {
	views := []standingView{}
	for _, r := range p.Rows {
		views = append(views, standingView{
			Campaign: r.Campaign, CampaignID: r.CampaignID, State: string(r.State), Phone: r.Phone, Line: r.Line,
			Status: r.Status.String(), Attempts: r.Attempt, Replays: r.Replays, Number: r.Number, MessageID: r.MessageID, Waits: waits(r, p),
		})
	}
	return views
}

func waits(r store.PersonRow, p store.Person) []string {
	switch r.Status {
	case engine.Pending:
		return holds(r, p)
	case engine.Sending:
		return []string{"number " + r.Number + "'s node is at it"}
	case engine.Unknown:
		words := "waits for its status webhook"
		if r.OnUnknown == engine.UnknownHolds {
			return []string{words + ", or for weir dead close"}
		}
		return []string{words + fmt.Sprintf("; without one --on-unknown %s decides", r.OnUnknown)}
	case engine.Accepted, engine.Sent:
		return []string{"waits for Meta's next status webhook"}
	case engine.Held:
		return []string{"Meta holds it until it has assessed the template's quality"}
	case engine.Dead, engine.Failed:
		return []string{"over, unless it is replayed: weir dead replay"}
	default:
		return nil
	}
}

// holds says why a waiting person is not claimed now.
func holds(r store.PersonRow, p store.Person) []string {
	why := campaignHolds(r, p.Now)
	if !p.Confirmed {
		why = append(why, notConfirmed)
	}
	if p.Stopped && !r.Stopped {
		why = append(why, "everything is stopped (then weir go)")
	}
	if r.DueAt.After(p.Now) {
		why = append(why, "not due before "+stamp(r.DueAt)+dueBecause(r))
	}
	closed := windowHolds(r, p.Now)
	if closed != "" {
		why = append(why, closed)
	}
	for _, o := range p.Suppressions {
		switch {
		case !o.Holds || !suppresses(o, r):
		case o.Kind == store.Wait:
			why = append(why, "left in peace until "+stamp(o.Until)+" ("+o.Scope+", "+reasonWords(o.Reason)+")")
		case o.Kind == store.Absent:
			if leavesOut(o, r, p) {
				why = append(why, "not on WhatsApp at "+stamp(o.At)+": it will be suppressed, not sent")
			}
		default:
			why = append(why, "opted out ("+o.Scope+"): it will be suppressed, not sent")
		}
	}
	if closed != "" {
		r.Senders = asOwned(r.Senders)
	}
	free, held := sendersHold(r, p.Now)
	switch {
	case free == "":
		return append(why, held...)
	case len(why) == 0:
		return []string{"nothing holds it: number " + free + " takes it in its turn"}
	default:
		return why
	}
}

// windowHolds says for whom and until when the campaign's window is closed, ""
// when it is open.
func windowHolds(r store.PersonRow, now time.Time) string {
	where := ""
	if r.TZ != "" {
		where = " (" + zoneName(r.TZ) + ")"
	}
	switch {
	case r.ZoneShut:
		return "its window is closed" + where + ": no opening is known within a month; is weir serve running?"
	case r.ZoneOpens.After(now):
		return "its window opens at " + stamp(r.ZoneOpens) + where
	case !r.ZoneCloses.IsZero() && !r.ZoneCloses.After(now):
		return "its window closed at " + stamp(r.ZoneCloses) + where + "; weir serve looks up when it opens next"
	default:
		return ""
	}
}

// sendersHold finds a number that sends, or why none does.
func sendersHold(r store.PersonRow, now time.Time) (free string, held []string) {
	for _, n := range r.Senders {
		why := senderHolds(n, r.Attempt, now)
		if why == "" {
			return n.ID, nil
		}
		if !slices.Contains(held, why) { // the platform's breaker is every number's
			held = append(held, why)
		}
	}
	return "", held
}

// asOwned are numbers that have nothing to send now: they need no node.
func asOwned(senders []store.Sender) []store.Sender {
	senders = slices.Clone(senders)
	for i := range senders {
		senders[i].Owned = true
	}
	return senders
}

func campaignHolds(r store.PersonRow, now time.Time) []string {
	if !r.ExpireAt.IsZero() && !r.ExpireAt.After(now) {
		return []string{"the campaign expired at " + stamp(r.ExpireAt)}
	}
	switch r.State {
	case store.Running:
		if r.StartAt.After(now) {
			return []string{"the campaign starts at " + stamp(r.StartAt)}
		}
		if r.PausedUntil.After(now) {
			return []string{"the campaign pauses until " + stamp(r.PausedUntil) + ": " + r.StateReason}
		}
		return nil
	case store.Scheduled:
		return []string{"the campaign starts at " + stamp(r.StartAt)}
	case store.Importing, store.Draft:
		return []string{"the campaign has not been started"}
	default:
		why := "the campaign is " + string(r.State)
		if r.StateReason != "" {
			why += ": " + r.StateReason
		}
		switch {
		case r.Stopped:
			why += " (then weir go)"
		case r.State == store.Pausing || r.State == store.Paused:
			why += " (then " + resumeCampaign(r.Campaign) + ")"
		}
		return []string{why}
	}
}

// dueBecause says what set the time that a waiting person is due.
func dueBecause(r store.PersonRow) string {
	switch n := len(r.Attempts); {
	case r.Attempt == 0 && r.Replay != nil:
		return ", its turn in the replay"
	case r.Attempt > 0 && n > 0 && r.Attempts[n-1].Code != 0:
		return fmt.Sprintf(", after attempt %d of %d: %d %s", r.Attempt, r.MaxAttempts, r.Attempts[n-1].Code, r.Attempts[n-1].Title)
	case r.Attempt > 0 && n > 0:
		return fmt.Sprintf(", after attempt %d of %d: %s", r.Attempt, r.MaxAttempts, r.Attempts[n-1].Title)
	default:
		return ""
	}
}

// suppresses is the claim's own question, over all numbers of the campaign.
func suppresses(o store.Suppression, r store.PersonRow) bool {
	if o.Scope == "all" || o.Scope == string(r.Category) {
		return true
	}
	for _, n := range r.Senders {
		if o.Scope == "waba:"+n.WABA || o.Scope == "waba:"+n.WABA+":"+string(r.Category) || o.Scope == "number:"+n.ID {
			return true
		}
	}
	return false
}

// leavesOut is the claim's question about a person who was not on WhatsApp.
func leavesOut(o store.Suppression, r store.PersonRow, p store.Person) bool {
	if r.Replays > 0 || !o.At.After(p.Now.AddDate(0, 0, -r.AbsentDays)) {
		return false
	}
	return !slices.ContainsFunc(p.Rows, func(r store.PersonRow) bool { return r.DeliveredAt.After(o.At) })
}

// senderHolds says why a number sends nothing now to somebody who has been tried
// so often, "" when it does.
func senderHolds(n store.Sender, attempt int, now time.Time) string {
	switch {
	case !n.Enabled:
		return "number " + n.ID + " is stopped: " + n.StopReason + " (then " + enableNumber(n.ID) + ")"
	case n.PausedUntil.After(now):
		return "number " + n.ID + " pauses until " + stamp(n.PausedUntil)
	case n.Host != "closed":
		return "the platform's breaker is " + breakerWords(n.Host, n.HostForced, n.HostOpenUntil)
	case n.Breaker != "closed":
		return "number " + n.ID + "'s breaker is " + breakerWords(n.Breaker, n.Forced, n.OpenUntil)
	case n.Fallback && (n.Floor < 0 || attempt < n.Floor):
		return standsBy(n)
	case !n.Owned:
		return "no node owns number " + n.ID + ": is weir serve running? (a restart after a kill waits about 14 s)"
	case n.ReadyAt.After(now):
		return "number " + n.ID + "'s new node may send from " + stamp(n.ReadyAt)
	default:
		return ""
	}
}

func breakerWords(state, forced string, until time.Time) string {
	switch {
	case state == "open" && forced != "":
		return "held open until " + stamp(until) + ": " + forced
	case state == "half_open":
		return "half open: one message at a time is tried"
	case state == "open" && !until.IsZero():
		return "open, until " + stamp(until) + " at least"
	default:
		return state
	}
}

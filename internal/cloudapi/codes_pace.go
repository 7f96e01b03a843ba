package cloudapi

import (
	"time"

	"github.com/weirhq/weir/engine"
)

const (
	maintenance = time.Minute      // Meta: a throughput upgrade takes up to one
	management  = 3 * time.Minute  // … as told by its other endpoints: "a few minutes"
	syncWait    = 10 * time.Minute // Meta: a new template is known to ads within so long
	capWait     = 24 * time.Hour   // Meta: earlier resends prolong the block
	mediaWait   = 30 * time.Second // a link that fails now may work soon
)

// paceCodes ask for less, or for later.
var paceCodes = []entry{
	// Throttles. How much is paused differs: 130429 is a number's throughput,
	// 80007 the business account's calls, 4 and 341 the app's, 17 the calls of
	// the user, who is our token. Of 613 Meta does not say whose they are.
	{lo: 4, asks: pauseApp, title: "app's call limit reached", advice: "look whether other programs of this app call too"},
	{lo: 17, asks: pauseApp, title: "user's call limit reached", advice: "look whether other programs use this token too"},
	{lo: 341, asks: pauseApp, title: "application limit reached", advice: "look whether other programs of this app call too"},
	{lo: 613, asks: pauseOne, title: "call limit reached"},
	{lo: 80007, asks: pauseWABA, title: "business account's call limit reached"},
	{lo: 130429, asks: pauseOne, title: "number's throughput exceeded", advice: "replies count too: raise the number's headroom"},

	// Maintenance of one number, documented as up to a minute, e.g. while its
	// throughput is raised: not an outage, whatever its HTTP 500 says.
	{lo: 131057, asks: absent, title: "number is in maintenance"},
	{lo: 2494100, asks: after(absent, management), title: "number is in maintenance"},

	// One number to one person, one message in 6 s with bursts borrowed from
	// the future. Only this pair waits, longer each time.
	{lo: 131056, asks: engine.Answer{Action: engine.Reschedule, Scope: engine.ScopePair, Throttled: true, Spare: engine.SparePair}, title: "too many messages from this number to this recipient"},

	// Meta's cap of marketing messages per person. Resends within 24 h
	// prolong the block for that person (Meta, April 2026), whatever campaign
	// they are of. One more try is worth it: a capped person may stay capped.
	{lo: 131049, asks: engine.Answer{Action: engine.Reschedule, After: capWait, Once: true, Spare: engine.SpareMarketing}, title: "recipient has had enough marketing messages", advice: "they may be sent marketing again after a day; a US number never"},

	// The service is down and says so before it takes the message: retry.
	// Assumed not accepted; Meta guarantees nothing.
	{lo: 2, asks: platformDown, title: "service temporarily down"},
	{lo: 131016, asks: platformDown, title: "service temporarily unavailable"},
	{lo: 133004, asks: platformDown, title: "server temporarily unavailable"},

	// Media that could not be fetched or uploaded: some retries are worth it where
	// it is one recipient's own link. Most campaigns have one for all, and then
	// everybody's attempts would go on it: a few in a row stop the campaign.
	{lo: 131053, asks: after(dubious, mediaWait), title: "media could not be fetched", advice: "open the link without logging in; better, upload the media once and use its id"},

	// Unknown failures. 131000 is documented as HTTP 500 "something went
	// wrong", which may be after the message was taken: nobody knows, under
	// every policy. 1 is "bad request or server fault", so its HTTP status
	// says more: 500 is as unknown as 131000, while 400 and 503 are refusals.
	// They are retried, since the fault may be the server's; a few in a row are
	// taken for a request that is bad for everyone.
	{lo: 131000, asks: reconcileIt, title: "unknown failure"},
	{lo: 1, byStatus: true, asks: dubious, title: "unknown API error", advice: "compare the campaign's parameters with the template; if they are right, wait and go on"},
}

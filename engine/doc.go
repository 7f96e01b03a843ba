// Package engine sends the campaigns of WhatsApp business numbers: it decides
// who is sent to now, at what pace, what an answer means, and what is written
// about it. It knows neither Postgres nor Meta: a [Store] and a [Sender] stand
// for them. Its secret is how a row gets from claimed to settled exactly once.
//
// # To run it
//
// [NewNode] and [Node.Run] own numbers and send. [NewTracker] and [Tracker.Run]
// commit what webhooks say. Both block until they have drained.
//
// # The path of a row
//
//	Store.Census ─► Node ─ Acquire ─► quarantine ─► Reclaim ─► lane, one a leased number:
//
//	   ┌────────────── demand: "I am free" ──────────────┐
//	   ▼                                                 │
//	claimer ─Claim(lease, seq, ≤ free)─► hand ─work─► sender ─► bucket.wait ─► begin ─► Sender.Send
//	   ▲                                  │                                              │ Answer
//	   │ restraints (pause, halt)         │ no token in time, stopped, lease gone        ▼
//	   └──────────── guard ◄──────────────┼───────────────────────────────────── Policy.Settle
//	                                      ▼                                              │ Result
//	                     Store.Record ◄─ writer: sorted, ≤ 500 rows or 250 ms ◄──────────┘
//
// Rows flow one way. A retry is a row with a delay; nothing sleeps with a row
// in its hands. What must stop others (a throttle, a halted campaign) is a row
// that every claim reads. The one feedback in memory is a sender that pauses its
// own bucket.
//
// # States
//
// A row in the database; [Status] declares them in order of rank:
//
//	             ┌────────── give-back (attempt refunded, old due time) ─────┐
//	             │  ┌─────── retry (delay) ────────────────────────────────┐ │
//	             ▼  ▼                                                      │ │
//	import ─► pending ─claim: attempt+1, claim+1─► sending ─ answer ───────┴─┴─► accepted | held ─► sent ─► delivered ─► read
//	             │                                  │   │                          │                 │
//	             │                                  │   └─► failed | dead          └─────────────────┴─► failed
//	             └─► canceled | expired |           └─► unknown ─ webhook ─► accepted and on
//	                 suppressed                               └─ window over ─► dead | pending | held for an operator ─► dead
//
//	failed ─ a webhook's code that is worth another message: claim+1 ─► pending
//	failed | dead ─ an operator's replay: claim+1, attempt 0 ─► pending
//
// A row in a lane's memory (rule 2; begin and give-back are one compare-and-swap):
//
//	held ─ begin ─► begun ─ answer ─► recorded
//	  └─ give back ─► returned
//
// A lease of a number:
//
//	free ─ Acquire ─► held, trusted ─ heartbeat ─┐         trusted until: send time of the last good
//	 ▲                   │   ▲───────────────────┘                        heartbeat + TTL − margin on every
//	 │ Release           │ no answer, or the clocks have parted           clock, while the clocks agree
//	 │                   ▼
//	 └── lane drained   held, not trusted ─ expiry ─ a TTL of silence ─► another node's, after its quarantine
//
// A lane whose lease is another's writes nothing from the instant it is told,
// waits for the answers it is owed, records them, and releases nothing. The same
// when another database answers than before: what a promoted standby or a
// restored backup says of leases proves nothing.
//
// A fleet has no head. Every node counts the living nodes and the numbers that
// need an owner at each look, and decides for itself (spread): a
// number without an owner goes to whichever node holds least, one that is left
// lying is taken by anybody within 900 ms, and a node above its share gives one
// number at a time, by draining and releasing it.
//
// A claim batch (seq), so that a dead owner's rows can be found:
//
//	asked ─ rows ─► open ─ last result recorded ─► done, forgotten in the same write
//	  └─ error ─► burned ─ GiveBack, again and again for five minutes ─► forgotten
//
// A breaker, in Postgres and one for all nodes: the host's, which is the platform,
// and each number's. Both must be closed; while the host's is not, the numbers'
// neither count nor probe:
//
//	             ┌─ 5 upstream failures in a row; a fifth of at least 50 calls in 10 s;
//	             │  of a number 5 throttles in a row; of the host by most of the nodes
//	closed ──────┴───────────────────────────────────────────────► open ◄──────────────┐
//	  ▲                                                             │ timeout over     │ failed: twice the timeout
//	  │ r/16, r/4, r, each by calls that go well                    ▼ and a row is due │ nothing learned: the same
//	  └───────────────────── the probe is answered ───────────── half-open ────────────┘
//	                                                              │    ▲ permit run out:
//	forced, from any state: open or closed for a time;            └────┘ its prober is dead
//	a force open that is over is an open one past its timeout
//
// A lane that has failed enough stops by itself and waits for Postgres's verdict:
//
//	closed ─ own count reached ─► tripped, reported at once ─ told ─► open | closed
//
// A node's own way to the platform, which is nobody else's business: what fails
// on it says nothing of the platform or a number. While it is open the node claims
// nothing, does not count when numbers are shared out, and gives all it has to
// nodes that do; while there are none, numbers stay where they are:
//
//	          ┌─ 5 of its own failures in a row; or what it sends vanishes, the platform
//	          │  does not answer a question of its either, and others' calls go well
//	closed ───┴───► open ─ the platform answers a question ─► half-open ─ one message fails ─► open
//	  ▲              └─ it does not: twice the timeout            │
//	  └─────────────────── one message is answered ───────────────┘
//
// A campaign (its moves belong to others; a lane claims from running ones only,
// and acknowledges the two that end in -ing):
//
//	importing ─► draft ─► scheduled ─► running ─ all settled ─► finished
//	                                    │   ▲
//	             pause, or an answer's  │   │ resume: a new version, at which no
//	                             order  ▼   │ acknowledgement counts yet
//	                                  pausing ─ every number silent ─► paused
//	 any of these ─ cancel ─► canceling ─ every number silent, then every row settled ─► canceled
//
// A number is silent when its lease has acknowledged this version of the order,
// or can no longer send: never leased, released, or seen to have run out, without a
// heartbeat since, for longer than the quarantine. A lane acknowledges (rule 18)
// when nothing of the campaign is claimed and unsent in its hands, and every call
// of it is answered, or so old that its bytes have arrived or never will.
//
// # Promises
//
// No call is begun or written without a trusted lease and a fresh claim: that is
// checked at the token, before the request and at the wire ([Message].Fence).
// In any window w the tokens of a number are at most burst + rate·w, exactly, and
// a token is used at most 25 ms after its instant. No row is claimed that no
// sender could take, and none whose result there would be no room for. Every
// claimed row ends as one result, and no result is dropped while the process
// lives; when it dies, its claim batches are left for the next owner. A row is
// given back only by proof that no call was made. Once a pause or a cancel is
// confirmed, not one request of the campaign is made. [Policy.Settle] writes failed
// only for the platform's word, never for our own patience.
//
// It never resends a row whose outcome is unknown, never retries within a call,
// never decides by a count in memory what the database must hold, and never logs
// a phone number, a message id or a token.
//
// # Limits
//
// Four things no sender of messages can promise, and neither does this one:
//
//   - A call whose answer was lost, and whose webhooks come back without our
//     callback id, cannot be told from one that never arrived. Under the policy
//     "fail" its row ends dead although the message may have been delivered.
//   - A message that the platform called failed can be delivered after all. If
//     its row was replayed in between, the person has it twice. "Never two
//     accepts" therefore means: unless the platform said that the first failed,
//     or an operator forced the replay.
//   - An unknown is decided when its window ends. Evidence that comes later is
//     recorded and counted, as a duplicate where the row was sent again, but it
//     cannot undo the decision.
//   - kill -9 loses the answers that were in memory. Their rows become unknown,
//     and their webhooks settle them; until then nobody can say which were sent.
//
// # Decisions
//
// We claim for free senders only, because a row that waits in memory has been
// taken from numbers that could send it and ages towards its give-back.
//
// We claim under a context that shutdown does not cancel, because a canceled
// claim may have committed, and its rows would be nobody's.
//
// We ask the bucket before the database: a claim covers about a quarter second
// of tokens, because at one message in ten seconds a row claimed at once would
// be given back five times before its token came.
//
// We size senders by Little's law from measured times, because a fixed number
// is too few for slow calls (the rate is missed) and too many for fast ones
// (every idle sender is a row claimed early).
//
// We let a failure spend an attempt only when it stands alone, because an outage
// says nothing about a message: 40 s of one used up most of a campaign's attempts.
//
// We let the host's breaker trip by most of the nodes' votes, not by the fleet's
// sum, because a sick node with many numbers fails more calls than all the others
// make; and we take a node's vote from its latest report, because in the first
// second of an outage the calls of the last five seconds still look well.
//
// We stop sending when calls are overdue and none comes back, before any of them
// has timed out, because whatever the cause each further one would be lost too; and
// we tell a node's own trouble from the platform's by a question of its own and by
// how others fare, because a call that vanishes cannot tell where.
//
// We probe with whoever waits longest, although claims take whoever became due
// last, because those have just failed: one whose message never gets through would
// be asked again and again whether the outage is over.
//
// We let the claim ask whether a fallback number may send, each time, and keep
// no state that says so, because a state would have to be moved by somebody who
// can be late or dead: it ends with the first claim that sees a primary able.
// Two numbers that ask at once never have the same row, as any two do not.
//
// We start at 3 s and double, because whoever is away is not known to come back:
// that is 5 s too late for an outage of 40 s, and never later than it lasted.
//
// We learn a number's pace from its throttles, one lesson a pause, and store the
// lesson and its time instead of the pace: the way back is a function of them, so
// nobody has to write while it climbs, and a new owner climbs on.
//
// We stop a campaign for the claim batches up to the one in flight, not with a
// flag, because a flag must be cleared when an operator resumes, and late answers
// of the old batches must not stop it again. Batches are numbered under the lock
// that orders are given under, and none while an order waits to be written, so no
// claim passes a stop.
//
// We let a lane find out about a pause by looking, every second and when a claim
// comes back empty, because a notification can be lost and the look is there. It
// promises silence, not that its results are written: those can wait for Postgres,
// and a pause that waited for them would be slow exactly when it is needed.
//
// We let the writer's queue grow and bound the claims instead, because a sender
// that blocks on a full queue holds a token's place and a drain could deadlock.
//
// We give numbers up only while all have an owner, and count no more on a node
// that lets one pass (for 10 s at first, then longer), because a node that lives
// and takes nothing would have the others give and take for ever.
//
// We halve what a lane claims and leaves outstanding while its claims and writes
// are slow, and give it back an eighth at a time, because a database that is slow
// for what is asked of it would only be asked for more: rows that come late are
// claimed, given back and claimed again.
//
// We give one lane one writer, because two would write the results of one claim
// batch in two orders, and neither would know which was last.
package engine

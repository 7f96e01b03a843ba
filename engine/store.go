package engine

import (
	"context"
	"errors"
	"time"
)

// ErrLeaseTaken is Acquire's answer when another node was faster, or when the
// lease is not what the bidder saw.
var ErrLeaseTaken = errors.New("lease taken by another node")

// ErrNotReady is wrapped by Reclaim's error when the lease's fence is shut: its
// quarantine still runs, it has run out on the database's clock, or it is
// another's. Nothing was done; the next heartbeat tells which of these it is.
var ErrNotReady = errors.New("lease not ready")

// ErrRefused is wrapped by Record's and ApplyStatuses' errors when Postgres was
// reached and refused what is in the batch (SQLSTATE class 22 or 23): a smaller
// batch may pass, the same one never will.
var ErrRefused = errors.New("refused for its data")

// LeaseID names one grant of one number: a stale one claims and deletes nothing.
type LeaseID struct {
	Number string
	ID     string // random UUID per grant
}

// Number is a business phone number's settings.
type Number struct {
	ID       string // phone_number_id
	WABA     string
	Limit    float64       // messages per second that Meta allows this number, both directions; at least 2
	Headroom float64       // the share of Limit left free, 0 ≤ Headroom < 1
	Burst    int           // tokens; 0 = default (1)
	Enabled  bool          // false: an operator or a StopNumber answer stopped it
	Paused   time.Duration // how much longer a throttle pauses it, on the database's clock
	Learned  Learned       // what throttles have taught about its pace
}

// Rate is the configured pace in messages per second: the limit less the
// headroom, and never so much that rate + burst passes the limit in a second.
func (n Number) Rate() float64 {
	return min(n.Limit*(1-n.Headroom), n.Limit-float64(max(n.Burst, 1)))
}

// Pace is the messages per second that go now: the configured rate, or less
// while what throttles have taught holds.
func (n Number) Pace() float64 {
	rate, _ := pace(n)
	return rate
}

// Candidate is a number that needs an owner, with its lease as it stands.
type Candidate struct {
	Number  string
	LeaseID string        // "" when it was never leased
	Beats   int64         // the holder's heartbeat counter
	Holder  string        // node id
	Free    bool          // never leased, or cleanly released
	Expired time.Duration // how long ago it expired on the database's clock; negative while it lives
}

// Census is who needs an owner, and who could be one.
type Census struct {
	Candidates []Candidate // every number that needs an owner, by id
	Nodes      []string    // ids of the nodes that were seen within the TTL, by id
	Apart      []string    // those of Nodes that cannot reach the platform, by id
}

// Bid asks for a lease. Seen is the candidate as this node has watched it for
// a whole TTL on its own clock (or as it stands, when Free).
type Bid struct {
	Node       string
	Seen       Candidate
	TTL        time.Duration
	Quarantine time.Duration // wait after an expired lease; none after a clean release
}

// Grant is a lease that was given.
type Grant struct {
	Lease LeaseID
	Ready time.Duration // claims are refused for this long: the predecessor's quarantine
}

// Beat is a node's sign of life.
type Beat struct {
	Node    string
	TTL     time.Duration // how long the leases live from now, and the node counts as living
	Leases  []LeaseID     // to renew
	Apart   bool          // the node cannot reach the platform: others that can should have its numbers
	Leaving bool          // the node takes no more numbers and no longer counts, whatever leases it still drains
}

// Pulse is what a beat was answered.
type Pulse struct {
	Held    []LeaseID // those of the beat's leases that are the node's still
	Cluster string    // which database answered, and on which timeline: another after a fail-over or a restore
}

// Work is a number's settings, the running campaigns it may claim from, and
// what its lease has still to acknowledge.
type Work struct {
	Number    Number
	Campaigns []Campaign
	Controls  []Control
}

// Control is an order that a campaign pauses or is canceled. A later order has
// a greater version, a resume between the two as well.
type Control struct {
	Campaign int64
	Version  int64
}

// Ack says that nothing of a campaign can go out under a lease any more, for as
// long as that version of its control stands.
type Ack struct {
	Control
	Lease      LeaseID
	Quarantine time.Duration // how long after its expiry another's lease may still send
}

// Ask asks for due recipients. A claim never takes more than Free rows.
type Ask struct {
	Lease  LeaseID
	Seq    int64 // grows by one per claim call of a lease, whatever came of it
	Slices []Slice
	Free   int
	Probe  string // breaker probe token, for one row, of those that wait longest; "" = none
	// Fresh: the calls of the rows are written within this of the asking, or not
	// at all. A window that closes sooner gives nothing.
	Fresh time.Duration
	// Capped: some slice's campaign caps messages to a person. Without it those
	// give nothing; with it the claim waits its turn among the fleet's.
	Capped bool
}

// Slice is one campaign's and zone's share of an Ask, in order of turn.
type Slice struct {
	Campaign int64
	Zone     int16
	Share    int
}

// Store is Postgres as the engine needs it. Every method is one rule in one
// statement, safe to repeat, and returns ctx's error when ctx ends first.
// Durations are measured on the database's clock.
type Store interface {
	// Census lists every number that needs an owner (a fallback number only while
	// it may claim something), with its lease as it stands, living ones too (a
	// node's own number that is missing here needs it no more), and the nodes that
	// have beaten within ttl.
	Census(ctx context.Context, ttl time.Duration) (Census, error)
	// Acquire takes a lease, or ErrLeaseTaken.
	Acquire(ctx context.Context, bid Bid) (Grant, error)
	// Heartbeat says that the node lives, or leaves, and renews its leases, in
	// one statement. A lease that has run out and that nobody took is held still
	// and lives again: a taker changes its id in the same row, so the two cannot
	// both succeed, and until this call is answered the holder's own clock has
	// stopped it.
	Heartbeat(ctx context.Context, beat Beat) (Pulse, error)
	// Release gives a lease back cleanly: the next owner need not wait.
	Release(ctx context.Context, lease LeaseID) error
	// Reclaim turns what dead owners of this number left claimed into unknown
	// and returns how many rows it turned. It is fenced by the lease, and says
	// ErrNotReady, not "no rows", when the fence is shut.
	Reclaim(ctx context.Context, lease LeaseID) (int, error)
	// Work reads the number's settings, the running campaigns it may claim from,
	// and the pauses and cancels that this lease has not acknowledged.
	Work(ctx context.Context, lease LeaseID) (Work, error)
	// Claim takes due recipients. After an error the seq is burned: the call
	// may still have committed, and only GiveBack may follow.
	Claim(ctx context.Context, ask Ask) ([]Recipient, error)
	// GiveBack returns the rows of burned claim calls to pending.
	GiveBack(ctx context.Context, lease LeaseID, seqs []int64) (int, error)
	// Record writes results, and forgets the claim batches in done.
	Record(ctx context.Context, lease LeaseID, results []Result, done []int64) error
	// Acknowledge writes an Ack, fenced by its lease and its version: one that
	// comes too late changes nothing and is no error. When it was the last that
	// was waited for, the campaign is paused, or its cancel confirmed.
	Acknowledge(ctx context.Context, a Ack) error
	// ReportBreakers adds what a node's calls came to, moves the breakers that
	// it trips, and says how the host's and the tallied scopes' stand.
	ReportBreakers(ctx context.Context, r Report) ([]Breaker, error)
	// Breakers says how the host's and these scopes' breakers stand, to a node.
	Breakers(ctx context.Context, node string, scopes []string) ([]Breaker, error)
	// TakePermit takes the one probe of a scope, if it can be had now and the
	// lane has something due: the token for a claim of one row. "" is no.
	TakePermit(ctx context.Context, ask PermitAsk) (token string, err error)
	// SettleProbe moves a breaker by what its probe came to. The word of a
	// permit that has run out changes nothing.
	SettleProbe(ctx context.Context, p Probed) error
	// Restrain pauses or stops a number or a campaign.
	Restrain(ctx context.Context, r Restraint) error
}

// Sender makes the calls. Send blocks for one call, at most the sender's own
// timeouts, and never retries.
type Sender interface {
	Send(ctx context.Context, m Message) Answer
}

// StatusUpdate is one word of the platform's about one message, or, out of
// Fold, all that a batch said about it. A webhook sets Status and At; Fold sets
// the four times, and a store writes only those: the greatest status has its
// first time both in At and in its own field.
type StatusUpdate struct {
	Recipient int64  // from our callback id; 0 when the status carries none of ours
	Claim     int32  // from our callback id
	Number    string // phone_number_id the status was addressed to
	Phone     string // recipient's phone as the platform writes it, digits; may be ""
	MessageID string
	Status    Status // Held, Sent, Failed, Delivered or Read; folded: the greatest
	At        time.Time
	Code      int    // Failed: the platform's code; folded: kept under a greater Status too
	Title     string // Failed: its words; folded: as Code
	Asks      Answer // Failed: what the code asks for beyond its message; the zero value asks for nothing; folded: as Code

	// Set by Fold: the first time of each status, zero when it was not seen.
	SentAt, DeliveredAt, ReadAt, FailedAt time.Time
}

// Event is a webhook change that is not a status: kept for later readers.
type Event struct {
	Key     string // a hash of what it is: of two events with one key, one is kept; "" is none
	Kind    string // the webhook field, or "unmatched"
	Account string // WABA id
	Number  string // phone_number_id, if any
	Body    []byte // JSON
	News    []News // what it says that is acted on
	Inbound        // of an inbound message alone
}

// Inbound is a person's message to one of our numbers, as far as it matters here.
type Inbound struct {
	From string    // who wrote it, digits; "" when the platform does not say
	At   time.Time // when, by the platform's clock
	Wish Wish
}

// Applied counts what became of a batch of status updates.
type Applied struct {
	Matched   int // found their recipient, whether or not they moved it
	Unmatched int // kept, and tried again later
}

// StatusStore applies what the platform says. One call is one commit.
type StatusStore interface {
	// ApplyStatuses takes folded updates (see Fold) and events as they came.
	ApplyStatuses(ctx context.Context, updates []StatusUpdate, events []Event) (Applied, error)
}

package chaos

import "time"

// History is everything that one run left. All instants are durations since
// the run began, on the machine's one clock; 0 means never.
type History struct {
	Run       Run
	Requests  []Request // in the order of their receipt
	Tries     []Try
	Rows      []Row
	Campaigns []Campaign
	Claims    []Claim
	Doubts    []Doubt
	Leases    []Lease // in the order they were written
	Moves     []Move  // in the order they were written
	Calls     []Call
	Marks     []Mark
	Leaks     []Leak
}

// Run is what a run was set up with.
type Run struct {
	Fault   string
	About   []string // the properties that this fault is most likely to break
	Seed    uint64
	Began   time.Time
	Nodes   int
	Numbers []Number

	TTL, Quarantine, Poll time.Duration // of the leases
	Window                time.Duration // before a policy decides for an unknown recipient
	ClaimAge              time.Duration // how long after its claim a call may begin
	// Way is the most that a message may take from the token it is paced by to
	// the ledger: the fleet's own slack, the links' delays, and how long this
	// machine kept the suite waiting for a processor.
	Way time.Duration
	// Slack is what a few statements and a start may take on this machine, for
	// promises of how soon something happens.
	Slack time.Duration
	// Flowing tells that webhooks were never away for as long as Window.
	Flowing bool
	// Skewed tells that the database's clock was set: its instants say nothing.
	Skewed bool

	Ended time.Duration // when everything had come to rest, or patience had ended
}

// Number is a sender: its pace (per second), the bucket's burst, and the limit
// (per second) that pace and burst stay under.
type Number struct {
	ID    string
	Rate  float64
	Burst float64
	Limit float64
}

// Request is one message that the platform received in full.
type Request struct {
	Seq       uint64
	At        time.Duration // received
	Answered  time.Duration // when the answer was written; 0: never
	Number    string
	To        string // hash of the phone
	Recipient int64  // from the callback id; 0 if it has none of ours
	Claim     int32
	Node      string // whose access token it carried
	Refused   bool   // an error answer, and not accepted
	Code      int    // of the error
	Message   string // hash of the message id, set exactly when it was accepted
}

// Try is one webhook request: what it told, and how it was answered.
type Try struct {
	At, Over time.Duration
	HTTP     int // 0: no answer
	Told     []Told
}

// Told is one status within a webhook.
type Told struct {
	Seq    uint64 // of the request whose message it is about
	Status string
}

// Row is a recipient at the end.
type Row struct {
	ID       int64
	Campaign int64
	To       string // hash of the phone
	Status   string
	Claim    int32
	Attempt  int
	Number   string
	Message  string // hash of the message id
	Reason   string // what stands in attempts for the last claim
}

// Campaign is a campaign at the end.
type Campaign struct {
	ID          int64
	Name        string
	State       string
	OnUnknown   string // fail, resend, hold
	MaxAttempts int
	Started     time.Duration
	Finished    time.Duration
	// What the import said of the file's rows.
	Read, Accepted, Rejected, Duplicate int
	Counts                              map[string]int // by status, as shown to operators
	ClaimsLeft, UnknownsLeft            int            // claim batches and doubts of its rows at the end
	Unproven                            string         // what weir campaign verify found wrong
}

// Claim is one claim batch, written down as it was made.
type Claim struct {
	Number, Lease string
	Seq           int64
	At            time.Duration
	IDs           []int64
	Fences        []int32
}

// Doubt is a recipient that became unknown.
type Doubt struct {
	Recipient int64
	Claim     int32
	At        time.Duration
}

// Lease is one event of a number's ownership.
type Lease struct {
	Number, Lease, Holder string
	Kind                  string        // grant, release
	Ready                 time.Duration // when the grant's quarantine ends
	At                    time.Duration
}

// Move is a campaign's change of state, with the instant before its commit.
type Move struct {
	Campaign int64
	From, To string
	At       time.Duration
}

// Call is what an operator asked for.
type Call struct {
	Name     string // pause, resume, cancel
	Campaign int64
	At, Over time.Duration
	OK       bool // the command said that it was done
}

// Leak is a line of a node's log with something in it that belongs in no log.
type Leak struct {
	Log  string // its file
	Line int
	What string // phone number, message id, token, password
}

// Mark is something that the suite did to the fleet.
type Mark struct {
	Kind string // one of the constants below
	Node string // "" for all, or for the database itself
	From time.Duration
	Over time.Duration // when it was mended; a kill's is its From
}

// The kinds of marks that properties look at. Others may stand in a history:
// they name what was done for its reader.
const (
	MarkKill  = "kill"  // the node is dead from then on
	MarkLeave = "leave" // the node was asked to end
	MarkStop  = "stop"  // the node stood still
	MarkCutDB = "cut from Postgres"
	MarkCut   = "cut from the API"
	MarkDeaf  = "cut from webhooks"
	MarkDown  = "Postgres down"
	MarkLost  = "commits lost" // what the database committed in between is gone
	MarkHold  = "held"         // sending had to wait for an operator
	MarkClog  = "clogged"      // links were cut and healed at random
	MarkBusy  = "machine busy" // nobody's fault: the simplest statement took as long as Weir waits for any
)

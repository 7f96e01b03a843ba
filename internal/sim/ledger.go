package sim

import "iter"

// Outcome is how a request ended, as the simulator knows it.
type Outcome string

// The outcomes. Those that end in _after_accept have a message id: the message
// was accepted though the sender could not learn it from the answer.
const (
	Accepted         Outcome = "accept"
	Refused          Outcome = "error" // a status code that says no; Code is 0 for a non-Graph body
	RefusedAccepted  Outcome = "error_after_accept"
	Hung             Outcome = "hang"
	HungAccepted     Outcome = "hang_after_accept"
	ResetUnread      Outcome = "reset_unread" // the body was never read: no recipient known
	ResetBefore      Outcome = "reset_before"
	ResetAccepted    Outcome = "reset_after_accept"
	Redirected       Outcome = "redirect"
	Garbled          Outcome = "garbled" // HTTP 200 that says nothing
	GarbledAccepted  Outcome = "garbled_after_accept"
	outcomeUndecided Outcome = ""
)

var outcomes = [...]Outcome{
	outcomeUndecided, Accepted, Refused, RefusedAccepted, Hung, HungAccepted,
	ResetUnread, ResetBefore, ResetAccepted, Redirected, Garbled, GarbledAccepted,
}

// Entry is one line of the ledger: one request received in full.
type Entry struct {
	Seq uint64 `json:"seq"` // from 1, in order of receipt
	// Received and Answered are Unix nanoseconds: the wall clock read once, and
	// advanced by the monotonic clock since. Answered is 0 while there is no
	// answer, and for ever when the sender never got one.
	Received int64 `json:"received_ns"`
	Answered int64 `json:"answered_ns,omitempty"`

	Number string `json:"number"`
	// Caller is HashToken of the access token: it tells the senders that share
	// a number apart, where each has a token of its own.
	Caller   string  `json:"caller,omitempty"`
	To       string  `json:"to,omitempty"` // HashPhone of the recipient as Meta read it
	Callback string  `json:"callback,omitempty"`
	Template string  `json:"template,omitempty"` // name/language
	Outcome  Outcome `json:"outcome"`
	HTTP     int     `json:"http,omitempty"`
	Code     int     `json:"code,omitempty"`
	// WAMID is set exactly when the message was accepted. Like Meta's it
	// contains the recipient's phone number.
	WAMID string `json:"wamid,omitempty"`
	// FailCode is the code of the failed webhook an accepted message gets.
	FailCode int `json:"fail_code,omitempty"`
	// Held tells that the answer said held_for_quality_assessment.
	Held bool `json:"held,omitempty"`
	// Prefixed tells that `to` had no + and so got the sender's country code.
	Prefixed bool `json:"prefixed,omitempty"`
	// Acked are the statuses the webhook receiver has answered 200.
	Acked []string `json:"acked,omitempty"`
}

const (
	flagHeld uint8 = 1 << iota
	flagPrefixed
	flagLite // sent through /marketing_messages
)

// record is an Entry as it is kept: 64 bytes, and the callback data.
type record struct {
	received, answered int64 // ns since the epoch; answered 0: never
	phone, fate        uint64
	text               uint64 // of the callback data in the arena
	number, template   uint32 // in names
	caller             uint32 // in names
	code               int32  // of the error, or of the coming failed webhook
	http               uint16
	textLen            uint16
	outcome            uint8 // in outcomes
	flags              uint8
	plan               plan
	acked              status
}

const (
	chunkLen = 4096    // records
	arenaLen = 1 << 20 // bytes
)

// ledger keeps the records in chunks that never move, and the callback data in
// an arena: ten million requests take about a gigabyte. Its owner locks it.
type ledger struct {
	chunks []*[chunkLen]record
	n      int
	arena  []*[arenaLen]byte
	used   int // of the last arena block
	names  []string
	ids    map[string]uint32
	tokens map[string]uint32 // token → its hash in names
}

func newLedger() ledger {
	return ledger{names: []string{""}, ids: map[string]uint32{"": 0}, tokens: map[string]uint32{"": 0}}
}

func (l *ledger) add(r record) int {
	i := l.n
	if i%chunkLen == 0 {
		l.chunks = append(l.chunks, new([chunkLen]record))
	}
	*l.at(i) = r
	l.n++
	return i
}

func (l *ledger) at(i int) *record { return &l.chunks[i/chunkLen][i%chunkLen] }

// name interns a string of a small set: number ids and templates.
func (l *ledger) name(s string) uint32 {
	id, ok := l.ids[s]
	if !ok {
		id = uint32(len(l.names))
		l.names = append(l.names, s)
		l.ids[s] = id
	}
	return id
}

// caller interns the hash of a token.
func (l *ledger) caller(token string) uint32 {
	id, ok := l.tokens[token]
	if !ok {
		id = l.name(HashToken(token))
		l.tokens[token] = id
	}
	return id
}

// keep stores callback data, at most a few KB of it.
func (l *ledger) keep(s string) (at uint64, n uint16) {
	s = s[:min(len(s), 4*maxCallback)]
	if s == "" {
		return 0, 0
	}
	if len(l.arena) == 0 || l.used+len(s) > arenaLen {
		l.arena = append(l.arena, new([arenaLen]byte))
		l.used = 0
	}
	block := len(l.arena) - 1
	copy(l.arena[block][l.used:], s)
	at = uint64(block)*arenaLen + uint64(l.used)
	l.used += len(s)
	return at, uint16(len(s))
}

// view is a copy of some records together with what they refer to. It needs no
// lock: bytes and names once written never change.
type view struct {
	first   int
	records []record
	arena   []*[arenaLen]byte
	names   []string
	wall    int64 // Unix ns of the epoch
}

func (l *ledger) view(first, n int) view {
	n = max(min(n, l.n-first), 0)
	v := view{first: first, records: make([]record, 0, n), arena: l.arena, names: l.names}
	for i := first; i < first+n; {
		c := l.chunks[i/chunkLen][i%chunkLen:]
		c = c[:min(len(c), first+n-i)]
		v.records = append(v.records, c...)
		i += len(c)
	}
	return v
}

func (v *view) callback(r *record) []byte {
	at := r.text % arenaLen
	if r.textLen == 0 {
		return nil
	}
	return v.arena[r.text/arenaLen][at : at+uint64(r.textLen)]
}

func (v *view) entry(i int) Entry {
	r := &v.records[i]
	e := Entry{
		Seq: uint64(v.first + i + 1), Received: v.wall + r.received,
		Number: v.names[r.number], Template: v.names[r.template], Caller: v.names[r.caller],
		Callback: string(v.callback(r)), Outcome: outcomes[r.outcome],
		HTTP: int(r.http), Held: r.flags&flagHeld != 0, Prefixed: r.flags&flagPrefixed != 0,
	}
	if r.answered != 0 {
		e.Answered = v.wall + r.answered
	}
	if r.phone != 0 {
		e.To = HashPhone(phoneText(r.phone))
	}
	if r.accepted() {
		e.WAMID = wamid(r.phone, r.fate, e.Seq)
		e.FailCode = int(r.code)
	} else {
		e.Code = int(r.code)
	}
	for _, s := range statusNames {
		if r.acked&s.status != 0 {
			e.Acked = append(e.Acked, s.name)
		}
	}
	return e
}

func (r *record) accepted() bool {
	switch outcomes[r.outcome] {
	case Accepted, RefusedAccepted, HungAccepted, ResetAccepted, GarbledAccepted:
		return true
	default:
		return false
	}
}

func outcomeIndex(o Outcome) uint8 {
	for i := range outcomes {
		if outcomes[i] == o {
			return uint8(i)
		}
	}
	panic("sim: outcome " + string(o) + " is not in the table")
}

// entries streams the ledger from a sequence number on, in blocks, holding the
// lock only to copy one.
func (w *world) entries(from uint64) iter.Seq[Entry] {
	return func(yield func(Entry) bool) {
		for i := int(max(from, 1)) - 1; ; {
			v := w.view(i, chunkLen)
			for k := range v.records {
				if !yield(v.entry(k)) {
					return
				}
			}
			if len(v.records) == 0 {
				return
			}
			i += len(v.records)
		}
	}
}

func (w *world) view(first, n int) view {
	w.mu.Lock()
	defer w.mu.Unlock()
	v := w.book.view(first, n)
	v.wall = w.wall
	return v
}

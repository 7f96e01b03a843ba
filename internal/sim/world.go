package sim

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// world is everything that POST /sim/reset forgets.
type world struct {
	opts  *Options
	epoch time.Time
	wall  int64         // Unix ns of the epoch
	wake  chan struct{} // tells the dispatcher that the next event has changed
	rules ruleSet

	mu        sync.Mutex
	book      ledger
	numbers   map[string]*line
	templates map[plateKey]*plate
	pairs     pairLimit
	out       outbox
	ruleSeq   int
}

// line is a number in use.
type line struct {
	Number
	window  *window
	allowed map[uint64]bool // of a test number
	usage   string          // the x-business-use-case-usage header
}

type plateKey struct{ name, language string }

func newWorld(opts *Options, wake chan struct{}) *world {
	now := time.Now()
	w := &world{
		opts: opts, epoch: now, wall: now.UnixNano() - 1, wake: wake,
		book:      newLedger(),
		numbers:   map[string]*line{},
		templates: map[plateKey]*plate{},
		pairs:     pairLimit{pairs: map[pair]pairState{}},
	}
	for _, n := range opts.Numbers {
		w.addNumber(n)
	}
	for _, t := range opts.Templates {
		w.addTemplate(t)
	}
	return w
}

// now is nanoseconds since the epoch, on the monotonic clock, and never 0: that
// means never.
func (w *world) now() int64 { return int64(time.Since(w.epoch)) + 1 }

func (w *world) addNumber(n Number) *line {
	n = n.withDefaults()
	l := &line{Number: n, window: newWindow(n.Throughput), allowed: map[uint64]bool{}}
	for _, to := range n.Allowed {
		if phone, _, ok := normalize(to, n.Display); ok {
			l.allowed[phone] = true
		}
	}
	l.usage = fmt.Sprintf(`{%q:[{"type":"whatsapp","call_count":1,"total_cputime":1,"total_time":1,`+
		`"estimated_time_to_regain_access":0}]}`, n.WABA)
	w.numbers[n.ID] = l
	return l
}

func (w *world) addTemplate(t Template) {
	w.templates[plateKey{t.Name, t.Language}] = newPlate(t)
}

// line finds a number, or makes one up where unknown ids are welcome.
func (w *world) line(id string) *line {
	w.mu.Lock()
	defer w.mu.Unlock()
	l := w.numbers[id]
	if l == nil && w.opts.AutoNumbers && isID(id) {
		l = w.addNumber(Number{ID: id, Throughput: w.opts.AutoThroughput})
	}
	return l
}

func isID(s string) bool {
	return s != "" && len(s) <= 32 && strings.Trim(s, "0123456789") == ""
}

func (w *world) plate(name, language string) *plate {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.templates[plateKey{name, language}]
}

// plates lists the templates by name and language.
func (w *world) plates() []*plate {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := make([]*plate, 0, len(w.templates))
	for _, p := range w.templates {
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b *plate) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Language, b.Language))
	})
	return all
}

// lines lists the numbers by id.
func (w *world) lines() []*line {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := make([]*line, 0, len(w.numbers))
	for _, l := range w.numbers {
		all = append(all, l)
	}
	slices.SortFunc(all, func(a, b *line) int { return cmp.Compare(a.ID, b.ID) })
	return all
}

// knowsToken tells whether a bearer token is good at this moment.
func (w *world) knowsToken(token string) bool {
	return len(w.opts.Tokens) == 0 || slices.Contains(w.opts.Tokens, token)
}

func (w *world) signal() {
	select {
	case w.wake <- struct{}{}:
	default: // a wake-up is pending already
	}
}

// misbehave puts a checked behaviour into force and returns its id.
func (w *world) misbehave(b Behavior) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ruleSeq++
	r := &rule{Behavior: b, id: w.ruleSeq, at: b.stage()}
	r.budget.Store(int64(b.Count))
	if b.Duration > 0 {
		r.until = w.now() + int64(b.Duration)
	}
	list := append(slices.Clone(w.rules.all()), r)
	w.rules.list.Store(&list)
	w.signal()
	return r.id
}

// clear ends one behaviour, or all of them for id 0, and tells how many.
func (w *world) clear(id int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	old := w.rules.all()
	list := slices.DeleteFunc(slices.Clone(old), func(r *rule) bool { return id == 0 || r.id == id })
	w.rules.list.Store(&list)
	w.signal()
	return len(old) - len(list)
}

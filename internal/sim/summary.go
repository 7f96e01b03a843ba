package sim

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Summary is the ledger in figures.
type Summary struct {
	Requests int                      `json:"requests"`
	Accepts  int                      `json:"accepts"`
	Outcomes map[Outcome]int          `json:"outcomes"`
	Errors   map[int]int              `json:"errors"` // by code
	Numbers  map[string]NumberSummary `json:"numbers"`
	// Portfolios count the distinct recipients accepted, ever, by portfolio.
	Portfolios map[string]int `json:"portfolios"`
	// Callbacks is how many callback ids were accepted once, twice, ...
	Callbacks map[int]int `json:"accepts_per_callback"`
	// Recipients is how many people were accepted once, twice, ...
	Recipients map[int]int `json:"accepts_per_recipient"`
	// DoubledCallbacks and DoubledRecipients count those accepted more than once.
	DoubledCallbacks  int           `json:"doubled_callbacks"`
	DoubledRecipients int           `json:"doubled_recipients"`
	Webhooks          WebhookCounts `json:"webhooks"`
}

// NumberSummary is one sender's part.
type NumberSummary struct {
	Requests   int `json:"requests"`
	Accepts    int `json:"accepts"`
	Recipients int `json:"recipients"`    // distinct, accepted
	Busiest    int `json:"max_in_second"` // requests in the busiest 1 s window
	// Excess is WorstWindow's over the asked pace; only with SummaryQuery.Rate.
	Excess *float64 `json:"excess,omitempty"`
	Worst  *Window  `json:"worst_window,omitempty"`
}

// SummaryQuery says what to hold the ledger against.
type SummaryQuery struct {
	// Rate (per second), Burst and Slack are the pace for WorstWindow; no Rate
	// leaves it out.
	Rate, Burst float64
	Slack       time.Duration
	// CallbackFields groups callback ids by their first so many fields between
	// dots; 0 takes them whole.
	CallbackFields int
}

// Summary counts the ledger. It takes a few seconds and a few hundred bytes
// per request for millions of them, and holds up no request meanwhile.
func (s *Sim) Summary(q SummaryQuery) Summary {
	w := s.world.Load()
	t := tally{
		query: q, numbers: map[uint32]*numberTally{},
		sum: Summary{
			Outcomes: map[Outcome]int{}, Errors: map[int]int{},
			Numbers: map[string]NumberSummary{}, Portfolios: map[string]int{},
		},
	}
	for i := 0; ; {
		v := w.view(i, chunkLen)
		for k := range v.records {
			t.add(&v, &v.records[k])
		}
		if len(v.records) == 0 {
			t.finish(w, v.names)
			return t.sum
		}
		i += len(v.records)
	}
}

// tally collects keys to sort: maps of ten million keys would be far larger.
type tally struct {
	query     SummaryQuery
	sum       Summary
	numbers   map[uint32]*numberTally
	callbacks []uint64
	phones    []uint64
}

type numberTally struct {
	times  []int64
	phones []uint64
}

func (t *tally) add(v *view, r *record) {
	n := t.numbers[r.number]
	if n == nil {
		n = &numberTally{}
		t.numbers[r.number] = n
	}
	n.times = append(n.times, r.received)
	t.sum.Requests++
	t.sum.Outcomes[outcomes[r.outcome]]++
	if !r.accepted() {
		if outcomes[r.outcome] == Refused {
			t.sum.Errors[int(r.code)]++
		}
		return
	}
	t.sum.Accepts++
	n.phones = append(n.phones, r.phone)
	t.phones = append(t.phones, r.phone)
	if c := v.callback(r); len(c) > 0 {
		t.callbacks = append(t.callbacks, hashString(3, fields(string(c), t.query.CallbackFields)))
	}
}

// fields returns the first n dot-separated fields of s, or all for 0.
func fields(s string, n int) string {
	if n <= 0 {
		return s
	}
	end := 0
	for range n {
		i := strings.IndexByte(s[end:], '.')
		if i < 0 {
			return s
		}
		end += i + 1
	}
	return s[:end-1]
}

func (t *tally) finish(w *world, names []string) {
	_, t.sum.Recipients = countRuns(t.phones)
	_, t.sum.Callbacks = countRuns(t.callbacks)
	t.sum.DoubledRecipients = repeated(t.sum.Recipients)
	t.sum.DoubledCallbacks = repeated(t.sum.Callbacks)
	portfolios := map[string][]uint64{}
	for id, n := range t.numbers {
		name := names[id]
		if l := w.known(name); l != nil {
			portfolios[l.Portfolio] = append(portfolios[l.Portfolio], n.phones...)
		}
		t.sum.Numbers[name] = n.summary(t.query)
	}
	for p, phones := range portfolios {
		t.sum.Portfolios[p], _ = countRuns(phones)
	}
	t.sum.Webhooks = w.webhookCounts()
}

func (n *numberTally) summary(q SummaryQuery) NumberSummary {
	s := NumberSummary{Requests: len(n.times), Accepts: len(n.phones), Busiest: BusiestSpan(n.times, time.Second)}
	s.Recipients, _ = countRuns(slices.Clone(n.phones))
	if q.Rate > 0 {
		worst := WorstWindow(n.times, q.Rate, q.Burst, q.Slack)
		s.Excess, s.Worst = &worst.Excess, &worst
	}
	return s
}

func repeated(byCount map[int]int) int {
	sum := 0
	for n, keys := range byCount {
		if n > 1 {
			sum += keys
		}
	}
	return sum
}

func (w *world) known(number string) *line {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.numbers[number]
}

func (w *world) webhookCounts() WebhookCounts {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := w.out.counts
	c.Pending = c.Planned - c.Acked - c.Dropped - c.GivenUp
	return c
}

// summaryQuery reads a query string.
func summaryQuery(q url.Values) (SummaryQuery, error) {
	var out SummaryQuery
	var err error
	if s := q.Get("rate"); s != "" {
		if out.Rate, err = strconv.ParseFloat(s, 64); err != nil {
			return out, badQuery("rate", "a number per second")
		}
	}
	if s := q.Get("burst"); s != "" {
		if out.Burst, err = strconv.ParseFloat(s, 64); err != nil {
			return out, badQuery("burst", "a number")
		}
	}
	if s := q.Get("slack"); s != "" {
		if out.Slack, err = time.ParseDuration(s); err != nil {
			return out, badQuery("slack", `a duration such as "50ms"`)
		}
	}
	if s := q.Get("callback_fields"); s != "" {
		if out.CallbackFields, err = strconv.Atoi(s); err != nil {
			return out, badQuery("callback_fields", "a whole number")
		}
	}
	return out, nil
}

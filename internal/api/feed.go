package api

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/weirhq/weir/internal/store"
)

const (
	eventsUsual = 100              // events of a page unless the caller says otherwise
	mostWait    = 30 * time.Second // that a caller may ask for
	lookEvery   = time.Second      // while one waits
	mostWaiters = 64               // who would be one more is answered at once
)

// Breaker is how a breaker stands, as JSON: its fields are a promise.
type Breaker struct {
	Scope           string  `json:"scope"`
	State           string  `json:"state"`
	Since           string  `json:"since"`
	Reason          string  `json:"reason"`
	Note            string  `json:"note,omitempty"`
	Cause           string  `json:"cause,omitempty"`
	ForcedSeconds   float64 `json:"forced_seconds"`
	Epoch           string  `json:"epoch"`
	Seq             int64   `json:"seq"`
	Mark            string  `json:"mark"` // from where its events are news
	Openings        int64   `json:"openings_24h"`
	MeanOpenSeconds float64 `json:"mean_open_seconds"`
	Calls           int64   `json:"calls_1m"`
	Failures        int64   `json:"failures_1m"`
	P95Seconds      float64 `json:"p95_seconds"`
	P99Seconds      float64 `json:"p99_seconds"`
}

// BreakerOf shows a breaker.
func BreakerOf(b store.BreakerInfo) Breaker {
	return Breaker{
		Scope: b.Scope, State: b.State.String(), Since: b.Since.UTC().Format(time.RFC3339), Reason: b.Reason, Note: b.Note, Cause: b.Cause,
		ForcedSeconds: b.ForcedLeft.Seconds(), Epoch: b.Epoch, Seq: b.Seq, Mark: store.Mark{Epoch: b.Epoch, Seq: b.Seq}.String(),
		Openings: b.Openings, MeanOpenSeconds: b.MeanOpen.Seconds(),
		Calls: b.Samples, Failures: b.Failures, P95Seconds: b.P95.Seconds(), P99Seconds: b.P99.Seconds(),
	}
}

// event is a move of a breaker, as JSON: its fields are a promise, and those that
// a notice of it has are named alike.
type event struct {
	Epoch     string `json:"epoch"`
	Seq       int64  `json:"seq"`
	At        string `json:"at"`
	Prev      string `json:"prev"`
	State     string `json:"state"`
	Reason    string `json:"reason"`
	Note      string `json:"note,omitempty"`
	Samples   int64  `json:"samples"`
	Failures  int64  `json:"failures"`
	Reporters int    `json:"reporters"`
}

// page answers who can be led on.
type page struct {
	Scope  string  `json:"scope"`
	Events []event `json:"events"`
	Next   string  `json:"next"`
}

// broken answers who cannot.
type broken struct {
	code    int
	Error   string   `json:"error"`
	Cause   string   `json:"cause"`             // restarted, ahead or forgotten
	Breaker *Breaker `json:"breaker,omitempty"` // as it stands
}

// following answers GET /v1/breakers and GET /v1/breakers/{scope}/events.
type following struct {
	list    func(ctx context.Context) ([]store.BreakerInfo, error)
	events  func(ctx context.Context, scope string, after store.Mark, most int) ([]store.BreakerEvent, store.Mark, error)
	leaving <-chan struct{}
	waiters chan struct{}
	log     *slog.Logger
}

func (h *following) all(w http.ResponseWriter, r *http.Request) {
	list, err := h.list(r.Context())
	if err != nil {
		h.away(w, r, err)
		return
	}
	views := make([]Breaker, len(list))
	for i, b := range list {
		views[i] = BreakerOf(b)
	}
	answer(w, http.StatusOK, map[string]any{"breakers": views})
}

func (h *following) away(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() != nil {
		return // whoever asked has left
	}
	h.log.ErrorContext(r.Context(), "breakers were not read", "err", err)
	answer(w, http.StatusServiceUnavailable, map[string]string{"error": reasonDatabase + "; try again"})
}

func (h *following) feed(w http.ResponseWriter, r *http.Request) {
	ask, err := readAsk(r.URL.Query())
	if err != nil {
		answer(w, http.StatusBadRequest, map[string]string{"error": err.Error()})
		return
	}
	ask.scope = r.PathValue("scope")
	switch events, next, err := h.await(w, r, ask); {
	case err == nil:
		answer(w, http.StatusOK, page{Scope: ask.scope, Events: eventsOf(events), Next: next.String()})
	case errors.Is(err, store.ErrNotFound):
		answer(w, http.StatusNotFound, map[string]string{"error": err.Error()})
	case errors.Is(err, store.ErrRestarted):
		h.broken(w, r, ask.scope, broken{code: http.StatusConflict, Error: err.Error(), Cause: "restarted"})
	case errors.Is(err, store.ErrAhead):
		h.broken(w, r, ask.scope, broken{code: http.StatusConflict, Error: err.Error(), Cause: "ahead"})
	case errors.Is(err, store.ErrForgotten):
		h.broken(w, r, ask.scope, broken{code: http.StatusGone, Error: err.Error(), Cause: "forgotten"})
	default:
		h.away(w, r, err)
	}
}

// broken adds how the breaker stands to the answer for who cannot be led on.
func (h *following) broken(w http.ResponseWriter, r *http.Request, scope string, b broken) {
	list, err := h.list(r.Context())
	if err != nil {
		h.away(w, r, err)
		return
	}
	if i := slices.IndexFunc(list, func(info store.BreakerInfo) bool { return info.Scope == scope }); i >= 0 {
		view := BreakerOf(list[i])
		b.Breaker = &view
	}
	answer(w, b.code, b)
}

func eventsOf(moves []store.BreakerEvent) []event {
	all := make([]event, len(moves))
	for i, m := range moves {
		all[i] = event{
			Epoch: m.Epoch, Seq: m.Seq, At: m.At.UTC().Format(time.RFC3339Nano), Prev: m.Prev, State: m.State, Reason: m.Reason, Note: m.Note,
			Samples: m.Samples, Failures: m.Failures, Reporters: m.Reporters,
		}
	}
	return all
}

// ask is a request for events.
type ask struct {
	scope string
	after store.Mark
	limit int
	wait  time.Duration
}

func readAsk(q url.Values) (a ask, err error) {
	for name := range q {
		if name != "after" && name != "limit" && name != "wait" {
			return a, fmt.Errorf("no parameter is called %q: there are after, limit and wait", name)
		}
	}
	if a.after, err = store.ParseMark(q.Get("after")); err != nil {
		return a, fmt.Errorf("after is %w", err)
	}
	if a.limit, err = whole(q, "limit", eventsUsual, store.MostEvents); err == nil && a.limit == 0 {
		err = fmt.Errorf("limit must be from 1 to %d", store.MostEvents)
	}
	if err != nil {
		return a, err
	}
	seconds, err := whole(q, "wait", 0, int(mostWait.Seconds()))
	a.wait = time.Duration(seconds) * time.Second
	return a, err
}

func whole(q url.Values, name string, usual, most int) (int, error) {
	if !q.Has(name) {
		return usual, nil
	}
	n, err := strconv.Atoi(q.Get(name))
	if err != nil || n < 0 || n > most {
		return 0, fmt.Errorf("%s must be a whole number, at most %d", name, most)
	}
	return n, nil
}

// await looks for events until there are some, something is wrong, the time is
// over or the node leaves. Between two looks it holds nothing of the database's.
func (h *following) await(w http.ResponseWriter, r *http.Request, a ask) ([]store.BreakerEvent, store.Mark, error) {
	events, next, err := h.events(r.Context(), a.scope, a.after, a.limit)
	if a.wait == 0 || err != nil || len(events) > 0 {
		return events, next, err
	}
	select {
	case h.waiters <- struct{}{}:
		defer func() { <-h.waiters }()
	default:
		return events, next, nil
	}
	// The server's own deadlines are for those who are slow. Where they cannot be
	// moved the connection ends early, which callers of any server must bear.
	until := time.Now().Add(a.wait)
	deadlines := http.NewResponseController(w)
	_ = errors.Join(deadlines.SetReadDeadline(until.Add(mostWait)), deadlines.SetWriteDeadline(until.Add(mostWait)))
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for len(events) == 0 && err == nil && time.Now().Before(until) {
		select {
		case <-r.Context().Done():
			return nil, next, r.Context().Err()
		case <-h.leaving:
			return events, next, nil
		case <-tick.C:
		}
		events, next, err = h.events(r.Context(), a.scope, next, a.limit)
	}
	return events, next, err
}

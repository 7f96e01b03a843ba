package sim

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// call is one HTTP request to the platform.
type call struct {
	world   *world
	stopped <-chan struct{}
	rw      http.ResponseWriter
	req     *http.Request
}

// errNoAnswer says that the sender got nothing.
var errNoAnswer = errors.New("no answer was given")

// serveSend handles POST /{version}/{number}/messages, or /marketing_messages
// when lite is set.
func (s *Sim) serveSend(lite bool) http.HandlerFunc {
	return func(rw http.ResponseWriter, r *http.Request) {
		c := &call{world: s.world.Load(), stopped: s.stopped, rw: rw, req: r}
		c.send(lite)
	}
}

func (c *call) send(lite bool) {
	w := c.world
	early := subject{number: c.req.PathValue("number"), token: bearer(c.req)}
	if w.rules.pick(onArrival, &early, w.now()) != nil {
		w.note(&early, ResetUnread)
		_ = c.reset() // always errNoAnswer
		return
	}
	body, err := io.ReadAll(io.LimitReader(c.req.Body, maxRequest+1))
	if err != nil {
		panic(http.ErrAbortHandler) // not received in full: no line in the ledger
	}
	a := w.examine(c.req, body, lite)
	v := w.admit(a)
	if err := c.answer(a, &v); err == nil {
		w.answered(v.ref)
	}
}

// answer waits out the latency and writes what the verdict says.
func (c *call) answer(a *arrival, v *verdict) error {
	c.sleep(v.latency)
	trace := graphHeaders(c.rw, c.version(), a.subject.fate^uint64(v.ref))
	switch {
	case v.rule != nil:
		return c.misbehave(v.rule, trace)
	case v.err != nil:
		return v.err.write(c.rw, trace)
	}
	c.rw.Header().Set("X-Business-Use-Case-Usage", a.line.usage)
	type contact struct {
		Input string `json:"input"`
		WaID  string `json:"wa_id"`
	}
	type sent struct {
		ID     string `json:"id"`
		Status string `json:"message_status"`
	}
	body, err := json.Marshal(struct {
		Product  string    `json:"messaging_product"`
		Contacts []contact `json:"contacts"`
		Messages []sent    `json:"messages"`
	}{"whatsapp", []contact{{a.msg.To, waID(a.phone)}}, []sent{{v.id, v.status}}})
	if err != nil {
		return fmt.Errorf("encode answer: %w", err)
	}
	return writeBody(c.rw, http.StatusOK, body)
}

// version is the Graph version the request named, or the newest.
func (c *call) version() string {
	if v := c.req.PathValue("version"); v != "" {
		return v
	}
	return "v27.0"
}

// sleep waits; a sender that leaves meanwhile gets no answer.
func (c *call) sleep(d time.Duration) {
	if d <= 0 {
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-c.req.Context().Done():
		panic(http.ErrAbortHandler)
	case <-c.stopped:
		panic(http.ErrAbortHandler)
	}
}

func (w *world) answered(ref int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.book.at(ref).answered = w.now()
}

// note records a request of which only the sender is known.
func (w *world) note(s *subject, o Outcome) {
	w.mu.Lock()
	defer w.mu.Unlock()
	rec := record{received: w.now(), number: w.book.name(s.number), caller: w.book.caller(s.token)}
	rec.setOutcome(o, 0, 0)
	w.book.add(rec)
}

package sim

import (
	"fmt"
	"net/http"
	"strings"
	"time"
)

// arrival is a request received in full and looked at, but not yet counted.
type arrival struct {
	number   string
	line     *line
	msg      message
	phone    uint64
	prefixed bool
	lite     bool // through /marketing_messages
	category string
	subject  subject
	gate     *rule       // a fault before anything is decided
	refusal  *graphError // what is wrong with it, limits apart
}

// verdict is what a request came to.
type verdict struct {
	ref     int         // its place in the ledger
	err     *graphError // refused
	rule    *rule       // answered by a fault
	status  string      // message_status of an accepted one
	id      string      // its wamid
	latency time.Duration
	hold    time.Duration // before its first status, on top of the usual delay
}

// examine reads a request and finds everything that can be wrong with it
// before its time of arrival matters.
func (w *world) examine(r *http.Request, body []byte, lite bool) *arrival {
	a := &arrival{number: r.PathValue("number"), lite: lite}
	a.line = w.line(a.number)
	var malformed *graphError
	a.msg, malformed = parse(body)
	display := "+1"
	if a.line != nil {
		display = a.line.Display
	}
	var isPhone bool
	a.phone, a.prefixed, isPhone = normalize(a.msg.To, display)
	a.subject = subject{
		number: a.number, to: a.msg.To, template: a.msg.template.Name, token: bearer(r),
		fate: hashString(w.opts.Seed^a.phone, a.msg.Callback),
	}
	if isPhone {
		a.subject.to = phoneText(a.phone)
	}
	if a.gate = w.rules.pick(onGate, &a.subject, w.now()); a.gate != nil {
		return a
	}
	a.refusal = w.authorize(&a.subject)
	switch {
	case a.refusal != nil:
	case a.line == nil:
		a.refusal = unknownObject(http.MethodPost, a.number)
	case malformed != nil:
		a.refusal = malformed
	default:
		a.refusal = w.inspect(a, isPhone)
	}
	return a
}

func bearer(r *http.Request) string {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") && !strings.EqualFold(scheme, "OAuth") {
		return ""
	}
	return strings.TrimSpace(token)
}

func (w *world) authorize(s *subject) *graphError {
	switch {
	case s.token == "":
		return fail(0, "An access token is required to request this resource.")
	case !w.knowsToken(s.token):
		e := fail(190, "")
		e.Message, e.Data = "Invalid OAuth access token - Cannot parse access token", nil
		return e
	case w.rules.pick(onAuth, s, w.now()) != nil:
		e := fail(190, "")
		e.Message, e.Data = "Error validating access token: The session has been invalidated.", nil
		return e
	}
	return nil
}

// inspect checks a well-formed message for a known number.
func (w *world) inspect(a *arrival, isPhone bool) *graphError {
	if err := a.msg.checkEnvelope(a.lite); err != nil {
		return err
	}
	switch {
	case !isPhone:
		return fail(131009, "to: is not a phone number in E.164, such as +16505551234")
	case phoneText(a.phone) == a.line.Display:
		return fail(131021, "")
	case a.line.Test && !a.line.allowed[a.phone]:
		return fail(131030, "")
	}
	t := &a.msg.template
	if err := t.checkShape(); err != nil {
		return err
	}
	return w.inspectTemplate(a, t)
}

func (w *world) inspectTemplate(a *arrival, t *outgoing) *graphError {
	p := w.plate(t.Name, t.Language.Code)
	state := "APPROVED"
	a.category = "MARKETING"
	switch {
	case p != nil:
		state, a.category = p.Status, p.Category
	case !w.opts.AutoTemplates:
		return fail(132001, fmt.Sprintf("template name (%s) does not exist in %s", t.Name, t.Language.Code))
	}
	if r := w.rules.pick(onTemplate, &a.subject, w.now()); r != nil {
		state = strings.ToUpper(r.Status)
	}
	if err := checkStatus(t.Name, t.Language.Code, state); err != nil {
		return err
	}
	if a.lite && a.category != "MARKETING" {
		return fail(134100, "")
	}
	if p == nil {
		return nil
	}
	return p.check(t)
}

// admit gives the request its place in the ledger and decides what remains:
// the limits, and the fate of what passes them. Everything here happens at one
// instant, so the ledger's order is the order in which the limits saw requests.
func (w *world) admit(a *arrival) verdict {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.now()
	v := verdict{ref: w.book.n, latency: w.opts.Latency.draw(a.subject.fate, saltLatency)}
	if r := w.rules.pick(onLatency, &a.subject, now); r != nil {
		v.latency += time.Duration(r.Delay)
	}
	rec := w.newRecord(a, now)
	if a.gate != nil {
		v.rule = a.gate
		rec.setOutcome(a.gate.result(false))
	} else if v.err = w.limit(a, now); v.err != nil {
		rec.setOutcome(Refused, v.err.HTTP, v.err.Code)
	} else {
		w.accept(a, &rec, &v)
	}
	w.book.add(rec)
	if rec.plan != planNone && w.opts.WebhookURL != "" {
		w.schedule(v.ref, &rec, v.latency+v.hold)
	}
	return v
}

func (w *world) newRecord(a *arrival, now int64) record {
	rec := record{received: now, phone: a.phone, fate: a.subject.fate, number: w.book.name(a.number), caller: w.book.caller(a.subject.token)}
	if t := &a.msg.template; t.Name != "" {
		rec.template = w.book.name(t.Name + "/" + t.Language.Code)
	}
	rec.text, rec.textLen = w.book.keep(a.msg.Callback)
	if a.prefixed && a.phone != 0 {
		rec.flags |= flagPrefixed
	}
	if a.lite {
		rec.flags |= flagLite
	}
	return rec
}

func (r *record) setOutcome(o Outcome, status, code int) {
	r.outcome, r.http, r.code = outcomeIndex(o), uint16(status), int32(code)
}

func (w *world) limit(a *arrival, now int64) *graphError {
	if a.refusal != nil {
		return a.refusal
	}
	mps := 0
	if r := w.rules.pick(onLimit, &a.subject, now); r != nil {
		mps = r.MPS
	}
	if !a.line.window.admit(now, mps) {
		return fail(130429, "")
	}
	if !w.pairs.admit(pair{w.book.name(a.number), a.phone}, now) {
		return fail(131056, "")
	}
	return nil
}

// accept takes the message: it decides its statuses and what the sender sees.
func (w *world) accept(a *arrival, rec *record, v *verdict) {
	v.status = "accepted"
	code := 0
	rec.plan, code = w.opts.planFor(rec.fate)
	rec.setOutcome(Accepted, http.StatusOK, code)
	if r := w.rules.pick(onFate, &a.subject, rec.received); r != nil {
		v.hold = time.Duration(r.Delay)
		switch {
		case r.Kind == FailLater:
			rec.plan, rec.code = planFailed, int32(r.Code)
		case r.Kind == PauseAnswer:
			v.status = "paused"
		case r.Kind == Hold:
			v.status = "held_for_quality_assessment"
			rec.flags |= flagHeld
			if r.Drop {
				rec.plan, rec.code = planFailed, 132015
			}
		}
	}
	if v.rule = w.rules.pick(onAnswer, &a.subject, rec.received); v.rule != nil {
		o, status, _ := v.rule.result(true)
		rec.outcome, rec.http = outcomeIndex(o), uint16(status)
	}
	v.id = wamid(rec.phone, rec.fate, uint64(v.ref)+1)
}

package cloudapi

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weirhq/weir/engine"
)

// Classify says what one HTTP answer of the messages endpoint comes to. It is
// pure, and keyed on Meta's error code: the HTTP status misleads (3, 131045 and
// 134102 come as 500 and are permanent, 132001 as 404, throttles as 400, 403
// or 429), so it decides only where there is no code or none that is listed.
//
// An answer without a readable word from Meta is Reconcile: gateways and
// proxies answer in HTML or in JSON of their own, and none of them knows what Meta did. A redirect alone
// is Release: the request was turned away before Meta. It accepts only with a
// message id, and its titles hold no text that could name a recipient.
func Classify(status int, header http.Header, body []byte) engine.Answer {
	r := parseReply(status, body)
	switch {
	case r.messageID != "" && isSuccess(status):
		return accept(r)
	case r.messageID != "":
		return reconcile("answer with a message id and HTTP " + strconv.Itoa(status))
	case r.err == nil:
		return wordless(status, header)
	}
	a := byCode(*r.err, status)
	if a.Action == engine.Pause {
		a.After = max(a.After, regain(header))
	}
	return a
}

// ClassifyCode says what an error code asks for when it comes with a failed
// status webhook. Such a message is known to have failed, and says nothing of how
// its sender fares now, so what would be Reconcile or Pause on a call is
// Reschedule here; a retry is a new message, not before a minute has passed: what
// failed after it was taken does not pass in a second.
func ClassifyCode(code int) engine.Answer {
	e := lookup(code)
	if e == nil {
		return engine.Answer{Action: engine.Fail, Suspect: true, Code: code, Title: titleUnlisted, Advice: adviceUnlisted}
	}
	a := e.answer(code)
	if a.Action == engine.Reconcile || a.Action == engine.Pause {
		a.Action, a.Scope, a.Throttled = engine.Reschedule, engine.ScopeRecipient, false
	}
	if a.Action == engine.Reschedule {
		a.After = max(a.After, failedWait)
	}
	return a
}

// Title is our short words for an error code, or "" for one that Meta does not list.
func Title(code int) string {
	if e := lookup(code); e != nil {
		return e.title
	}
	return ""
}

// Advice is what an operator can do about an error code, or "" where there is
// nothing to do or the code is not listed.
func Advice(code int) string {
	if e := lookup(code); e != nil {
		return e.advice
	}
	return ""
}

// failedWait is the least wait before a message that failed is replaced.
const failedWait = time.Minute

const (
	titleUnlisted  = "error that Meta does not list"
	adviceUnlisted = "look it up on Meta's page of error codes"
)

// accept takes the platform at its word. `paused` (named in Meta's OpenAPI,
// explained nowhere) is kept as held: the message exists and has an id, so it
// must never be sent again, and like a held one it has not been sent either;
// its fate comes by webhook. A status we do not know is a plain accept, as is
// none at all: several pages show answers without one.
func accept(r reply) engine.Answer {
	a := engine.Answer{Action: engine.Accept, MessageID: r.messageID}
	switch r.messageStatus {
	case "held_for_quality_assessment":
		a.Held, a.Title = true, "held for quality assessment"
	case "paused":
		a.Held, a.Title = true, "paused by the platform"
	}
	return a
}

func byCode(e replyError, status int) engine.Answer {
	// A phone number id that does not exist is code 100 with this subcode; a
	// plain 100 is a bad parameter.
	if e.code == 100 && e.subcode == 33 {
		e.code = 33
	}
	listed := lookup(e.code)
	if listed != nil && (!listed.byStatus || status == http.StatusBadRequest) {
		return listed.answer(e.code)
	}
	a := byStatus(status, e.transient || listed != nil)
	a.Code = e.code
	if listed != nil {
		a.Title, a.Advice = listed.title, listed.advice
		return a
	}
	a.Advice = cmp.Or(a.Advice, adviceUnlisted)
	if a.Title = scrub(e.message); a.Title == "" {
		a.Title = titleUnlisted
	}
	return a
}

// byStatus judges a Graph error whose code says too little. A refusal that
// may be this row's or everyone's fails the row and is suspect: a few in a
// row stop the campaign.
func byStatus(status int, transient bool) engine.Answer {
	switch {
	case status == http.StatusTooManyRequests:
		return pauseOne
	case status == http.StatusUnauthorized && !transient:
		return engine.Answer{Action: engine.StopNumber, Scope: engine.ScopeApp, Advice: adviceToken}
	case status == http.StatusServiceUnavailable:
		return platformDown
	case status < 400 || status >= 500 || status == http.StatusRequestTimeout:
		return engine.Answer{} // 500 may come after the message was taken: nobody knows
	case transient:
		return engine.Answer{Action: engine.Reschedule}
	default:
		return engine.Answer{Action: engine.Fail, Suspect: true}
	}
}

// wordless judges an answer without Graph's JSON in it.
func wordless(status int, header http.Header) engine.Answer {
	switch status {
	case http.StatusTooManyRequests:
		// 429 is defined as "not processed", whoever says it.
		return engine.Answer{
			Action: engine.Pause, Scope: engine.ScopeNumber, Throttled: true,
			After: regain(header), Title: "HTTP 429 without an error code",
		}
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		// Meta's endpoint does not redirect. Something else answers on this node's
		// way, a captive portal or a proxy, and sends the request elsewhere instead
		// of taking it. Another node's way may be good, so nothing stops by it.
		a := release("the API's address answers with a redirect")
		a.Advice, a.Local = "check this node's proxy and network, and WEIR_GRAPH_URL", true
		return a
	default:
		a := reconcile("HTTP " + strconv.Itoa(status) + " without a readable answer")
		a.Local = status >= 500 && fromProxy(header)
		return a
	}
}

// fromProxy reports whether an answer was made on the way: a proxy has signed it
// (Via) and Meta, whose answers all carry X-Fb-… headers, has not. What came of
// the request is unknown all the same.
func fromProxy(header http.Header) bool {
	for name := range header {
		if strings.HasPrefix(name, "X-Fb-") {
			return false
		}
	}
	return header.Get("Via") != ""
}

func isSuccess(status int) bool { return status >= 200 && status < 300 }

// isTokenRefusal reports the codes that a newer token would cure. Code 0 is
// Graph's, and also our "no code".
func isTokenRefusal(a engine.Answer) bool {
	return a.Action == engine.StopNumber && a.Scope == engine.ScopeApp && slices.Contains([]int{0, 102, 104, 190}, a.Code)
}

// longestRegain bounds what a header can make us wait, against a typing error
// on the other side.
const longestRegain = time.Hour

// regain is how long the platform asks to stay away: Retry-After (seconds) or
// the business use case header's estimate (minutes).
func regain(header http.Header) time.Duration {
	seconds, err := strconv.Atoi(header.Get("Retry-After"))
	if err != nil || seconds < 0 {
		seconds = 0
	}
	wait := time.Duration(min(seconds, int(longestRegain.Seconds()))) * time.Second
	if usage := header.Get("X-Business-Use-Case-Usage"); usage != "" {
		wait = max(wait, time.Duration(regainMinutes(usage))*time.Minute)
	}
	return min(wait, longestRegain)
}

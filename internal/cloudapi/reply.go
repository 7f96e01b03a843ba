package cloudapi

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// reply is what we read of an answer of the messages endpoint.
type reply struct {
	messageID     string
	messageStatus string
	err           *replyError // set when the body carries an error of Graph's own
}

type replyError struct {
	code, subcode int
	message       string
	transient     bool
}

// looseInt reads 190, "190" and 190.0 alike and keeps apart what is no number
// at all, since Graph's code 0 means something.
type looseInt struct {
	value int
	ok    bool
}

// UnmarshalJSON never fails: one odd field must not hide the others.
func (n *looseInt) UnmarshalJSON(b []byte) error {
	text := strings.TrimSpace(string(bytes.Trim(b, `"`)))
	if v, err := strconv.Atoi(text); err == nil {
		*n = looseInt{v, true}
	} else if f, err := strconv.ParseFloat(text, 64); err == nil && f == float64(int32(f)) {
		*n = looseInt{int(f), true}
	}
	return nil
}

type wireReply struct {
	Messages []struct {
		ID     string `json:"id"`
		Status string `json:"message_status"`
	} `json:"messages"`
	Error *wireError `json:"error"`
}

type wireError struct {
	Code      looseInt `json:"code"`
	Subcode   looseInt `json:"error_subcode"`
	Message   string   `json:"message"`
	Transient bool     `json:"is_transient"`
	Type      string   `json:"type"`
	Trace     string   `json:"fbtrace_id"`
}

// isGraphs tells Graph's error from a gateway's, which many write as
// {"error":{"code":404}} too: Graph's carry a type and a trace (Graph API, "Handle
// errors"). One without either is believed for a code of the platform's that is
// not just the HTTP status again.
func (e *wireError) isGraphs(status int) bool {
	switch {
	case !e.Code.ok:
		return false
	case e.Type != "" || e.Trace != "":
		return true
	default:
		return e.Code.value != status && lookup(e.Code.value) != nil
	}
}

// parseReply reads what it can of an answer with this HTTP status. A field of an unexpected type leaves the others
// readable (encoding/json goes on); a body that is not JSON gives the zero reply.
func parseReply(status int, body []byte) reply {
	var w wireReply
	if err := json.Unmarshal(body, &w); err != nil && !isTypeError(err) {
		return reply{}
	}
	var r reply
	if len(w.Messages) > 0 {
		r.messageID, r.messageStatus = clean(w.Messages[0].ID), w.Messages[0].Status
	}
	if w.Error != nil && w.Error.isGraphs(status) {
		r.err = &replyError{w.Error.Code.value, w.Error.Subcode.value, w.Error.Message, w.Error.Transient}
	}
	return r
}

// regainMinutes reads X-Business-Use-Case-Usage: per business account a list of
// usages, with the minutes until calls are welcome again.
func regainMinutes(usage string) int {
	var accounts map[string][]struct {
		Minutes looseInt `json:"estimated_time_to_regain_access"`
	}
	_ = json.Unmarshal([]byte(usage), &accounts) // what is readable of it counts
	longest := 0
	for _, usages := range accounts {
		for _, u := range usages {
			longest = max(longest, u.Minutes.value)
		}
	}
	return min(longest, int(longestRegain.Minutes()))
}

const (
	maxClean   = 512
	maxTitle   = 120
	phoneRun   = 7  // digits that could be a phone number; error codes have six
	secretWord = 40 // letters without a space: tokens and message ids
)

// clean makes a platform's string fit for a Postgres text column. Ids are
// opaque: a cut one would be another one, so one that does not fit is dropped.
func clean(s string) string {
	if len(s) > maxClean || strings.ContainsRune(s, 0) || !utf8.ValidString(s) {
		return ""
	}
	return s
}

// scrub makes a title of Meta's text. Its details may repeat the recipient's
// phone, a message id (which contains it) or a piece of a token, so long runs
// of digits and long words are masked, and control characters are dropped.
func scrub(s string) string {
	if strings.HasPrefix(s, "(#") {
		if _, rest, ok := strings.Cut(s, ")"); ok {
			s = rest
		}
	}
	words := strings.FieldsFunc(s, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) || r == utf8.RuneError })
	for i, w := range words {
		if len(w) > secretWord || strings.Contains(strings.ToLower(w), "wamid") {
			words[i] = "*"
		}
	}
	return cut(maskDigits(strings.Join(words, " ")), maxTitle)
}

// maskDigits replaces each run of phoneRun or more digits, whatever marks
// stand between them: phones are written with spaces, dashes, dots, brackets.
func maskDigits(s string) string {
	var out strings.Builder
	run, digits := 0, 0 // where the run starts, how many digits it has
	flush := func(end int) {
		if digits >= phoneRun {
			out.WriteByte('*')
		} else {
			out.WriteString(s[run:end])
		}
		digits = 0
	}
	for i, r := range s {
		if unicode.IsLetter(r) {
			flush(i)
			out.WriteRune(r)
			run = i + utf8.RuneLen(r)
		} else if unicode.IsDigit(r) {
			digits++
		}
	}
	flush(len(s))
	return out.String()
}

func cut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit]
}

func isTypeError(err error) bool {
	_, ok := err.(*json.UnmarshalTypeError)
	return ok
}

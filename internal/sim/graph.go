package sim

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
)

// graphError is an error as the Graph API words it: the HTTP status, and the
// `error` object of the body.
type graphError struct {
	HTTP      int        `json:"-"`
	Message   string     `json:"message"`
	Type      string     `json:"type"`
	Code      int        `json:"code"`
	Subcode   int        `json:"error_subcode,omitempty"`
	Transient bool       `json:"is_transient,omitempty"`
	Data      *errorData `json:"error_data,omitempty"`
	Trace     string     `json:"fbtrace_id"`
}

type errorData struct {
	Product string `json:"messaging_product"`
	Details string `json:"details"`
}

// words are what Meta's error page (September 2026; HTTP statuses from the
// November 2025 edition) says about a code. details is the usual explanation,
// used in webhooks and wherever a request gives no better one.
type words struct {
	http           int
	title, details string
}

var vocabulary = map[int]words{
	0:      {401, "AuthException", "The app user could not be authenticated."},
	1:      {400, "API Unknown", "Invalid request or possible server error."},
	2:      {503, "API Service", "Service temporarily unavailable."},
	3:      {500, "API Method", "The app lacks the capability to make this call."},
	4:      {400, "API Too Many Calls", "The app has reached its call rate limit."},
	10:     {403, "Permission Denied", "Permission is not granted or was removed."},
	33:     {400, "Parameter value is not valid", "The business phone number has been deleted."},
	100:    {400, "Invalid parameter", "The request has unsupported or misspelled parameters."},
	190:    {401, "Access token has expired", "The access token is expired or invalid."},
	200:    {403, "API Permission", "Permission is not granted or was removed."},
	368:    {403, "Temporarily blocked for policies violations", "The business account is restricted or disabled."},
	613:    {429, "Calls to this api have exceeded the rate limit.", "Too many calls."},
	80007:  {400, "Rate limit issues", "The business account has reached its rate limit."},
	130403: {400, "User blocked by business", "Your business has blocked this user."},
	130429: {400, "Rate limit hit", "Cloud API message throughput has been reached."},
	130472: {400, "User's number is part of an experiment", "The message was not sent as part of an experiment."},
	130497: {403, "Business account is restricted from messaging users in this country.", "Messaging users in this country is not allowed."},
	131000: {500, "Something went wrong", "The message failed to send because of an unknown error."},
	131005: {403, "Access denied", "Permission is not granted or was removed."},
	131008: {400, "Required parameter is missing", "The request is missing a required parameter."},
	131009: {400, "Parameter value is not valid", "One or more parameter values are invalid."},
	131016: {500, "Service unavailable", "A service is temporarily unavailable."},
	131021: {400, "Recipient cannot be sender", "Sender and recipient phone number are the same."},
	131026: {400, "Message undeliverable", "Message undeliverable."},
	131030: {400, "Recipient phone number not in allowed list", "Add the recipient to the allowed list and try again."},
	131031: {403, "Account has been locked", "The account is restricted, or its data did not match."},
	131037: {400, "Display name approval needed", "The number's display name needs approval first."},
	131042: {400, "Business eligibility payment issue", "There was an error related to the payment method."},
	131045: {500, "Incorrect certificate", "The number has a registration error."},
	131047: {400, "Re-engagement message", "More than 24 hours have passed since the recipient last replied."},
	131048: {400, "Spam rate limit hit", "There are restrictions on how many messages this number can send."},
	131049: {400, "This message was not delivered to maintain healthy ecosystem engagement.", "Do not resend before 24 hours have passed."},
	131050: {400, "User has stopped receipt of marketing messages", "The recipient stopped marketing messages from this business."},
	131051: {400, "Unsupported message type", "Message type is currently not supported."},
	131053: {400, "Media upload error", "The media could not be fetched."},
	131055: {400, "Method not allowed", "Only marketing templates may be sent here."},
	131056: {400, "(Business Account, Consumer Account) pair rate limit hit", "Too many messages to this recipient in a short time."},
	131057: {500, "Account in maintenance mode", "The business account is in maintenance mode."},
	131063: {400, "Marketing templates are disabled on Cloud API", "Use the Marketing Messages API."},
	131064: {400, "Messaging limited for template misclassification", "The limit lifts by itself."},
	132000: {400, "Number of parameters does not match the expected number of params", "Parameter count mismatch."},
	132001: {404, "Template name does not exist in the translation", "The template does not exist in this language or is not approved."},
	132005: {400, "Translated text too long", "The text is too long with these parameters."},
	132007: {400, "Template format character policy violated", "The template content violates a policy."},
	132012: {400, "Parameter format does not match format in the created template", "Parameter format mismatch."},
	132015: {400, "Template is paused", "The template is paused because of low quality."},
	132016: {400, "Template is disabled", "The template has been disabled for good because of low quality."},
	132018: {400, "There's an issue with the parameters in your template", "Template validation failed."},
	132068: {400, "Flow is blocked", "Flow is in blocked state."},
	132069: {400, "Flow is throttled", "Flow is in throttled state."},
	133004: {503, "Server temporarily unavailable", "Server is temporarily unavailable."},
	133010: {400, "Phone number not registered", "The number is not registered on the platform."},
	134011: {400, "Payments terms of service have not been accepted", "Accept the terms first."},
	134100: {400, "Only marketing messages supported", "Only marketing templates may be sent here."},
	134101: {400, "Template syncing", "The template is still being synced: wait up to 10 minutes."},
	134102: {500, "Template unavailable for use", "The template is unavailable."},
	135000: {400, "Generic user error", "The message failed because of an unknown error with the parameters."},
	137000: {400, "Recipient identity key hash mismatch", "The identity hash does not match."},
}

// fail makes the error of a code; details explain it in this case, and default
// to the usual words.
func fail(code int, details string) *graphError {
	w, ok := vocabulary[code]
	if !ok {
		w = words{http: http.StatusBadRequest, title: "Unknown error", details: "Unknown error."}
	}
	if details == "" {
		details = w.details
	}
	e := &graphError{HTTP: w.http, Type: "OAuthException", Code: code, Transient: code == 2 || code == 4}
	if code < 100 {
		e.Message = details
	} else {
		e.Message = fmt.Sprintf("(#%d) %s", code, w.title)
		e.Data = &errorData{Product: "whatsapp", Details: details}
	}
	return e
}

// plain makes a code-100 error whose message carries the whole explanation, as
// Graph's own checks do, without error_data.
func plain(format string, args ...any) *graphError {
	return &graphError{
		HTTP: http.StatusBadRequest, Type: "OAuthException", Code: 100,
		Message: "(#100) " + fmt.Sprintf(format, args...),
	}
}

// unknownObject is Graph's answer for an id it does not know or will not show.
func unknownObject(method, id string) *graphError {
	verb := "get"
	if method == http.MethodPost {
		verb = "post"
	}
	return &graphError{
		HTTP: http.StatusBadRequest, Type: "GraphMethodException", Code: 100, Subcode: 33,
		Message: fmt.Sprintf("Unsupported %s request. Object with ID '%s' does not exist, cannot be loaded due to"+
			" missing permissions, or does not support this operation. Please read the Graph API documentation"+
			" at https://developers.facebook.com/docs/graph-api", verb, id),
	}
}

func (e *graphError) write(rw http.ResponseWriter, trace string) error {
	e.Trace = trace
	if e.HTTP == http.StatusUnauthorized {
		rw.Header().Set("WWW-Authenticate", `OAuth "Facebook Platform" "invalid_token" "`+e.Message+`"`)
	}
	body, err := json.Marshal(map[string]*graphError{"error": e})
	if err != nil {
		return fmt.Errorf("encode Graph error: %w", err)
	}
	return writeBody(rw, e.HTTP, body)
}

func writeBody(rw http.ResponseWriter, status int, body []byte) error {
	rw.Header().Set("Content-Type", "application/json; charset=UTF-8")
	rw.Header().Set("Content-Length", strconv.Itoa(len(body)))
	rw.WriteHeader(status)
	_, err := rw.Write(body)
	return err
}

// graphHeaders sets the headers every Graph answer has and returns the trace id.
func graphHeaders(rw http.ResponseWriter, version string, id uint64) string {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], mix(id))
	binary.BigEndian.PutUint64(b[8:], mix(^id))
	trace := "A" + base64.RawURLEncoding.EncodeToString(b[:])
	h := rw.Header()
	h.Set("X-Fb-Trace-Id", trace)
	h.Set("X-Fb-Request-Id", base64.RawURLEncoding.EncodeToString(b[4:12]))
	h.Set("Facebook-Api-Version", version)
	h.Set("Cache-Control", "private, no-cache, no-store, must-revalidate")
	return trace
}

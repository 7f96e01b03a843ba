package sim

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// object is a node of the Graph as it is written.
type object = map[string]any

// serveRead handles a GET: faults and authorization first, then what fn finds.
func (s *Sim) serveRead(fn func(*call) (any, *graphError)) http.HandlerFunc {
	return func(rw http.ResponseWriter, r *http.Request) {
		c := &call{world: s.world.Load(), stopped: s.stopped, rw: rw, req: r}
		w, sub := c.world, subject{number: r.PathValue("id"), token: bearer(r)}
		trace := graphHeaders(rw, c.version(), hashString(uint64(w.now()), r.URL.Path))
		if rule := w.rules.pick(onGate, &sub, w.now()); rule != nil {
			_ = c.misbehave(rule, trace) // whatever the sender got of it
			return
		}
		gerr := w.authorize(&sub)
		var v any
		if gerr == nil {
			v, gerr = fn(c)
		}
		if gerr != nil {
			_ = gerr.write(rw, trace) // the sender has gone away
			return
		}
		body, err := json.Marshal(v)
		if err != nil {
			http.Error(rw, err.Error(), http.StatusInternalServerError)
			return
		}
		_ = writeBody(rw, http.StatusOK, body) // likewise
	}
}

func (c *call) unknownPath() (any, *graphError) {
	return nil, &graphError{
		HTTP: http.StatusBadRequest, Type: "OAuthException", Code: 2500,
		Message: "Unknown path components: " + c.req.URL.Path,
	}
}

// node answers for a number or a business account by its id.
func (c *call) node() (any, *graphError) {
	id := c.req.PathValue("id")
	if c.world.isWABA(id) {
		return c.pick(object{
			"id": id, "name": "Simulated Account", "currency": "USD", "timezone_id": "1",
			"message_template_namespace": fmt.Sprintf("%08x", hashString(4, id)>>32),
			"account_review_status":      "APPROVED", "health_status": health(id, "WABA", "AVAILABLE"),
		}, "WhatsAppBusinessAccount", "id", "name", "currency", "timezone_id", "message_template_namespace")
	}
	l := c.world.line(id)
	if l == nil {
		return nil, unknownObject(http.MethodGet, id)
	}
	return c.pick(l.object(c.world.opts.WebhookURL), "WhatsAppBusinessPhoneNumber", defaultNumberFields...)
}

var defaultNumberFields = []string{
	"verified_name", "code_verification_status", "display_phone_number", "quality_rating", "platform_type",
	"throughput", "webhook_configuration", "id",
}

func (l *line) object(webhook string) object {
	level := "STANDARD"
	switch {
	case l.OnBizApp:
		level = "NOT_APPLICABLE"
	case l.Throughput > defaultThroughput:
		level = "HIGH"
	}
	o := object{
		"id": l.ID, "display_phone_number": l.Display, "verified_name": l.Name,
		"quality_rating": l.Quality, "throughput": object{"level": level},
		"whatsapp_business_manager_messaging_limit": l.MessagingLimit,
		"code_verification_status":                  "VERIFIED", "platform_type": "CLOUD_API",
		"status": "CONNECTED", "name_status": "APPROVED", "account_mode": "LIVE", "certificate": "",
		"is_on_biz_app": l.OnBizApp, "is_official_business_account": false, "is_pin_enabled": true,
		"country_dial_code": countryCode(l.Display), "webhook_configuration": object{},
		"health_status": health(l.ID, "PHONE_NUMBER", "AVAILABLE"),
	}
	if webhook != "" {
		o["webhook_configuration"] = object{"application": webhook}
	}
	if l.Test {
		o["account_mode"] = "SANDBOX"
	}
	return o
}

func health(id, kind, state string) object {
	return object{
		"can_send_message": state,
		"entities":         []object{{"entity_type": kind, "id": id, "can_send_message": state}},
	}
}

// pick keeps the fields that were asked for, or the usual ones. As on Graph,
// the id always comes, and an unknown field is an error.
func (c *call) pick(o object, node string, usual ...string) (object, *graphError) {
	want := splitFields(c.req.URL.Query().Get("fields"))
	if len(want) == 0 {
		want = usual
	}
	out := object{"id": o["id"]}
	for _, f := range want {
		name, _, _ := strings.Cut(f, "{")
		v, ok := o[name]
		if !ok {
			return nil, plain("Tried accessing nonexisting field (%s) on node type (%s)", name, node)
		}
		out[name] = v
	}
	return out, nil
}

// splitFields splits at commas outside braces: throughput{level},status.
func splitFields(s string) []string {
	depth := 0
	return strings.FieldsFunc(s, func(r rune) bool {
		switch r {
		case '{':
			depth++
		case '}':
			depth--
		}
		return r == ',' && depth == 0 || r == ' '
	})
}

// isWABA tells whether a listed number belongs to the account.
func (w *world) isWABA(id string) bool {
	return slices.ContainsFunc(w.lines(), func(l *line) bool { return l.WABA == id })
}

// account checks the id of an account; made-up numbers belong to all of them.
func (c *call) account() *graphError {
	id := c.req.PathValue("id")
	if !c.world.isWABA(id) && !(c.world.opts.AutoNumbers && isID(id)) {
		return unknownObject(http.MethodGet, id)
	}
	return nil
}

func (c *call) phoneNumbers() (any, *graphError) {
	if err := c.account(); err != nil {
		return nil, err
	}
	var list []object
	for _, l := range c.world.lines() {
		if l.WABA != c.req.PathValue("id") && l.WABA != autoWABA {
			continue
		}
		o, err := c.pick(l.object(c.world.opts.WebhookURL), "WhatsAppBusinessPhoneNumber", defaultNumberFields...)
		if err != nil {
			return nil, err
		}
		list = append(list, o)
	}
	return c.page(list), nil
}

// templates lists an account's templates. Where unknown templates are welcome,
// a name that is not listed cannot be described: the answer is the one of an
// API that lacks this read, and a caller should go on without it.
func (c *call) templates() (any, *graphError) {
	if err := c.account(); err != nil {
		return nil, err
	}
	q := c.req.URL.Query()
	var list []object
	for _, p := range c.world.plates() {
		if !filter(q.Get("name"), p.Name) || !filter(q.Get("language"), p.Language) ||
			!filter(q.Get("status"), p.Status) || !filter(q.Get("category"), p.Category) {
			continue
		}
		o := p.object()
		if r := c.world.rules.find(onTemplate, &subject{template: p.Name}, c.world.now()); r != nil {
			o["status"] = strings.ToUpper(r.Status)
		}
		o, err := c.pick(o, "WhatsAppMessageTemplate",
			"name", "language", "status", "category", "parameter_format", "components", "id")
		if err != nil {
			return nil, err
		}
		list = append(list, o)
	}
	if len(list) == 0 && c.world.opts.AutoTemplates {
		return nil, plain("Tried accessing nonexisting field (message_templates) on node type (WhatsAppBusinessAccount)")
	}
	return c.page(list), nil
}

func filter(want, have string) bool { return want == "" || strings.EqualFold(want, have) }

func (p *plate) object() object {
	return object{
		"id": p.ID, "name": p.Name, "language": p.Language, "status": p.Status, "category": p.Category,
		"parameter_format": p.ParameterFormat, "components": p.Components,
		"quality_score": object{"score": "GREEN"}, "rejected_reason": "NONE",
		"health_status": health(p.ID, "MESSAGE_TEMPLATE", "AVAILABLE"),
	}
}

// page cuts a list at limit (25) after a cursor, which here is an offset.
func (c *call) page(list []object) object {
	q := c.req.URL.Query()
	limit, err := strconv.Atoi(q.Get("limit"))
	if err != nil || limit <= 0 {
		limit = 25
	}
	from, err := strconv.Atoi(q.Get("after"))
	from = min(max(from, 0), len(list))
	if err != nil {
		from = 0
	}
	to := min(from+limit, len(list))
	paging := object{"cursors": object{"before": strconv.Itoa(from), "after": strconv.Itoa(to)}}
	if to < len(list) {
		q.Set("after", strconv.Itoa(to))
		u := *c.req.URL
		u.Scheme, u.Host, u.RawQuery = "http", c.req.Host, q.Encode()
		if c.req.TLS != nil {
			u.Scheme = "https"
		}
		paging["next"] = u.String()
	}
	return object{"data": slices.Clip(append([]object{}, list[from:to]...)), "paging": paging}
}

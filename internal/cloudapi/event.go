package cloudapi

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/weirhq/weir/engine"
)

const (
	maxKind       = 64
	maxUnreadable = 64 << 10 // bytes kept of a body that cannot be read
)

// kept is a change that becomes an event, or several.
type kept struct {
	field, account, number string
	kinds                  []string  // of a "messages" change; empty: statuses only
	at, now                time.Time // when it was said, and when it came
	said                   stamp     // when, as the platform wrote it
}

// key tells a change that the platform repeats, after an answer that it did not
// get or like, from another that says the same: that one has its own time. A
// change without a time has no key, and is always kept.
func (k *kept) key(kind string, body []byte) string {
	if k.said == 0 {
		return ""
	}
	return hashed(strconv.FormatInt(int64(k.said), 10), kind, k.account, k.number, string(body))
}

// hashed is a key of a few words, none of which can be read from it.
func hashed(words ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(words, "\x00")))
	return hex.EncodeToString(sum[:16])
}

// choose names what a "messages" change holds beside usable statuses and inbound
// messages that have become events (inbound: all have): other messages, errors of the whole number,
// statuses we do not know, or nothing we know at all.
func (k *kept) choose(v hookValue, odd, inbound bool) {
	if v.Messages != nil && !inbound {
		k.kinds = append(k.kinds, "messages")
	}
	if v.Errors {
		k.kinds = append(k.kinds, "errors")
	}
	if odd {
		k.kinds = append(k.kinds, "status")
	}
	if k.kinds == nil && len(v.Statuses) == 0 && !inbound {
		k.kinds = []string{"messages"}
	}
}

// keep adds the events. Only a "messages" change has several kinds; each event
// then carries the whole change, since its readers need the metadata too.
func (out *delivery) keep(k kept, value json.RawMessage) {
	if k.field != "messages" {
		k.kinds = []string{cmp.Or(cut(clean(k.field), maxKind), labelOther)}
	}
	for _, kind := range k.kinds {
		body := storable(value)
		out.events = append(out.events, engine.Event{Key: k.key(kind, body), Kind: kind, Account: k.account, Number: k.number, Body: body})
	}
	if k.field != "messages" {
		out.events[len(out.events)-1].News = news(k, value)
	}
}

func (d *decoder) count(out delivery) {
	for _, e := range out.events {
		count(d.metrics.events, e.Kind)
	}
}

// rawBody is the same body with its changes untouched. Most bodies hold
// statuses alone and never need it, so it is read on demand.
type rawBody struct {
	read  bool
	Entry []struct {
		Changes []struct {
			Value json.RawMessage `json:"value"`
		} `json:"changes"`
	} `json:"entry"`
}

// value is change j of entry i. Both readings walk the same arrays, so the
// indexes agree; a body for which they do not gives null.
func (r *rawBody) value(body []byte, i, j int) json.RawMessage {
	if !r.read {
		r.read = true
		_ = json.Unmarshal(body, r) // the first reading has judged it already
	}
	if i >= len(r.Entry) || j >= len(r.Entry[i].Changes) || r.Entry[i].Changes[j].Value == nil {
		return json.RawMessage("null")
	}
	return r.Entry[i].Changes[j].Value
}

// storable makes JSON fit for Postgres, whose jsonb refuses the NUL character,
// half surrogates and invalid UTF-8: one such body would be refused at every
// delivery, and would take its whole batch with it.
func storable(raw json.RawMessage) []byte {
	if utf8.Valid(raw) && !bytes.Contains(raw, []byte(`\u0000`)) && !bytes.Contains(bytes.ToLower(raw), []byte(`\ud`)) {
		return raw
	}
	var v any
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if d.Decode(&v) != nil {
		return unreadable(raw)
	}
	out, err := json.Marshal(withoutNUL(v))
	if err != nil {
		return unreadable(raw)
	}
	return out
}

func withoutNUL(v any) any {
	switch v := v.(type) {
	case string:
		return strings.ReplaceAll(v, "\x00", "\ufffd")
	case []any:
		for i := range v {
			v[i] = withoutNUL(v[i])
		}
		return v
	case map[string]any:
		clean := make(map[string]any, len(v))
		for k, x := range v {
			clean[strings.ReplaceAll(k, "\x00", "\ufffd")] = withoutNUL(x)
		}
		return clean
	default:
		return v
	}
}

// unreadable keeps the start of a body as a JSON string.
func unreadable(body []byte) []byte {
	text := strings.ToValidUTF8(string(body[:min(len(body), maxUnreadable)]), "\ufffd")
	return appendJSON(nil, strings.ReplaceAll(text, "\x00", "\ufffd"))
}

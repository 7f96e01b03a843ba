package notify

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Lengths of a secret in bytes, by Standard Webhooks 1.0.0.
const (
	minSecret = 24
	maxSecret = 64
)

// maxFacts keeps a webhook under the 20 kB that Standard Webhooks recommend.
const maxFacts = 12 << 10

// NewWebhook is an endpoint that gets every notice as a Standard Webhook
// (standardwebhooks.com, version 1.0.0), signed with each of secrets: one, or
// two while it is being changed. A secret is whsec_ and 24 to 64 bytes in
// base64. The error says what is wrong without the address or the secret.
func NewWebhook(address string, secrets []string, opts Options) (*Endpoint, error) {
	keys := make([][]byte, len(secrets))
	for i, secret := range secrets {
		var err error
		if keys[i], err = secretKey(secret); err != nil {
			return nil, err
		}
	}
	if len(keys) == 0 {
		return nil, errNoSecret
	}
	e, err := newEndpoint("webhook", address, "", opts)
	if err != nil {
		return nil, err
	}
	e.format = func(n Notice, now time.Time) (payload, bool) {
		body := webhookBody(n)
		return payload{body: body, header: map[string]string{
			"Webhook-Id":        n.ID,
			"Webhook-Timestamp": fmt.Sprint(now.Unix()),
			"Webhook-Signature": signature(keys, n.ID, now, body),
		}}, true
	}
	return e, nil
}

var errNoSecret = errors.New("a webhook needs a secret to sign with: whsec_ and 24 to 64 random bytes in base64, as from `echo whsec_$(openssl rand -base64 32)`")

func secretKey(secret string) ([]byte, error) {
	text, ok := strings.CutPrefix(strings.TrimSpace(secret), "whsec_")
	if !ok {
		return nil, errNoSecret
	}
	key, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(text, "="))
	if err != nil || len(key) < minSecret || len(key) > maxSecret {
		return nil, errNoSecret
	}
	return key, nil
}

// signature signs what is sent: id, time and body. Any of several keys proves
// it, so that a receiver can change its own at leisure.
func signature(keys [][]byte, id string, at time.Time, body []byte) string {
	signatures := make([]string, len(keys))
	for i, key := range keys {
		mac := hmac.New(sha256.New, key)
		_, _ = fmt.Fprintf(mac, "%s.%d.", id, at.Unix()) // a hash takes everything
		_, _ = mac.Write(body)
		signatures[i] = "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	}
	return strings.Join(signatures, " ")
}

// webhookBody is the same in every attempt: a receiver may compare.
func webhookBody(n Notice) []byte {
	type data struct {
		Origin  string          `json:"origin"`
		Seq     int64           `json:"seq"`
		Subject string          `json:"subject"`
		Title   string          `json:"title"`
		Text    string          `json:"text"`
		Advice  string          `json:"advice,omitempty"`
		Facts   json.RawMessage `json:"facts,omitempty"`
	}
	w := wordsOf(n)
	return encode(struct {
		Type      string    `json:"type"`
		Timestamp time.Time `json:"timestamp"`
		Data      data      `json:"data"`
	}{n.Kind, n.At.UTC(), data{n.Origin, n.Seq, n.Subject, w.title, w.text, w.advice, factsOf(n)}})
}

// factsOf is a notice's own JSON, unless it is none or more than anybody wants.
func factsOf(n Notice) json.RawMessage {
	if len(n.Facts) > maxFacts || !json.Valid(n.Facts) {
		return nil
	}
	return n.Facts
}

package cloudapi

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"net/http"
	"strings"
	"sync"
)

const signaturePrefix = "sha256="

// verifier checks X-Hub-Signature-256 under one or two app secrets.
type verifier struct{ keyed []*sync.Pool }

func newVerifier(secrets []string) *verifier {
	v := &verifier{}
	for _, s := range secrets {
		key := []byte(s)
		v.keyed = append(v.keyed, &sync.Pool{New: func() any { return hmac.New(sha256.New, key) }})
	}
	return v
}

// signature reads the header. Exactly one is taken, so that no proxy's addition
// can be chosen over Meta's.
func signature(header http.Header) (sum []byte, ok bool) {
	given := header.Values("X-Hub-Signature-256")
	if len(given) != 1 || !strings.HasPrefix(given[0], signaturePrefix) {
		return nil, false
	}
	sum, err := hex.DecodeString(given[0][len(signaturePrefix):])
	return sum, err == nil && len(sum) == sha256.Size
}

// verify is over the raw bytes as received: Meta signs what it sends, escapes
// included, and a parsed and rewritten body has another signature.
func (v *verifier) verify(sum, body []byte) bool {
	ok := false
	for _, pool := range v.keyed { // all of them, so that the time tells nothing of which
		h := pool.Get().(hash.Hash)
		h.Reset()
		h.Write(body)
		var want [sha256.Size]byte
		ok = hmac.Equal(h.Sum(want[:0]), sum) || ok
		pool.Put(h)
	}
	return ok
}

package cloudapi

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"hash"
	"strconv"
	"strings"
	"sync"
)

const (
	callbackPrefix = "w1."
	macBytes       = 8  // 64 bits: a forger would need the app secret as well
	maxCallback    = 64 // the longest we write is 39; Meta takes 512
	minKey         = 16
)

// macEncoding is strict: one mac has one spelling.
var macEncoding = base64.RawURLEncoding.Strict()

var errShortKey = errors.New("callback key is shorter than 16 bytes: pass the random key that is stored with the database")

// CallbackID names one claim of one recipient. It travels with each message in
// Meta's biz_opaque_callback_data and comes back on its status webhooks, so
// that a status finds its row even when it is faster than the answer.
type CallbackID struct {
	Recipient int64 // row id, at least 1
	Claim     int32 // the row's fence, not negative
}

// Encode writes w1.<recipient base36>.<claim>.<mac>, at most 39 characters of
// letters, digits, dots, dashes and underscores. The mac under key keeps apart
// the ids of other programs on the same account, and of other databases.
func (id CallbackID) Encode(key []byte) string {
	return string(newSigner(key).append(nil, id))
}

// ParseCallbackID is the reverse of Encode. It reports false for whatever was
// not written by Encode under the same key; the mac is compared in constant time.
func ParseCallbackID(key []byte, s string) (CallbackID, bool) {
	return newSigner(key).parse(s)
}

// signer keeps keyed hashes, since keying one costs as much as the mac itself.
type signer struct{ pool sync.Pool }

func newSigner(key []byte) *signer {
	own := append([]byte(nil), key...)
	return &signer{pool: sync.Pool{New: func() any { return hmac.New(sha256.New, own) }}}
}

func (s *signer) append(dst []byte, id CallbackID) []byte {
	start := len(dst)
	dst = append(dst, callbackPrefix...)
	dst = strconv.AppendInt(dst, id.Recipient, 36)
	dst = append(dst, '.')
	dst = strconv.AppendInt(dst, int64(id.Claim), 10)
	mac := s.mac(dst[start:])
	dst = append(dst, '.')
	return macEncoding.AppendEncode(dst, mac[:])
}

// parse needs no check for leading zeros, signs or upper case: the mac covers
// the text, and append is the only one to have made macs.
func (s *signer) parse(text string) (CallbackID, bool) {
	if len(text) > maxCallback || !strings.HasPrefix(text, callbackPrefix) {
		return CallbackID{}, false
	}
	dot := strings.LastIndexByte(text, '.')
	want := s.mac([]byte(text[:dot]))
	var got [macBytes]byte
	if macEncoding.DecodedLen(len(text)-dot-1) != macBytes {
		return CallbackID{}, false
	}
	n, err := macEncoding.Decode(got[:], []byte(text[dot+1:]))
	if err != nil || !hmac.Equal(got[:n], want[:]) {
		return CallbackID{}, false
	}
	id, claim, _ := strings.Cut(text[len(callbackPrefix):dot], ".")
	recipient, err1 := strconv.ParseInt(id, 36, 64)
	fence, err2 := strconv.ParseInt(claim, 10, 32)
	if err1 != nil || err2 != nil || recipient < 1 || fence < 0 {
		return CallbackID{}, false
	}
	return CallbackID{Recipient: recipient, Claim: int32(fence)}, true
}

func (s *signer) mac(payload []byte) (short [macBytes]byte) {
	h := s.pool.Get().(hash.Hash)
	h.Reset()
	h.Write(payload)
	var sum [sha256.Size]byte
	copy(short[:], h.Sum(sum[:0]))
	s.pool.Put(h)
	return short
}

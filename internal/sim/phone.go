package sim

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
)

// HashPhone is how the ledger names a recipient: the first 16 hex digits of
// the SHA-256 of the number in E.164 with +. It keeps numbers out of sight in
// files and terminals; it is not a secret.
func HashPhone(e164 string) string { return shortHash(e164) }

// HashToken is how the ledger names a caller: likewise, of the access token.
func HashToken(token string) string { return shortHash(token) }

func shortHash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:8])
}

// normalize turns `to` into digits as Meta does: spaces, dashes, brackets are
// dropped, and without a + the sender's own country code is prepended ("Send
// messages"). prefixed tells that this happened, which is a surprise to most
// callers. ok is false for anything that is no phone number.
func normalize(to, senderDisplay string) (phone uint64, prefixed, ok bool) {
	digits := strings.Map(func(r rune) rune {
		if strings.ContainsRune(" -().\u00a0", r) {
			return -1
		}
		return r
	}, to)
	digits, plus := strings.CutPrefix(digits, "+")
	if !plus {
		digits = countryCode(senderDisplay) + digits
	}
	if len(digits) < 7 || len(digits) > 15 || digits[0] == '0' {
		return 0, false, false
	}
	for i := range len(digits) {
		if digits[i] < '0' || digits[i] > '9' {
			return 0, false, false
		}
	}
	phone, err := strconv.ParseUint(digits, 10, 64)
	return phone, !plus, err == nil
}

// twoDigitCodes are the calling codes of two digits (ITU E.164 list); 1 and 7
// have one digit and everything else three.
const twoDigitCodes = " 20 27 30 31 32 33 34 36 39 40 41 43 44 45 46 47 48 49 51 52 53 54 55 56 57 58 " +
	"60 61 62 63 64 65 66 81 82 84 86 90 91 92 93 94 95 98 "

func countryCode(e164 string) string {
	d := strings.TrimPrefix(e164, "+")
	switch {
	case len(d) < 3:
		return d
	case d[0] == '1' || d[0] == '7':
		return d[:1]
	case strings.Contains(twoDigitCodes, " "+d[:2]+" "):
		return d[:2]
	default:
		return d[:3]
	}
}

// waID is the id WhatsApp knows a phone by. Brazilian mobiles outside the
// states that had nine digits first lose the extra 9, Mexican ones gain a 1:
// so wa_id and recipient_id can differ from `to` ("Send messages").
func waID(phone uint64) string {
	d := strconv.FormatUint(phone, 10)
	switch {
	case len(d) == 13 && strings.HasPrefix(d, "55") && d[2] >= '3' && d[4] == '9':
		return d[:4] + d[5:]
	case len(d) == 12 && strings.HasPrefix(d, "52"):
		return "521" + d[2:]
	default:
		return d
	}
}

// wamid makes a message id of Meta's form: base64 of bytes that contain the
// recipient's wa_id and an id of 18 hex digits.
func wamid(phone, fate, seq uint64) string {
	to := waID(phone)
	b := make([]byte, 0, 48)
	b = append(b, 0x1c, 0x18, byte(len(to)))
	b = append(b, to...)
	b = append(b, 0x15, 0x02, 0x00, 0x11, 0x18, 0x12)
	b = fmt.Appendf(b, "%016X%02X", mix(fate^mix(seq)), byte(seq))
	b = append(b, 0x00)
	return "wamid." + base64.StdEncoding.EncodeToString(b)
}

// displayFor makes up a number for a sender that was not described.
func displayFor(id string) string {
	return fmt.Sprintf("1555%07d", hashString(1, id)%10_000_000)
}

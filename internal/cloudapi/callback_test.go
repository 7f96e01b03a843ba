package cloudapi

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestCallbackIDComesBack(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		id := CallbackID{
			Recipient: rapid.Int64Min(1).Draw(t, "recipient"),
			Claim:     rapid.Int32Min(0).Draw(t, "claim"),
		}
		text := id.Encode(testKey)
		if len(text) > 39 {
			t.Fatalf("%q is longer than promised", text)
		}
		if got, ok := ParseCallbackID(testKey, text); !ok || got != id {
			t.Fatalf("%q: got %v %v, want %v", text, got, ok, id)
		}
		if _, ok := ParseCallbackID([]byte("another key of another database"), text); ok {
			t.Fatal("taken under another key")
		}
		i := rapid.IntRange(0, len(text)-1).Draw(t, "at")
		c := rapid.Byte().Draw(t, "byte")
		if changed := text[:i] + string([]byte{c}) + text[i+1:]; changed != text {
			if got, ok := ParseCallbackID(testKey, changed); ok {
				t.Fatalf("%q was changed to %q and taken as %v", text, changed, got)
			}
		}
	})
}

func TestCallbackIDOfOthersIsRefused(t *testing.T) {
	t.Parallel()
	sign := func(payload string) string { // right mac, wrong content: only a bug of ours makes it
		mac := newSigner(testKey).mac([]byte(payload))
		return payload + "." + macEncoding.EncodeToString(mac[:])
	}
	good := CallbackID{Recipient: 42, Claim: 3}.Encode(testKey)
	for name, text := range map[string]string{
		"empty":          "",
		"an UUID":        "3f2b8c1e-6f0a-4c6e-9d1b-7a1f0f9f8e7d",
		"no mac":         "w1.16.3",
		"prefix only":    "w1.",
		"short mac":      good[:len(good)-1],
		"long mac":       good + "A",
		"zero recipient": sign("w1.0.3"),
		"negative":       sign("w1.-5.3"),
		"claim too big":  sign("w1.16.99999999999"),
		"three parts":    sign("w1.16.3.4"),
		"too long":       strings.Repeat("w1.", 40),
	} {
		if id, ok := ParseCallbackID(testKey, text); ok {
			t.Errorf("%s: %q taken as %v", name, text, id)
		}
	}
}

func FuzzCallbackID(f *testing.F) {
	f.Add(CallbackID{Recipient: 1}.Encode(testKey))
	f.Add(CallbackID{Recipient: 1<<63 - 1, Claim: 1<<31 - 1}.Encode(testKey))
	f.Add("w1.16.3.AAAAAAAAAAA")
	f.Add("w1...")
	f.Fuzz(func(t *testing.T, text string) {
		id, ok := ParseCallbackID(testKey, text)
		if !ok {
			return
		}
		if want := id.Encode(testKey); want != text {
			t.Errorf("%q taken as %v, which is written %q", text, id, want)
		}
	})
}

func BenchmarkCallbackID(b *testing.B) {
	s := newSigner(testKey)
	buf := make([]byte, 0, 64)
	b.ReportAllocs()
	for b.Loop() {
		buf = s.append(buf[:0], CallbackID{Recipient: 123456789, Claim: 2})
		if _, ok := s.parse(string(buf)); !ok {
			b.Fatal("lost")
		}
	}
}

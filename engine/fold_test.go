package engine

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func at(second int) time.Time { return time.Unix(int64(second), 0).UTC() }

func TestFoldKeepsTheGreatestAndAllFirstTimes(t *testing.T) {
	t.Parallel()
	one := StatusUpdate{Recipient: 1, Claim: 1, MessageID: "a", Number: "n", Phone: "p"}
	word := func(s Status, second, code int, title string) StatusUpdate {
		u := one
		u.Status, u.At, u.Code, u.Title = s, at(second), code, title
		return u
	}
	got := Fold([]StatusUpdate{
		word(Read, 9, 0, ""), word(Failed, 8, 131049, "late"), word(Sent, 5, 0, ""), word(Failed, 7, 131026, "first"),
		word(Delivered, 6, 0, ""), word(Sent, 4, 0, ""), word(Read, 10, 0, ""),
		{Recipient: 1, Claim: 2, MessageID: "b", Status: Sent, At: at(1)},
		{Recipient: 0, MessageID: "c", Status: Sent, At: at(1)},
	})
	want := word(Read, 9, 131026, "first")
	want.SentAt, want.DeliveredAt, want.ReadAt, want.FailedAt = at(4), at(6), at(9), at(7)
	if diff := cmp.Diff([]StatusUpdate{
		{Recipient: 0, MessageID: "c", Status: Sent, At: at(1), SentAt: at(1)},
		want,
		{Recipient: 1, Claim: 2, MessageID: "b", Status: Sent, At: at(1), SentAt: at(1)},
	}, got); diff != "" {
		t.Error(diff)
	}
}

// Order, repetition and batching of what the platform says cannot matter.
func TestFoldIsConfluent(t *testing.T) {
	t.Parallel()
	word := rapid.Custom(func(t *rapid.T) StatusUpdate {
		u := StatusUpdate{
			Recipient: rapid.Int64Range(0, 2).Draw(t, "recipient"),
			Claim:     rapid.Int32Range(1, 2).Draw(t, "claim"),
			MessageID: fmt.Sprint(rapid.IntRange(0, 1).Draw(t, "message")),
			Status:    rapid.SampledFrom([]Status{Held, Sent, Failed, Delivered, Read}).Draw(t, "status"),
			Number:    rapid.SampledFrom([]string{"", "n1", "n2"}).Draw(t, "number"),
			Phone:     rapid.SampledFrom([]string{"", "p1"}).Draw(t, "phone"),
		}
		if s := rapid.IntRange(0, 4).Draw(t, "at"); s > 0 {
			u.At = at(s)
		}
		if u.Status == Failed {
			u.Code = rapid.IntRange(0, 2).Draw(t, "code")
			u.Title = rapid.SampledFrom([]string{"", "x", "y"}).Draw(t, "title")
		}
		return u
	})
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.SliceOfN(word, 1, 12).Draw(t, "words")
		want := Fold(words)

		repeated := append(words, rapid.SliceOf(rapid.SampledFrom(words)).Draw(t, "repeated")...)
		shuffled := rapid.Permutation(repeated).Draw(t, "order")
		cut := rapid.IntRange(0, len(shuffled)).Draw(t, "cut")
		batched := Fold(append(Fold(shuffled[:cut]), Fold(shuffled[cut:])...))
		if diff := cmp.Diff(want, batched); diff != "" {
			t.Fatal(diff)
		}
	})
}

func BenchmarkFold(b *testing.B) {
	var words []StatusUpdate
	for i := range 500 {
		words = append(words, StatusUpdate{Recipient: int64(i / 3), Claim: 1, MessageID: fmt.Sprint(i / 3), Status: Sent + Status(i%3), At: at(i)})
	}
	b.ReportAllocs()
	for b.Loop() {
		Fold(words)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/500, "ns/word")
}

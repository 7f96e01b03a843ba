package sim

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
)

// Callback data keeps its bytes across the arena's blocks, and a view taken
// early stays as it was.
func TestLedgerKeepsCallbackData(t *testing.T) {
	t.Parallel()
	l := newLedger()
	const n = 3 * chunkLen
	text := func(i int) string { return fmt.Sprint(i, strings.Repeat("x", i%300)) }
	var early view
	for i := range n {
		r := record{received: int64(i + 1), number: l.name("n")}
		r.text, r.textLen = l.keep(text(i))
		l.add(r)
		if i == chunkLen+5 {
			early = l.view(chunkLen-5, 100)
		}
	}
	if len(l.arena) < 2 {
		t.Fatalf("%d arena blocks: the test does not cross one", len(l.arena))
	}
	if len(early.records) != 11 || early.entry(0).Seq != chunkLen-4 {
		t.Errorf("early view has %d records", len(early.records))
	}
	v := l.view(0, n)
	for i := range n {
		if got := v.entry(i); got.Callback != text(i) || got.Received != int64(i+1) {
			t.Fatalf("line %d is %+v", i, got)
		}
	}
}

// Every webhook request is told of, refused ones too, with the ledger line of
// the message; and the ledger tells callers apart by their tokens.
func TestTriesAndCallers(t *testing.T) {
	var mu sync.Mutex
	var tries []Try
	o := Options{Sent: Spread{Base: time.Second}, SentOnlyShare: 1, DuplicateShare: 1, Tried: func(x Try) {
		mu.Lock()
		defer mu.Unlock()
		tries = append(tries, x)
	}}
	bubble(t, o, func(t *testing.T, s *Sim, rx *receiver) {
		rx.answer = func(n int, _ delivery) int {
			if n == 1 {
				return 503
			}
			return 200
		}
		post(s.Handler(), path, hello(person(1), "one"))
		time.Sleep(time.Minute)
		other := httptestRequest("POST", path, hello(person(2), "two"))
		other.Header.Set("Authorization", "Bearer other")
		serve(s, other)
		lines := s.Ledger()
		if lines[0].Caller != HashToken("token") || lines[1].Caller != HashToken("other") {
			t.Errorf("callers are %q and %q", lines[0].Caller, lines[1].Caller)
		}
		mu.Lock()
		defer mu.Unlock()
		if len(tries) != 3 {
			t.Fatalf("%d tries were told of, want a refused one, its retry and the duplicate: %+v", len(tries), tries)
		}
		for i, x := range tries {
			want := Told{Seq: 1, Status: "sent", Again: i == 2}
			if len(x.Told) != 1 || x.Told[0] != want || (x.HTTP == 200) != (i > 0) ||
				x.Began < lines[0].Received+int64(time.Second) || x.Ended < x.Began {
				t.Errorf("try %d is %+v", i, x)
			}
		}
	})
}

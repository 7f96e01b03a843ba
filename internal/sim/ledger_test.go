package sim

import (
	"fmt"
	"strings"
	"testing"
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

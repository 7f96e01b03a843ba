package store

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

// A filter that said "new" of a phone it has seen would put it into a COPY,
// and the import would end with an error.
func TestSeenNeverForgets(t *testing.T) {
	t.Parallel()
	s := newSeen()
	known := map[string]bool{}
	rapid.Check(t, func(t *rapid.T) {
		phone := rapid.StringMatching(`\+[1-9][0-9]{6,14}`).Draw(t, "phone")
		if maybe := s.add(phone); known[phone] && !maybe {
			t.Fatal("a phone that was added is called new")
		}
		known[phone] = true
	})
	if got := s.add("+5511987654321x"); got {
		t.Fatal("almost empty, and it doubts a new phone: every row would take the slow way")
	}
}

func TestSeenDoubtsFew(t *testing.T) {
	t.Parallel()
	s, maybes := newSeen(), 0
	const phones = 1_000_000
	for i := range phones {
		if s.add(fmt.Sprintf("+55119%08d", i)) {
			maybes++
		}
	}
	if maybes > phones/10_000 {
		t.Fatalf("%d of %d new phones were doubted, want under 0.01 %%", maybes, phones)
	}
}

package chaos

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// example is a healthy history in which everything happens.
func example() *History { return healthy(150, rand.New(rand.NewPCG(1, 2)).IntN) }

func TestHealthyHistoryPasses(t *testing.T) {
	t.Parallel()
	h := example()
	for name, found := range Check(h).Broken {
		t.Errorf("%s: %v", name, found)
	}
	doubted, refused := len(h.Doubts), 0
	for _, r := range h.Requests {
		if r.Refused {
			refused++
		}
	}
	if doubted == 0 || refused == 0 || len(h.Tries) <= len(h.Requests) {
		t.Errorf("the example is too tame: %d doubts, %d refusals, %d tries for %d requests", doubted, refused, len(h.Tries), len(h.Requests))
	}
}

// TestEveryViolationIsFlagged breaks the example in one way after another.
func TestEveryViolationIsFlagged(t *testing.T) {
	t.Parallel()
	covered := map[string]bool{}
	for _, m := range mutations() {
		t.Run(m.property+"/"+m.name, func(t *testing.T) {
			h := example()
			if !m.apply(h, rand.New(rand.NewPCG(3, 4)).IntN) {
				t.Fatal("does not apply to the example")
			}
			if v := Check(h); v.Broken[m.property] == nil {
				t.Errorf("not flagged; broken are %v", v.Broken)
			}
		})
		covered[m.property] = true
	}
	for _, p := range Properties() {
		if !covered[p.Name] {
			t.Errorf("nothing shows that %q can be found broken", p.Name)
		}
	}
}

func TestRandomHealthyHistoriesPass(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		h := drawn(t)
		if v := Check(h); !v.OK() {
			t.Fatal(v.Broken)
		}
	})
}

func TestRandomMutationIsFlagged(t *testing.T) {
	t.Parallel()
	all := mutations()
	rapid.Check(t, func(t *rapid.T) {
		h := drawn(t)
		m := rapid.SampledFrom(all).Draw(t, "mutation")
		if !m.apply(h, picker(t)) {
			t.Skip("does not apply")
		}
		if v := Check(h); v.Broken[m.property] == nil {
			t.Fatalf("%s (%s) is not flagged; broken are %v", m.name, m.property, v.Broken)
		}
	})
}

func drawn(t *rapid.T) *History {
	return healthy(rapid.IntRange(1, 60).Draw(t, "people"), picker(t))
}

// picker draws one seed and spends it: a draw for each decision would make
// rapid's histories thousands of draws long.
func picker(t *rapid.T) func(int) int {
	return rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0)).IntN
}

func TestHistorySurvivesItsFile(t *testing.T) {
	t.Parallel()
	h := example()
	h.Run.Began = time.Unix(1_700_000_000, 0).UTC()
	h.Leaks = []Leak{{"a.1.log", 7, "token"}}
	var file bytes.Buffer
	if err := h.Write(&file); err != nil {
		t.Fatal(err)
	}
	lines := bytes.Count(file.Bytes(), []byte("\n"))
	again, err := Read(&file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(h, again); diff != "" {
		t.Errorf("read is not what was written:\n%s", diff)
	}
	if want := 1 + len(h.Requests) + len(h.Tries) + len(h.Rows) + len(h.Campaigns) + len(h.Claims) + len(h.Doubts) +
		len(h.Leases) + len(h.Moves) + len(h.Calls) + len(h.Marks) + len(h.Leaks); lines != want {
		t.Errorf("%d lines for %d facts", lines, want)
	}
	if _, err := Read(bytes.NewReader([]byte("{\"run\":{}}\n{"))); err == nil {
		t.Error("half a file was read without an error")
	}
}

func TestFigures(t *testing.T) {
	t.Parallel()
	h := example()
	f := Check(h).Figures
	if min, most := 11*time.Second, 13*time.Second; f.Takeover < min || f.Takeover > most {
		t.Errorf("takeover after %v, want TTL + quarantine and a poll", f.Takeover)
	}
	if f.Handover < 100*ms || f.Handover > 800*ms || f.Silence < f.Handover {
		t.Errorf("handover after %v, silence of %v", f.Handover, f.Silence)
	}
	if f.Requests != len(h.Requests) || f.Unknown != len(h.Doubts) || f.Doubled != 0 || f.Confirm != 210*ms || f.Way != 0 {
		t.Errorf("figures %+v", f)
	}
}

func TestCallbackIDs(t *testing.T) {
	t.Parallel()
	if id, claim, ok := parseCallback("w1.2s.7.AAAAAAAAAAA"); id != 100 || claim != 7 || !ok {
		t.Errorf("read %d, %d, %v", id, claim, ok)
	}
	for _, s := range []string{"", "w1.2s.7", "w2.2s.7.A", "w1.-1.7.A", "w1.2s.x.A", "w1.2s.99999999999.A"} {
		if _, _, ok := parseCallback(s); ok {
			t.Errorf("%q was taken for one of ours", s)
		}
	}
}

// A fault that lost commits excuses what was lost with them, and nothing else.
func TestLostCommitsExcuseOnlyWhatWasLost(t *testing.T) {
	t.Parallel()
	h := example()
	i := slices.IndexFunc(h.Requests, func(r Request) bool { return r.Message != "" && r.At > 20*time.Second })
	first := h.Requests[i]
	if !sendAgain(h, i, 20*time.Second) {
		t.Fatal("no second call")
	}
	if v := Check(h); v.Broken["undoubled"] == nil {
		t.Error("a doubled message was not flagged")
	}
	h.Marks = append(h.Marks, Mark{Kind: MarkLost, From: first.At - time.Second, Over: first.At})
	if v := Check(h); v.Broken["undoubled"] != nil {
		t.Errorf("what was lost was not excused: %v", v.Broken)
	}
	h.Marks[len(h.Marks)-1] = Mark{Kind: MarkLost, From: first.At - 15*time.Second, Over: first.At - 10*time.Second}
	if v := Check(h); v.Broken["undoubled"] == nil {
		t.Error("what came long after the loss was excused")
	}
}

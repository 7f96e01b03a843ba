package engine

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestEchoes(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		a    Answer
		want echo
	}{
		"taken":                      {Answer{Action: Accept, MessageID: "m"}, heard},
		"refused":                    {Answer{Action: Fail, Code: 131026}, heard},
		"throttled":                  {Answer{Action: Pause, Scope: ScopeNumber, Throttled: true, Code: 130429}, heard},
		"the pair is too fast":       {Answer{Action: Reschedule, Scope: ScopePair, Code: 131056}, heard},
		"the platform says 503":      {Answer{Action: Reschedule, Scope: ScopeApp, Code: 131016}, heard},
		"the platform says 500":      {Answer{Code: 131000}, heard},
		"token refused":              {Answer{Action: StopNumber, Scope: ScopeApp, Code: 190}, heard},
		"no answer":                  {Answer{Title: "no answer: timed out"}, unheard},
		"a page of somebody's":       {Answer{Title: "HTTP 502 without a readable answer"}, unheard},
		"our own proxy's page":       {Answer{Local: true}, cutOff},
		"name does not resolve":      {Answer{Action: Release, Local: true}, cutOff},
		"fenced":                     {Answer{Action: Release}, noEcho},
		"a number's token file":      {Answer{Action: Release, Local: true, Scope: ScopeNumber}, noEcho},
		"no token":                   {Answer{Action: StopNumber, Scope: ScopeNumber, Local: true}, noEcho},
		"a template we cannot write": {Answer{Action: StopCampaign, Local: true}, noEcho},
	} {
		if got := tt.a.echo(); got != tt.want {
			t.Errorf("%s: %d, want %d", name, got, tt.want)
		}
	}
}

// TestLocal plays calls that end (c cut off, u unheard, h heard, n nothing said)
// and questions (A answered, v in vain, w in vain while others do well), a second each.
func TestLocal(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		play string
		want BreakerState
	}{
		"five in a row":                            {"ccccc", BreakerOpen},
		"four are not five":                        {"cccc", BreakerClosed},
		"one word of the platform's between":       {"cccchcccc", BreakerClosed},
		"what says nothing is not between":         {"ccccnc", BreakerOpen},
		"a question in vain is one of five":        {"cvvvv", BreakerOpen},
		"an answer forgives":                       {"ccccAcccc", BreakerClosed},
		"unheard are no proof":                     {"uuuuuuuuuu", BreakerClosed},
		"nor with a question in vain":              {"uuuuuvvvvv", BreakerClosed},
		"unless others do well":                    {"uuuuuw", BreakerOpen},
		"and there were five":                      {"uuuuw", BreakerClosed},
		"and nothing was heard":                    {"uuuuhuuuuw", BreakerClosed},
		"and the question was in vain":             {"uuuuuA", BreakerClosed},
		"open stays open without an answer":        {"cccccvvvvvvv", BreakerOpen},
		"calls of before do not close it":          {"ccccchhhh", BreakerOpen},
		"an answer leads to the trial":             {"cccccvA", BreakerHalfOpen},
		"a message that is heard of closes":        {"cccccAh", BreakerClosed},
		"a message that is not opens":              {"cccccAc", BreakerOpen},
		"nor one that vanishes":                    {"cccccAu", BreakerOpen},
		"a message that was not made is no answer": {"cccccAn", BreakerHalfOpen},
		"closed again, it counts anew":             {"cccccAhcccc", BreakerClosed},
		"and opens again":                          {"cccccAhccccc", BreakerOpen},
	} {
		l, now := local{failures: 5}, time.Unix(1000, 0)
		for _, what := range tt.play {
			now = now.Add(time.Second)
			switch what {
			case 'A', 'v', 'w':
				l.asked(what == 'A', false, what == 'w', now)
			default:
				l.count(map[rune]echo{'c': cutOff, 'u': unheard, 'h': heard, 'n': noEcho}[what], now, now)
			}
		}
		if l.state != tt.want {
			t.Errorf("%s: %v, want %v", name, l.state, tt.want)
		}
	}
}

func TestLocalDoublesAndForgets(t *testing.T) {
	t.Parallel()
	l, now := local{failures: 1}, time.Unix(1000, 0)
	fail := func(want time.Duration) {
		t.Helper()
		l.count(cutOff, now, now)
		if l.wait != want || l.until.Sub(now) != want || l.asks(false, now.Add(want-1)) || !l.asks(false, now.Add(want)) {
			t.Fatalf("open for %v, want %v", l.wait, want)
		}
		now = now.Add(want)
	}
	recover := func() {
		l.asked(true, false, false, now)
		l.count(heard, now, now)
		now = now.Add(time.Second)
	}
	fail(time.Second)
	for want := 2 * time.Second; want < localCap; want *= 2 {
		recover()
		fail(want) // it was closed for no time to speak of
	}
	for range 3 {
		l.asked(false, false, false, now)
		if l.wait != localCap || l.until.Sub(now) != localCap {
			t.Fatalf("open for %v, want no more than %v", l.wait, localCap)
		}
		now = now.Add(localCap)
	}
	recover()
	now = now.Add(localSteady)
	fail(time.Second)
}

// Whatever calls and questions come to: it opens only by this node's own
// failures or in doubt that was asked about, closes only by a message that was
// heard of after a question that was answered, has one message out at most, and
// never lets a call that failed while it was not closed be the platform's fault.
func TestLocalNeverMovesWithoutProof(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		l := local{failures: rapid.IntRange(1, 6).Draw(t, "failures")}
		now := time.Unix(1000, 0)
		begun, bad, mute, out := now, 0, 0, 0
		for range rapid.IntRange(0, 200).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 40_000).Draw(t, "ms")) * time.Millisecond)
			was, silent := l.state, rapid.Bool().Draw(t, "silent")
			switch rapid.IntRange(0, 3).Draw(t, "what") {
			case 0:
				if l.take() {
					out++
				}
				if was != BreakerHalfOpen && out > 0 || out > 1 {
					t.Fatalf("%d messages out in %v", out, was)
				}
			case 1:
				answered, others := rapid.Bool().Draw(t, "answered"), rapid.Bool().Draw(t, "others")
				l.asked(answered, silent, others, now)
				if !answered && was == BreakerClosed && bad > 0 {
					bad++
				}
				if answered {
					bad, mute = 0, 0
				}
				proof := map[[2]BreakerState]bool{
					{BreakerOpen, BreakerHalfOpen}: answered,
					{BreakerClosed, BreakerOpen}:   !answered && (bad >= l.failures || others && (silent || mute >= l.failures)),
				}
				if l.state != was && !proof[[2]BreakerState{was, l.state}] {
					t.Fatalf("from %v to %v by a question: answered %v, others %v, %d bad, %d mute", was, l.state, answered, others, bad, mute)
				}
			default:
				e := rapid.SampledFrom([]echo{noEcho, heard, heard, unheard, cutOff}).Draw(t, "echo")
				old := rapid.Bool().Draw(t, "old") && !l.since.IsZero()
				if begun = now; old {
					begun = l.since.Add(-1)
				}
				mine := l.count(e, begun, now)
				failed := e == cutOff || e == unheard
				if failed && !mine && (was != BreakerClosed || old || e == cutOff) {
					t.Fatalf("echo %d in %v (old: %v) counts against the platform", e, was, old)
				}
				if !failed && mine {
					t.Fatalf("echo %d is this node's own trouble", e)
				}
				if !old && was == BreakerClosed {
					switch e {
					case heard:
						bad, mute = 0, 0
					case cutOff:
						bad++
					case unheard:
						mute++
					}
				}
				proof := map[[2]BreakerState]bool{
					{BreakerClosed, BreakerOpen}:     !old && e == cutOff && bad >= l.failures,
					{BreakerHalfOpen, BreakerOpen}:   !old && failed,
					{BreakerHalfOpen, BreakerClosed}: !old && e == heard,
				}
				if l.state != was && !proof[[2]BreakerState{was, l.state}] {
					t.Fatalf("from %v to %v by echo %d (old: %v), %d bad", was, l.state, e, old, bad)
				}
			}
			if l.state != was {
				bad, mute, out = 0, 0, 0
			}
			if l.wait > localCap {
				t.Fatalf("waits %v", l.wait)
			}
		}
	})
}

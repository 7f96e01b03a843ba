package sim

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// code is what a send came to: 0 for accepted.
func code(t *testing.T, s *Sim, to string) int {
	t.Helper()
	post(s.Handler(), path, hello(to, ""))
	l := s.Ledger()
	return l[len(l)-1].Code
}

func TestThroughputIsASlidingSecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := mustNew(t, Options{Numbers: []Number{{ID: number, Throughput: 10}}})
		for i := range 10 {
			if c := code(t, s, person(i)); c != 0 {
				t.Fatalf("request %d: code %d", i, c)
			}
			time.Sleep(50 * time.Millisecond)
		}
		// 500 ms since the first: the window is full for another 500 ms.
		if c := code(t, s, person(10)); c != 130429 {
			t.Fatalf("eleventh: code %d, want 130429", c)
		}
		time.Sleep(500*time.Millisecond - 1)
		if c := code(t, s, person(11)); c != 130429 {
			t.Fatalf("1 ns early: code %d, want 130429", c)
		}
		time.Sleep(time.Nanosecond)
		if c := code(t, s, person(12)); c != 0 {
			t.Fatalf("a second after the first: code %d", c)
		}
		if c := code(t, s, person(13)); c != 130429 {
			t.Fatalf("only one left the window: code %d, want 130429", c)
		}
	})
}

func TestThroughputIsPerNumber(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := mustNew(t, Options{Numbers: []Number{{ID: "1", Throughput: 1}, {ID: "2", OnBizApp: true}}})
		count := map[string]int{}
		for i := range 30 {
			for _, n := range []string{"1", "2"} {
				if post(s.Handler(), "/"+n+"/messages", hello(person(i), "")).Code == 200 {
					count[n]++
				}
			}
		}
		if count["1"] != 1 || count["2"] != 20 {
			t.Errorf("accepted %v, want 1 and 20", count)
		}
	})
}

// A window never lets more than its limit through in any second, and never
// refuses what would fit.
func TestWindowAgainstCounting(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(1, 8).Draw(t, "limit")
		w := newWindow(limit)
		var admitted []int64
		now := int64(0)
		for range rapid.IntRange(1, 60).Draw(t, "n") {
			now += rapid.Int64Range(0, int64(400*time.Millisecond)).Draw(t, "gap")
			lower := rapid.IntRange(0, limit).Draw(t, "lower")
			recent := 0
			for _, at := range admitted {
				if now-at < int64(time.Second) {
					recent++
				}
			}
			effective := limit
			if lower > 0 {
				effective = lower
			}
			if got, want := w.admit(now, lower), recent < effective; got != want {
				t.Fatalf("at %d with %d in the last second and limit %d: %v", now, recent, effective, got)
			}
			if recent < effective {
				admitted = append(admitted, now)
			}
		}
	})
}

func TestPairLimitBorrowsFromTheFuture(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := mustNew(t, Options{})
		const to = "+16505551234"
		for i := range 20 {
			if c := code(t, s, to); c != 0 {
				t.Fatalf("message %d of the burst: code %d", i, c)
			}
		}
		time.Sleep(6 * time.Second)
		if c := code(t, s, to); c != 131056 {
			t.Fatalf("after the burst: code %d, want 131056", c)
		}
		if c := code(t, s, "+16505551235"); c != 0 {
			t.Fatalf("another recipient: code %d", c)
		}
		time.Sleep(114*time.Second - 1)
		if c := code(t, s, to); c != 131056 {
			t.Fatalf("just before two minutes: code %d, want 131056", c)
		}
		time.Sleep(time.Nanosecond)
		if c := code(t, s, to); c != 0 {
			t.Fatalf("20 messages are worth two minutes: code %d", c)
		}
	})
}

func TestPairBurstIs45(t *testing.T) {
	t.Parallel()
	l := pairLimit{pairs: map[pair]pairState{}}
	n := 0
	for i := range int64(60) {
		if l.admit(pair{1, 2}, 1+i*int64(10*time.Millisecond)) {
			n++
		}
	}
	if n != 45 {
		t.Errorf("%d in a burst, want 45", n)
	}
	for i := range int64(1000) {
		l.admit(pair{1, uint64(100 + i)}, int64(100*time.Second))
	}
	l.admit(pair{1, 3}, int64(107*time.Second))
	if got := len(l.pairs); got != 2 {
		t.Errorf("%d pairs remembered, want the one in debt and the new one", got)
	}
}

func TestLoweredThroughput(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := mustNew(t, Options{})
		if _, err := s.Misbehave(Behavior{Kind: Throttle, MPS: 3, Duration: Duration(time.Minute)}); err != nil {
			t.Fatal(err)
		}
		refused := 0
		for i := range 10 {
			if code(t, s, person(i)) == 130429 {
				refused++
			}
		}
		if refused != 7 {
			t.Errorf("refused %d of 10, want 7", refused)
		}
		time.Sleep(time.Minute)
		if c := code(t, s, person(11)); c != 0 {
			t.Errorf("after it ended: code %d", c)
		}
	})
}

func TestWorstWindowAgainstAllWindows(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var times []int64
		at := int64(0)
		for range rapid.IntRange(1, 40).Draw(t, "n") {
			at += rapid.Int64Range(0, int64(300*time.Millisecond)).Draw(t, "gap")
			times = append(times, at)
		}
		rate := float64(rapid.IntRange(1, 40).Draw(t, "rate"))
		burst := float64(rapid.IntRange(0, 5).Draw(t, "burst"))
		slack := time.Duration(rapid.IntRange(0, 100).Draw(t, "slack")) * time.Millisecond
		got := WorstWindow(times, rate, burst, slack)
		worst := -1e18
		for i := range times {
			for k := i; k < len(times); k++ {
				w := time.Duration(times[k]-times[i]) + slack
				worst = max(worst, float64(k-i+1)-burst-rate*w.Seconds())
			}
		}
		if d := got.Excess - worst; d > 1e-9 || d < -1e-9 {
			t.Fatalf("excess %v, all windows say %v", got.Excess, worst)
		}
		if got.Count != got.Last-got.First+1 || int64(got.Width) != times[got.Last]-times[got.First] {
			t.Fatalf("window %+v is not its own", got)
		}
	})
}

func TestWorstWindowOfNothing(t *testing.T) {
	t.Parallel()
	if got := WorstWindow(nil, 10, 1, 0); got != (Window{}) {
		t.Errorf("%+v", got)
	}
	// An exact pace has no excess; one request 1 ms early has 1 % of a request.
	times := []int64{0, int64(100 * time.Millisecond), int64(200 * time.Millisecond)}
	if got := WorstWindow(times, 10, 1, 0); got.Excess > 1e-9 {
		t.Errorf("exact pace: %+v", got)
	}
	times[2] -= int64(time.Millisecond)
	if got := WorstWindow(times, 10, 1, 0); got.Excess < 0.009 || got.Last != 2 {
		t.Errorf("early by 1 ms: %+v", got)
	}
}

func TestBusiestSpanAgainstCounting(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var times []int64
		at := int64(0)
		for range rapid.IntRange(0, 30).Draw(t, "n") {
			at += rapid.Int64Range(0, 5).Draw(t, "gap")
			times = append(times, at)
		}
		want := 0
		for i := range times {
			n := 0
			for _, x := range times[i:] {
				if x-times[i] < 7 {
					n++
				}
			}
			want = max(want, n)
		}
		if got := BusiestSpan(times, 7); got != want {
			t.Fatalf("%d, want %d in %v", got, want, times)
		}
	})
}

func TestNumberNodes(t *testing.T) {
	t.Parallel()
	s := strict(t)
	for _, c := range []struct {
		name, target string
		status       int
		want         string
	}{
		{"fields", "/v25.0/" + number + "?fields=throughput{level},quality_rating", 200, `{"id":"` + number + `","quality_rating":"GREEN","throughput":{"level":"STANDARD"}}`},
		{"usual fields", "/" + number, 200, `"display_phone_number":"+15550001111"`},
		{"unknown field", "/v25.0/" + number + "?fields=shoe_size", 400, "nonexisting field (shoe_size)"},
		{"unknown id", "/v25.0/12345", 400, `"error_subcode":33`},
		{"account", "/v25.0/55?fields=name", 200, "Simulated Account"},
		{"numbers", "/v25.0/55/phone_numbers?fields=id&limit=1", 200, `"next":"http://`},
		{"numbers of no account", "/v25.0/99/phone_numbers", 400, `"error_subcode":33`},
		{"templates", "/v25.0/55/message_templates?name=two&language=en_US&fields=name,status,components", 200, `"text":"Hi {{1}}, order {{2}}."`},
		{"templates, none", "/v25.0/55/message_templates?name=none", 200, `{"data":[],"paging"`},
		{"templates, page 2", "/v25.0/55/message_templates?limit=5&after=5&fields=name", 200, `"after":"9","before":"5"`},
		{"unknown path", "/v25.0/55/tea/pots", 400, `"code":2500`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			rec := get(s.Handler(), c.target)
			if rec.Code != c.status || !strings.Contains(rec.Body.String(), c.want) {
				t.Errorf("HTTP %d %s, want %d with %s", rec.Code, rec.Body, c.status, c.want)
			}
		})
	}
}

func TestUnknownTemplatesCannotBeDescribed(t *testing.T) {
	t.Parallel()
	rec := get(mustNew(t, Options{}).Handler(), "/v25.0/1/message_templates?name=anything")
	if rec.Code != 400 || !strings.Contains(rec.Body.String(), "nonexisting field (message_templates)") {
		t.Errorf("HTTP %d %s", rec.Code, rec.Body)
	}
}

// TestAutoThroughput: numbers that nobody listed get the limit that was asked
// for, not the platform's default.
func TestAutoThroughput(t *testing.T) {
	t.Parallel()
	for want, auto := range map[int]int{defaultThroughput: 0, 500: 500} {
		s, err := New(Options{AutoThroughput: auto})
		if err != nil {
			t.Fatal(err)
		}
		if got := s.world.Load().line("123").Throughput; got != want {
			t.Errorf("an unlisted number may send %d per second with AutoThroughput %d, want %d", got, auto, want)
		}
	}
}

package sim

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// campaign is a message like those of a real campaign: a header, three body
// parameters and a button.
func campaign(i int) string {
	return fmt.Sprintf(`{"messaging_product":"whatsapp","recipient_type":"individual","to":%q,"type":"template",`+
		`"biz_opaque_callback_data":"w1.%d.1.0123abcd","template":{"name":"offer","language":{"code":"en_US"},"components":[`+
		`{"type":"header","parameters":[{"type":"image","image":{"id":"1234567890"}}]},`+
		`{"type":"body","parameters":[{"type":"text","text":"Ana"},{"type":"text","text":"Friday"},{"type":"text","text":"20 %%"}]},`+
		`{"type":"button","sub_type":"url","index":"0","parameters":[{"type":"text","text":"c42/%d"}]}]}}`, person(i), i, i)
}

var offer = Template{Name: "offer", Language: "en_US", Components: []Component{
	{Type: "HEADER", Format: "IMAGE"},
	{Type: "BODY", Text: "Hi {{1}}, until {{2}} you save {{3}}."},
	{Type: "BUTTONS", Buttons: []Button{{Type: "URL", URL: "https://example.com/{{1}}"}}},
}}

func benchOptions() Options {
	return Options{
		Numbers: []Number{{ID: number, Throughput: 1_000_000}}, Templates: []Template{offer},
		AppSecret: "secret", ReadShare: 1, Sent: Spread{Jitter: 100 * time.Millisecond},
	}
}

// BenchmarkSend is the platform's own part of a send: validation, limits,
// ledger, answer. No HTTP, no webhooks.
func BenchmarkSend(b *testing.B) {
	s := mustNew(b, benchOptions())
	h := s.Handler()
	bodies := make([]string, 4096)
	for i := range bodies {
		bodies[i] = campaign(i)
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		post(h, path, bodies[i%len(bodies)])
	}
}

// BenchmarkWebhook is the making and signing of one webhook of one status.
func BenchmarkWebhook(b *testing.B) {
	o := benchOptions()
	o.WebhookURL = "http://receiver/"
	s := mustNew(b, o)
	post(s.Handler(), path, campaign(1))
	w := s.world.Load()
	batch := &batch{events: []event{{at: 1}}, world: w}
	var buf []byte
	b.ReportAllocs()
	for b.Loop() {
		u := w.updates(batch)
		buf = u.append(buf[:0])
		sign("secret", buf)
	}
}

// BenchmarkLoopback is the whole: senders over HTTP, three signed webhooks per
// message to a receiver over HTTP, all in this process. The platform's own
// share is less than half of it.
func BenchmarkLoopback(b *testing.B) {
	for _, size := range []int{1, 100} {
		b.Run(fmt.Sprint("batch=", size), func(b *testing.B) { loopback(b, size) })
	}
}

func loopback(b *testing.B, batchSize int) {
	rx := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }))
	defer rx.Close()
	o := benchOptions()
	o.WebhookURL, o.BatchSize, o.BatchInterval = rx.URL, batchSize, 50*time.Millisecond
	s := mustNew(b, o)
	ctx, cancel := context.WithCancel(b.Context())
	var wg sync.WaitGroup
	wg.Go(func() { _ = s.Run(ctx) })
	defer wg.Wait()
	defer cancel()
	server := httptest.NewServer(s.Handler())
	defer server.Close()
	transport := &http.Transport{MaxIdleConnsPerHost: 16}
	defer transport.CloseIdleConnections()
	began := cpuTime(b)
	b.ResetTimer()
	failed := flood(transport, server.URL, b.N)
	for s.world.Load().webhookCounts().Pending > 0 {
		runtime.Gosched()
		<-time.After(time.Millisecond)
	}
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "sends/s")
	b.ReportMetric(float64((cpuTime(b)-began).Microseconds())/float64(b.N), "cpu-µs/op")
	if sum := s.Summary(SummaryQuery{}); sum.Accepts != b.N || failed > 0 {
		b.Fatalf("%d of %d accepted, %v", sum.Accepts, b.N, sum.Errors)
	}
}

// cpuTime is what this process has used: on a busy machine it tells more than
// the clock.
func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// flood sends n messages from 16 senders and returns how many got no answer.
func flood(transport *http.Transport, base string, n int) int64 {
	var next, failed atomic.Int64
	var senders sync.WaitGroup
	for range 16 {
		senders.Go(func() {
			for i := next.Add(1); i <= int64(n); i = next.Add(1) {
				r, _ := http.NewRequest(http.MethodPost, base+path, strings.NewReader(campaign(int(i))))
				r.Header.Set("Authorization", "Bearer token")
				resp, err := transport.RoundTrip(r)
				if err != nil {
					failed.Add(1)
					continue
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
			}
		})
	}
	senders.Wait()
	return failed.Load()
}

// A request, with everything it leaves behind, takes at most 200 bytes.
func TestMemoryPerRequest(t *testing.T) {
	const n = 20_000
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	o := benchOptions()
	o.WebhookURL = "http://receiver/"
	s := mustNew(t, o)
	h := s.Handler()
	before := heap()
	for i := range n {
		if rec := post(h, path, campaign(i)); rec.Code != http.StatusOK {
			t.Fatal(rec.Body)
		}
	}
	s.world.Load().mu.Lock()
	s.world.Load().pairs.pairs = nil // bounded by the rate, not by the number of requests
	s.world.Load().mu.Unlock()
	per := float64(heap()-before) / n
	t.Logf("%.0f bytes per request with its pending status", per)
	if per > 200 {
		t.Errorf("%.0f bytes per request, want at most 200", per)
	}
	if got := len(s.Ledger()); got != n {
		t.Errorf("%d lines", got)
	}
}

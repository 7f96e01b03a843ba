package engine

import (
	"context"
	"testing"
	"time"
)

// endless is a Store whose claims never run dry and whose writes cost nothing,
// so that what remains is the lane's own work for a row.
type endless struct {
	*memory
	next int64
	done chan struct{}
	want int
	have int
}

func (e *endless) Claim(_ context.Context, ask Ask) ([]Recipient, error) {
	rows := make([]Recipient, ask.Free)
	for i := range rows {
		e.next++
		rows[i] = Recipient{ID: e.next, Campaign: 1, Claim: 1, Attempt: 1, Phone: "+1"}
	}
	return rows, nil
}

func (e *endless) Record(_ context.Context, _ LeaseID, results []Result, _ []int64) error {
	before := e.have
	e.have += len(results)
	if before < e.want && e.have >= e.want {
		close(e.done)
	}
	return nil
}

type prompt struct{}

func (prompt) Send(context.Context, Message) Answer {
	return Answer{Action: Accept, MessageID: "m"}
}

// BenchmarkLane is the price of a row from claim to record, paced at 10 000 a
// second. Wall time is the pace's; read the CPU profile or cpu-ns/row.
func BenchmarkLane(b *testing.B) {
	b.ReportAllocs()
	e := &endless{memory: newMemory(0, number(12_500, 0.2)), done: make(chan struct{}), want: b.N}
	e.campaign(1, 0, 0)
	o := Options{Store: e, Sender: prompt{}, ID: "bench"}.withDefaults()
	own := &trust{}
	own.extend(clocks(), time.Hour)
	l := newLane(o, LeaseID{Number: testNumber}, own, testMetrics())
	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan struct{})
	cpu := cpuTime()
	b.ResetTimer()
	go func() {
		defer close(ended)
		l.run(ctx)
	}()
	<-e.done
	b.StopTimer()
	b.ReportMetric(float64((cpuTime()-cpu).Nanoseconds())/float64(b.N), "cpu-ns/row")
	cancel()
	<-ended
}

package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/weirhq/weir/engine"
	"github.com/weirhq/weir/internal/cloudapi"
)

// contender is a way to send a campaign to everybody. It prepares itself, and
// then returns what sends: only that is timed.
type contender struct {
	name    string
	prepare func(ctx context.Context, b *Bench) (send func(context.Context) error, err error)
}

const (
	unpaced     = 50_000 // messages a second that nobody reaches
	lanes       = 4
	mostSenders = 256 // of a lane: with no latency to hide, more of them only wait
	concurrent  = 64  // calls at a time of those who send without lanes
)

// sends lets everybody send the same campaign through the same client to the
// same kind of sink, in turn, as often as there are rounds.
func (b *Bench) sends(ctx context.Context) error {
	contenders := []contender{
		{"weir, durable", durable},
		{"weir, claims and results in memory", inMemory},
		{"weir, durable, three statuses a message", withStatuses},
		{"one River job a message", riverJobs},
		{"one UPDATE before and one after each call", naive},
		{"the calls alone", callsAlone},
	}
	rates := map[string][]float64{}
	s := newSeries()
	for round := range b.opts.Rounds {
		for _, c := range contenders {
			used, err := b.timed(ctx, c)
			if err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			rate := float64(b.opts.Rows) / used.took.Seconds()
			rates[c.name] = append(rates[c.name], rate)
			s.add(c.name, "sends/s", rate)
			b.opts.Logger.InfoContext(ctx, "sent", "round", round+1, "by", c.name, "per_second", int(rate), "cpu", used.own, "postgres_cpu", used.server)
		}
	}
	for _, pair := range [][2]int{{0, 1}, {0, 3}, {0, 4}, {2, 0}, {0, 5}} {
		ours, other := contenders[pair[0]].name, contenders[pair[1]].name
		s.add(ours+" ÷ "+other, "×", median(rates[ours])/median(rates[other]))
	}
	b.tell(Sends, s)
	return nil
}

func (b *Bench) timed(ctx context.Context, c contender) (spent, error) {
	send, err := c.prepare(ctx, b)
	if err != nil {
		return spent{}, err
	}
	if err := b.exec(ctx, `CHECKPOINT`); err != nil {
		return spent{}, err
	}
	before, err := read(ctx, b.Pool())
	if err != nil {
		return spent{}, err
	}
	if err := send(ctx); err != nil {
		return spent{}, err
	}
	after, err := read(ctx, b.Pool())
	return after.since(before), err
}

// counted is a store that says when so many recipients have been accepted, or
// that one never will be: the sink takes everything, so that is a fault.
type counted struct {
	engine.Store
	want int64
	have atomic.Int64
	done chan struct{} // closed with the last
	lost chan error    // capacity 1
}

func (c *counted) Record(ctx context.Context, lease engine.LeaseID, results []engine.Result, done []int64) error {
	err := c.Store.Record(ctx, lease, results, done)
	if err == nil {
		c.count(results)
	}
	return err
}

func (c *counted) count(results []engine.Result) {
	n := int64(0)
	for _, r := range results {
		switch r.Status {
		case engine.Accepted:
			n++
		case engine.Pending: // given back; it comes again
		default:
			select {
			case c.lost <- fmt.Errorf("a message ended %s (%s): is the machine too busy to measure?", r.Status, r.Title):
			default:
			}
		}
	}
	if now := c.have.Add(n); now >= c.want && now-n < c.want {
		close(c.done)
	}
}

// wait ends with the last result, with a message that is lost, or with ctx.
func (c *counted) wait(ctx context.Context) error {
	select {
	case <-c.done:
		return nil
	case err := <-c.lost:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// weightless is a store whose claims and results never leave this process.
type weightless struct {
	*counted

	mu   sync.Mutex
	next int64
	back []int64 // given back
}

func (w *weightless) Claim(_ context.Context, ask engine.Ask) ([]engine.Recipient, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	rows := make([]engine.Recipient, 0, ask.Free)
	for len(rows) < ask.Free && (len(w.back) > 0 || w.next < w.want) {
		var id int64
		if last := len(w.back) - 1; last >= 0 {
			id, w.back = w.back[last], w.back[:last]
		} else {
			w.next++
			id = w.next
		}
		rows = append(rows, engine.Recipient{
			ID: id, Campaign: ask.Slices[0].Campaign, Claim: 1, Attempt: 1, Phone: phone(id), Values: []string{"Maria", "A-1"},
		})
	}
	return rows, nil
}

func (w *weightless) Record(_ context.Context, _ engine.LeaseID, results []engine.Result, _ []int64) error {
	w.mu.Lock()
	for _, r := range results {
		if r.Status == engine.Pending {
			w.back = append(w.back, r.Recipient)
		}
	}
	w.mu.Unlock()
	w.count(results)
	return nil
}

func durable(ctx context.Context, b *Bench) (func(context.Context) error, error) {
	return b.lanes(ctx, b.opts.Rows, func(c *counted) engine.Store { return c }, nil)
}

func inMemory(ctx context.Context, b *Bench) (func(context.Context) error, error) {
	return b.lanes(ctx, 1, func(c *counted) engine.Store { return &weightless{counted: c} }, nil)
}

// lanes prepares a node over a campaign of so many rows. Its time begins with
// the node's: taking the numbers is some 10 ms of it.
func (b *Bench) lanes(ctx context.Context, rows int, over func(*counted) engine.Store, accepted func(arrival)) (func(context.Context) error, error) {
	numbers, err := b.numbers(ctx, lanes, unpaced)
	if err != nil {
		return nil, err
	}
	if _, err := b.campaign(ctx, "sends", rows, numbers); err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		c := &counted{Store: b.Store, want: int64(b.opts.Rows), done: make(chan struct{}), lost: make(chan error, 1)}
		return b.called(ctx, 0, accepted, func(ctx context.Context, client *cloudapi.Client) error {
			n, err := engine.NewNode(engine.Options{Store: over(c), Sender: client, ID: "bench", MaxSenders: mostSenders, Logger: b.opts.Logger})
			if err != nil {
				return err
			}
			return during(ctx, n.Run, c.wait)
		})
	}, nil
}

// called lends a client and the sink that it calls.
func (b *Bench) called(ctx context.Context, latency time.Duration, accepted func(arrival), f func(context.Context, *cloudapi.Client) error) error {
	s, err := openSink(latency, accepted)
	if err != nil {
		return err
	}
	defer s.close()
	client, err := b.client(ctx, s)
	if err != nil {
		return err
	}
	defer client.Close()
	return f(ctx, client)
}

// during runs f while run runs, and ends it afterwards.
func during(ctx context.Context, run, f func(context.Context) error) error {
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- run(running) }()
	err := f(running)
	stop()
	return errors.Join(err, <-ended)
}

// errNotAccepted is what a call came to that the sink must have taken.
func errNotAccepted(a engine.Answer) error {
	return fmt.Errorf("the sink was not understood: %s %s", a.Action, a.Title)
}

func callsAlone(_ context.Context, b *Bench) (func(context.Context) error, error) {
	return func(ctx context.Context) error {
		return b.called(ctx, 0, nil, func(ctx context.Context, client *cloudapi.Client) error {
			var next atomic.Int64
			return workers(ctx, func(ctx context.Context) (more bool, err error) {
				id := next.Add(1)
				if id > int64(b.opts.Rows) {
					return false, nil
				}
				return true, call(ctx, client, id, phone(id))
			})
		})
	}, nil
}

func call(ctx context.Context, client *cloudapi.Client, id int64, to string) error {
	a := client.Send(ctx, engine.Message{Number: "1001", Recipient: id, Claim: 1, To: to, Template: &template, Values: []string{"Maria", "A-1"}})
	if a.Action != engine.Accept {
		return errNotAccepted(a)
	}
	return nil
}

// workers repeats step on as many goroutines as calls are made at a time.
func workers(ctx context.Context, step func(context.Context) (more bool, err error)) error {
	g, ctx := errgroup.WithContext(ctx)
	for range concurrent {
		g.Go(func() error {
			for {
				if more, err := step(ctx); err != nil || !more {
					return err
				}
			}
		})
	}
	return g.Wait()
}

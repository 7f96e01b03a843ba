package engine

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"
)

// outpost is one node's way to the platform, which can break.
type outpost struct {
	*ledger
	mu     sync.Mutex
	broken string // dns: no name resolves; hang: what is written vanishes; post: as hang, but questions are answered
	lost   int    // calls that vanished
	asked  int
	from   time.Time // when it was broken last
	claims int       // rows that were on their way out while it was broken, and never left
}

func (o *outpost) breaks(how string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.broken, o.from = how, time.Now()
}

// count reads one of the counters.
func (o *outpost) count(n *int) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return *n
}

func (o *outpost) way() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.broken
}

func (o *outpost) Send(ctx context.Context, m Message) Answer {
	switch o.way() {
	case "dns":
		o.mu.Lock()
		o.claims++
		o.mu.Unlock()
		pause(ctx, 5*time.Millisecond)
		return Answer{Action: Release, Local: true, Title: "nothing was sent: the API's host name does not resolve"}
	case "hang", "post":
		if m.Fence() != nil {
			return Answer{Action: Release, Title: "fenced"}
		}
		o.mu.Lock()
		o.lost++
		o.mu.Unlock()
		pause(ctx, 8*time.Second)
		return Answer{Title: "no answer: timed out"}
	default:
		return o.ledger.Send(ctx, m)
	}
}

func (o *outpost) Ping(ctx context.Context) error {
	o.mu.Lock()
	o.asked++
	o.mu.Unlock()
	switch o.way() {
	case "dns":
		return errors.New("the API's host name does not resolve")
	case "hang":
		pause(ctx, 3*time.Second)
		return errors.New("timed out")
	default:
		return nil
	}
}

// outposts has nodes join a crew, each with a way of its own.
func (f *crew) outposts(ids ...string) map[string]*outpost {
	all := make(map[string]*outpost)
	for _, id := range ids {
		o, v := &outpost{ledger: f.api}, &view{memory: f.store}
		stop := startNode(f.t, Options{
			Store: v, Sender: o, Ping: o.Ping, ID: id, FlushTimeout: time.Second,
			Logger: slog.New(slog.NewTextHandler(f.log, nil)).With("node", id),
		})
		f.store.change(func() { f.members[id] = &member{v, time.Now(), stop} })
		all[id] = o
	}
	return all
}

func (f *crew) calls(from, to time.Time) (n int) {
	for _, c := range f.api.sends() {
		if !c.at.Before(from) && c.at.Before(to) {
			n++
		}
	}
	return n
}

// untouched fails unless no breaker of the fleet moved and no attempt was used
// up beyond those that brought something.
func (f *crew) untouched() {
	f.t.Helper()
	if len(f.store.moves) > 0 {
		f.t.Errorf("the fleet's breakers moved: %+v", f.store.moves)
	}
	for i, r := range f.store.campaigns[1].rows {
		spent := 0
		if r.status == Accepted || r.status == Unknown {
			spent = 1
		}
		if r.attempt != spent {
			f.t.Errorf("row %d is %v after %d attempts", i, r.status, r.attempt)
			return
		}
	}
}

func (f *crew) settled(n int) {
	f.t.Helper()
	if got := f.store.counts(1); got[Accepted] != n {
		f.t.Errorf("%v, want all %d accepted", got, n)
	}
}

//go:build !race

package chaos

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/weirhq/weir/internal/pgtest"
)

// place is where nodes run, one after another: an address for webhooks, and
// links of its own to Postgres, to the API, and from the platform.
type place struct {
	name          string
	listen        string
	db, api, hook *link
	lives         int
	node          *node // the newest
}

// node is one life of a node: a process with a name, and an access token, that
// no other has.
type node struct {
	id   string
	cmd  *exec.Cmd
	log  *os.File
	over chan struct{} // closed when the process has ended
	err  error         // how; set before over is closed
}

func (f *fleet) place(i int) (*place, error) {
	p := &place{name: string(rune('a' + i))}
	var err error
	if p.listen, err = pgtest.Address(); err != nil {
		return nil, err
	}
	postgres, err := f.server.addr()
	if err != nil {
		return nil, err
	}
	for _, way := range []struct {
		link     **link
		name, to string
	}{{&p.db, "db", postgres}, {&p.api, "api", f.platform.addr}, {&p.hook, "hook", p.listen}} {
		if *way.link, err = newLink(f.toxiproxy, p.name+" "+way.name, way.to); err != nil {
			return nil, err
		}
	}
	f.platform.door.add(p.hook.addr())
	return p, nil
}

// start begins a new life at a place.
func (f *fleet) start(p *place) (err error) {
	p.lives++
	n := &node{id: fmt.Sprintf("%s.%d", p.name, p.lives), over: make(chan struct{})}
	if n.log, err = os.Create(filepath.Join(f.keep, n.id+".log")); err != nil {
		return fmt.Errorf("create a node's log: %w", err)
	}
	n.cmd = exec.Command(shop.weir, "serve", "--lease-ttl", f.run.TTL.String(), "--unknown-window", f.run.Window.String())
	n.cmd.Dir, n.cmd.Stderr = f.dir, n.log
	n.cmd.Env = append(os.Environ(), "WEIR_DATABASE_URL="+f.url(p.db), "WEIR_GRAPH_URL=http://"+p.api.addr(),
		"WEIR_ACCESS_TOKEN=token-"+n.id, "WEIR_APP_SECRET="+appSecret, "WEIR_VERIFY_TOKEN=hello",
		"WEIR_LISTEN="+p.listen, "WEIR_NODE_ID="+n.id, "WEIR_DATA_DIR="+f.dir)
	if err := n.cmd.Start(); err != nil {
		return fmt.Errorf("start a node: %w", err)
	}
	go func() {
		n.err = errors.Join(n.cmd.Wait(), n.log.Close())
		close(n.over)
	}()
	f.know(n.id)
	p.node = n
	return nil
}

func (n *node) signal(s syscall.Signal) error {
	if err := n.cmd.Process.Signal(s); err != nil {
		return fmt.Errorf("signal node %s: %w", n.id, err)
	}
	return nil
}

// ended waits until the process is gone.
func (n *node) ended(ctx context.Context) error {
	select {
	case <-n.over:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for node %s to end: %w", n.id, ctx.Err())
	}
}

// destroy ends the process whatever it does; it may be stopped or gone.
func (n *node) destroy() {
	_ = n.cmd.Process.Kill() // it has ended
	<-n.over
}

// ready waits until the node at the place answers that it is. One that could
// not start, as on a database that is too busy, is started again, as whoever
// supervises it would.
func (f *fleet) ready(ctx context.Context, p *place) error {
	return until(ctx, "node "+p.node.id+" is ready", func() (bool, error) {
		select {
		case <-p.node.over:
			if p.lives > 5 {
				return false, fmt.Errorf("node %s ended: %w", p.node.id, p.node.err)
			}
			return false, f.start(p)
		default:
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.listen+"/readyz", nil)
		if err != nil {
			return false, err
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			return false, nil
		}
		return res.StatusCode == http.StatusOK, res.Body.Close()
	})
}

// until asks again and again until the answer is yes or an error.
func until(ctx context.Context, what string, ok func() (bool, error)) error {
	for tick := time.NewTicker(50 * time.Millisecond); ; {
		yes, err := ok()
		if yes || err != nil {
			tick.Stop()
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			tick.Stop()
			return fmt.Errorf("wait until %s: %w", what, ctx.Err())
		}
	}
}

// hold lets a fault last.
func hold(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("hold a fault: %w", ctx.Err())
	}
}

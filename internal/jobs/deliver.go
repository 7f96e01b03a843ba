package jobs

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/riverqueue/river"

	"github.com/weirhq/weir/internal/notify"
	"github.com/weirhq/weir/internal/store"
)

const (
	// claimHold is longer than one request and its commit, and what a node that
	// was killed in the middle costs the next one.
	claimHold  = notify.DefaultTimeout + 5*time.Second
	firstRetry = 2 * time.Second // after a first failure; doubles
	lastRetry  = 5 * time.Minute
)

// queues gives each endpoint a queue of its own: only a node that knows its
// address works it, and one that hangs holds up nothing else.
func queues(opts Options) map[string]river.QueueConfig {
	all := map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 4}}
	for _, e := range opts.Endpoints {
		all[queueOf(e.Key())] = river.QueueConfig{MaxWorkers: 1}
	}
	return all
}

func queueOf(endpoint string) string { return "notices-" + endpoint }

// see says which endpoints this node knows.
func see(ctx context.Context, opts Options) error {
	if len(opts.Endpoints) == 0 {
		return nil
	}
	names := map[string]string{}
	for _, e := range opts.Endpoints {
		names[e.Key()] = e.Name()
	}
	return opts.Store.SeeEndpoints(ctx, names)
}

type tellArgs struct{}

func (tellArgs) Kind() string { return "tell" }

// tellWorker makes the jobs agree with the log of notices, as tend does with the
// campaigns. It is not unique for the same reason.
type tellWorker struct {
	desk
	steady[tellArgs]
	opts Options
}

func (w *tellWorker) Work(ctx context.Context, _ *river.Job[tellArgs]) error {
	if _, err := w.store.GatherNotices(ctx); err != nil {
		return err
	}
	if err := see(ctx, w.opts); err != nil {
		return err
	}
	due, err := w.store.DueEndpoints(ctx)
	if err != nil {
		return err
	}
	for endpoint, claim := range due {
		if err := insert(ctx, deliverArgs{Endpoint: endpoint, After: claim}); err != nil {
			return err
		}
	}
	return nil
}

// deliverArgs name the last claim too: the job that a killed node leaves running
// keeps a job of the same arguments out until it is rescued, and the next
// delivery need not wait for that.
type deliverArgs struct {
	Endpoint string `json:"endpoint"`
	After    string `json:"after"`
}

func (deliverArgs) Kind() string { return "deliver" }

func (a deliverArgs) InsertOpts() river.InsertOpts {
	opts := once()
	opts.Queue = queueOf(a.Endpoint)
	return opts
}

// deliverWorker tells one endpoint. A unique job is not mutual exclusion (a
// rescued one may still be running), and a row lock would hold a connection
// while somebody else's server thinks: so it works under a claim with a
// deadline, which each notice that was taken renews.
type deliverWorker struct {
	desk
	steady[deliverArgs]
	opts Options
}

func (w *deliverWorker) Work(ctx context.Context, job *river.Job[deliverArgs]) error {
	for _, e := range w.opts.Endpoints {
		if e.Key() != job.Args.Endpoint {
			continue
		}
		d := &delivery{desk: w.desk, endpoint: e, hold: w.opts.hold, until: time.Now().Add(w.opts.hold)}
		claim, taken, err := w.store.ClaimEndpoint(ctx, e.Key(), w.opts.hold)
		if err != nil || !taken {
			return err
		}
		d.claim = claim
		return d.run(ctx)
	}
	return nil
}

// delivery is the time between taking a claim and giving it back.
type delivery struct {
	desk
	endpoint *notify.Endpoint
	claim    store.EndpointClaim
	hold     time.Duration
	until    time.Time // no request lasts longer: another may have the claim then
}

// run tells until there is nothing left to tell, something fails, or ctx ends.
func (d *delivery) run(ctx context.Context) error {
	for {
		page, err := d.store.NoticesAfter(ctx, d.claim.Seq)
		if err != nil || len(page) == 0 {
			return errors.Join(err, d.leave(ctx))
		}
		for _, n := range page {
			told := notify.Notice{ID: n.Key, Origin: n.Origin, Seq: n.Seq, Kind: n.Kind, Subject: n.Subject, At: n.At, Facts: n.Body}
			for _, next := range withGap(d.claim.Seq, told) {
				if going, err := d.tell(ctx, next); !going {
					return err
				}
			}
		}
	}
}

// withGap puts a notice of what was dropped since last before n, if anything was.
func withGap(last int64, n notify.Notice) []notify.Notice {
	missing := n.Seq - last - 1
	if missing <= 0 {
		return []notify.Notice{n}
	}
	gap := notify.Notice{
		ID: n.ID + "-dropped", Origin: n.Origin, Seq: n.Seq - 1, Kind: notify.Dropped, Subject: "notices", At: n.At,
		Facts: fmt.Appendf(nil, `{"dropped": %d}`, missing),
	}
	return []notify.Notice{gap, n}
}

// tell sends one notice and commits that it was taken. going is false when
// nothing more may be sent under this claim.
func (d *delivery) tell(ctx context.Context, n notify.Notice) (going bool, err error) {
	sending, cancel := context.WithDeadline(ctx, d.until)
	_, err = d.endpoint.Send(sending, n)
	cancel()
	switch {
	case err != nil && ctx.Err() != nil: // this node's end, not the endpoint's failure
		return false, d.leave(ctx)
	case err != nil:
		return false, d.failed(ctx, err)
	}
	until := time.Now().Add(d.hold)
	mine, err := d.store.AdvanceEndpoint(ctx, d.claim, n.Seq, d.hold)
	if err != nil || !mine {
		return false, err
	}
	if d.claim.Failures > 0 {
		d.log.InfoContext(ctx, "notices are taken again", "endpoint", d.endpoint.Name())
	}
	d.claim.Seq, d.claim.Failures, d.until = n.Seq, 0, until
	return true, nil
}

// failed notes what came of an attempt. It is said in the log when it begins.
func (d *delivery) failed(ctx context.Context, err error) error {
	delay := backoff(d.claim.Failures, err)
	if d.claim.Failures == 0 {
		d.log.WarnContext(ctx, "a notice was not taken; trying again until it is", "endpoint", d.endpoint.Name(), "err", err)
	}
	ctx, cancel := lasting(ctx)
	defer cancel()
	return d.store.FailEndpoint(ctx, d.claim, err.Error(), delay)
}

func (d *delivery) leave(ctx context.Context) error {
	ctx, cancel := lasting(ctx)
	defer cancel()
	return d.store.LeaveEndpoint(ctx, d.claim)
}

// lasting outlives the end of a node for what gives its claims back.
func lasting(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
}

// backoff is how long to leave an endpoint alone after so many failures before
// this one: half of it fixed, half by chance, or what it asked for.
func backoff(failures int, err error) time.Duration {
	most := min(firstRetry<<min(failures, 10), lastRetry)
	wait := most/2 + rand.N(most/2)
	if refused, ok := errors.AsType[*notify.Refused](err); ok {
		wait = max(wait, min(refused.RetryAfter, lastRetry))
	}
	return wait
}

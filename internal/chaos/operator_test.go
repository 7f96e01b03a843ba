//go:build !race

package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"
)

// rounds is how often an operator acts at least: some faults are over at once,
// and the interesting time begins then.
const rounds = 5

// operate lets an operator pause and resume campaigns at random, and cancel one,
// while something else breaks the fleet. The returned function ends that: whatever is
// paused is resumed, and what could not be done once is done again.
func (f *fleet) operate(ctx context.Context) (leave func() error) {
	rng := rand.New(rand.NewPCG(f.rng.Uint64(), 1))
	working, stop := context.WithCancel(ctx)
	over := make(chan error, 1)
	go func() {
		var err error
		for done := 0; err == nil && (done < rounds || working.Err() == nil); done++ {
			if err = hold(ctx, between(rng, 500, 3000)); err == nil {
				err = f.round(ctx, rng)
			}
			if done == 1 {
				f.order(ctx, "cancel", givenUp, "--timeout", "20s") // it stands even when it is not confirmed in time
			}
		}
		over <- err
	}()
	return func() error {
		stop()
		return <-over
	}
}

// round pauses one campaign and resumes it. Its database may be away.
func (f *fleet) round(ctx context.Context, rng *rand.Rand) error {
	campaign := []string{"fail", "resend"}[rng.IntN(2)]
	f.order(ctx, "pause", campaign, "--timeout", "20s")
	if err := hold(ctx, between(rng, 300, 1500)); err != nil {
		return err
	}
	for !f.order(ctx, "resume", campaign, "--no-verify") && f.rests(ctx, campaign) {
		if err := hold(ctx, 500*time.Millisecond); err != nil {
			return fmt.Errorf("resume campaign %s: %w", campaign, err)
		}
	}
	return nil
}

// rests tells that there is something to resume, as far as one can see: a
// campaign may have ended meanwhile.
func (f *fleet) rests(ctx context.Context, campaign string) bool {
	var state string
	err := f.pool.QueryRow(ctx, "SELECT state FROM campaigns WHERE id = $1", f.ids[campaign]).Scan(&state)
	return err != nil || state == "pausing" || state == "paused"
}

// order gives one order and notes it, with whether it was carried out.
func (f *fleet) order(ctx context.Context, name, campaign string, args ...string) bool {
	call := Call{Name: name, Campaign: f.ids[campaign], At: f.now()}
	_, err := f.weir(ctx, append([]string{"campaign", name, campaign}, args...)...)
	call.Over, call.OK = f.now(), err == nil
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, call)
	return call.OK
}

func between(rng *rand.Rand, least, most int) time.Duration {
	return time.Duration(least+rng.IntN(most-least)) * time.Millisecond
}

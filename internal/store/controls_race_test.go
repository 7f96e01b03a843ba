package store

import (
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/weirhq/weir/engine"
)

// overtaken acknowledges while a statement that it must wait for is not yet
// committed, and commits that once it waits (or has not waited).
func (l *lab) overtaken(k engine.Control, sql string) {
	l.t.Helper()
	tx := begin(l.t, l.Store)
	_, err := tx.Exec(l.t.Context(), sql, pgx.QueryExecModeSimpleProtocol)
	l.must(err)
	done := make(chan error, 1)
	go func() {
		done <- l.Acknowledge(l.t.Context(), engine.Ack{Control: k, Lease: l.lease, Quarantine: labQuarantine})
	}()
	for len(done) == 0 && scalar[int](l, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`) == 0 {
	}
	l.must(tx.Commit(l.t.Context()))
	l.must(<-done)
}

// What a confirmation has seen is of its snapshot. When the order changes while
// it waits for the campaign's row, it says nothing of the new one.
func TestAConfirmationThatWaitedConfirmsNoLaterPause(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	c, k := l.pausing()
	l.overtaken(k, fmt.Sprintf(`UPDATE campaigns SET control_version = 3, control_at = now() WHERE id = %d`, c)) // resumed and paused again
	if got := l.state(c); got != "pausing" {
		t.Errorf("the later pause is %s, and nobody has acknowledged it", got)
	}
}

// An acknowledgement and a takeover exclude each other.
func TestAnAckThatWaitedForATakeoverIsVoid(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	_, k := l.pausing()
	l.overtaken(k, `UPDATE number_leases SET lease_id = gen_random_uuid()`)
	if n := scalar[int](l, `SELECT count(*) FROM campaign_acks`); n != 0 {
		t.Error("a lease that has gone has acknowledged")
	}
}

// An acknowledgement that was long on its way replaces no later one.
func TestAnAckThatWaitedReplacesNoLaterOne(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	c, k := l.pausing()
	l.overtaken(k, fmt.Sprintf(`SELECT FROM number_leases FOR UPDATE;
		UPDATE campaigns SET control_version = 3 WHERE id = %d;
		INSERT INTO campaign_acks SELECT %[1]d, number_id, lease_id, 3 FROM number_leases`, c))
	if got := l.state(c); got != "paused" {
		t.Errorf("the later pause, which was acknowledged, is %s", got)
	}
}

// A database whose clock jumps ahead calls every lease expired, for longer than
// any quarantine. It confirms nothing by that: its first look starts the
// quarantine, and the next heartbeat, or a new owner, ends it.
func TestAClockThatJumpsConfirmsNothing(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	c, _ := l.pausing()
	confirm := func(want string, watched bool) {
		t.Helper()
		_, _, err := l.ConfirmControls(t.Context(), labQuarantine)
		l.must(err)
		if got := scalar[bool](l, `SELECT silent_at IS NOT NULL FROM number_leases`); l.state(c) != want || got != watched {
			t.Errorf("%s, watched %v; want %s, %v", l.state(c), got, want, watched)
		}
	}
	const (
		lives = `UPDATE number_leases SET expires_at = now() + interval '1 h'`
		jump  = `UPDATE number_leases SET expires_at = now() - interval '1 h'`
		quiet = `UPDATE number_leases SET silent_at = silent_at - interval '5 s'`
	)
	l.exec(lives)
	confirm("pausing", false)
	l.exec(jump)
	confirm("pausing", true)
	_, err := l.Heartbeat(t.Context(), engine.Beat{Node: "node", TTL: labTTL, Leases: []engine.LeaseID{l.lease}})
	l.must(err)
	l.exec(lives)
	confirm("pausing", false)
	l.exec(jump)
	confirm("pausing", true)
	l.exec(quiet)
	l.bid(l.expired(labNumber))
	l.exec(lives)
	confirm("pausing", false)
	l.exec(jump + `, ready_at = now()`)
	confirm("pausing", true)
	l.exec(quiet)
	confirm("paused", true)
}

// Two lanes acknowledge again and again, late and twice, while others confirm and
// an operator pauses and resumes. Every pause that both have acknowledged is
// paused with no tender's help, once; one that a lane keeps silent about never is.
func TestControlRacers(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.number("1002")
	other := l.acquire("1002")
	l.exec(`UPDATE number_leases SET expires_at = now() + interval '1 h'`)
	c, _ := l.campaign(1)
	l.exec(`INSERT INTO campaign_numbers (number_id, campaign_id) VALUES ('1002', $1)`, c)
	var acked int
	for round := range 12 {
		version := int64(2*round + 1)
		l.must(l.PauseCampaign(t.Context(), c))
		whole := round%3 > 0
		race(8, func(i int) {
			ack := engine.Ack{Control: engine.Control{Campaign: c, Version: version}, Lease: l.lease, Quarantine: labQuarantine}
			var err error
			switch {
			case i%4 == 0:
				err = l.Acknowledge(t.Context(), ack)
			case i%4 == 1 && whole:
				ack.Lease = other
				err = l.Acknowledge(t.Context(), ack)
			case i%4 < 3:
				ack.Lease, ack.Version = other, version-2 // of the pause before, which was resumed
				err = l.Acknowledge(t.Context(), ack)
			default:
				_, _, err = l.ConfirmControls(t.Context(), labQuarantine)
			}
			if err != nil {
				t.Error(err)
			}
		})
		want := map[bool]string{true: "paused", false: "pausing"}[whole]
		if whole {
			acked++
		}
		if got := l.state(c); got != want {
			t.Fatalf("round %d: %s, want %s", round, got, want)
		}
		l.exec(`UPDATE campaigns SET state = 'running', control_version = control_version + 1, control_at = now(), confirmed_at = NULL`)
	}
	if n := scalar[int](l, `SELECT count(*) FROM campaign_controls`); n != acked {
		t.Errorf("%d confirmations are on record, want %d", n, acked)
	}
}

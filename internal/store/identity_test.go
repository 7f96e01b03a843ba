package store

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirhq/weir/engine"
	"github.com/weirhq/weir/internal/store/db"
)

// anotherCluster makes the database one that nobody vouches for: the operator's
// had this system identifier and was a timeline behind.
const anotherCluster = `UPDATE instance SET cluster = split_part(cluster_identity(), '.', 1) || '.00000000'`

// TestNobodyDecidesOnAnUnconfirmedDatabase: no claim, no end of a campaign and
// no policy, until an operator vouches for it. What webhooks say is recorded.
func TestNobodyDecidesOnAnUnconfirmedDatabase(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	unknown := l.doubted(engine.UnknownFails, window)
	done, over := l.one(), l.one()
	l.record(done, accept("wamid.done"))
	l.record(over, engine.Result{Status: engine.Pending, Delay: time.Hour})
	l.exec(`UPDATE campaigns SET expire_at = now() WHERE id = $1`, over.Campaign)
	waiting, first := l.campaign(2)
	l.exec(anotherCluster)

	if rows := l.claim(2, waiting); len(rows) > 0 {
		t.Errorf("claimed %d rows", len(rows))
	}
	l.resolve(Resolved{})
	for _, r := range []engine.Recipient{done, over} {
		l.finish("unconfirmed", r.Campaign, false)
		if may, err := l.MayFinish(t.Context(), r.Campaign); err != nil || may {
			t.Errorf("campaign %d may finish: %v, %v", r.Campaign, may, err)
		}
	}
	// The statements themselves, whoever asks.
	l.must(l.q.EndRecipients(t.Context(), l.pool, &db.EndRecipientsParams{Campaign: over.Campaign, Lo: over.ID, Hi: over.ID}))
	if n, err := l.q.FinishCampaign(t.Context(), l.pool, done.Campaign); err != nil || n != 0 {
		t.Errorf("finished %d campaigns: %v", n, err)
	}
	pausing, k := l.pausing()
	l.exec(`UPDATE number_leases SET expires_at = now() + interval '1 h'`)
	l.acknowledge(l.lease, k)
	if got := l.state(pausing); got != "pausing" {
		t.Errorf("a pause is %s, and its resume may have been forgotten", got)
	}
	l.want(over.ID, look{Status: "pending", Claim: 1, Attempt: 1, Due: true})
	l.hear(first, 1, "wamid.lost", engine.Delivered) // sent by a claim that this database has forgotten
	l.want(first, look{Status: "delivered", Message: "wamid.lost"})

	l.confirm()
	if rows := l.claim(2, waiting); len(rows) != 1 || rows[0].ID != first+1 {
		t.Errorf("after the confirmation: claimed %+v, want recipient %d alone", rows, first+1)
	}
	l.resolve(Resolved{Dead: 1})
	l.want(unknown.ID, look{Status: "dead", Claim: 1, Attempt: 1})
	l.finish("confirmed", done.Campaign, true)
	l.finish("confirmed", over.Campaign, true)
	if done, _, err := l.ConfirmControls(t.Context(), labQuarantine); err != nil || len(done) != 1 || l.state(pausing) != "paused" {
		t.Errorf("confirmed %+v: %v", done, err)
	}
}

// confirm vouches for the database as it is.
func (l *lab) confirm() {
	l.t.Helper()
	identity, err := l.Identity(l.t.Context())
	l.must(err)
	l.must(l.Confirm(l.t.Context(), identity.Cluster, "ana"))
}

// TestIdentity: what an operator is shown, and that no more than that is
// vouched for.
func TestIdentity(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	c, _ := l.campaign(5)
	l.claim(2, c)
	l.must(l.ReceiverSeen(t.Context(), "node", true))
	before, err := l.Identity(t.Context())
	l.must(err)
	l.exec(anotherCluster)
	got, err := l.Identity(t.Context())
	l.must(err)
	want := Identity{
		Cluster: before.Cluster, Vouched: Cluster(before.Cluster.System() + ".00000000"), ConfirmedAt: before.ConfirmedAt,
		Campaigns: 1, Waiting: 3, Ambiguous: 2,
	}
	heard := got.Heard
	got.Heard = 0
	if diff := cmp.Diff(want, got); diff != "" || heard < 0 || heard > time.Hour {
		t.Errorf("identity, heard %v ago (-want +got):\n%s", heard, diff)
	}
	if !before.Confirmed() || got.Confirmed() || before.Cluster.System() == "" || len(before.Cluster.Timeline()) != 8 {
		t.Errorf("before %+v, after %+v", before, got)
	}
	if ok, err := l.Confirmed(t.Context()); ok || err != nil {
		t.Errorf("confirmed %v: %v", ok, err)
	}
	if err := l.Confirm(t.Context(), got.Vouched, "ana"); !errors.Is(err, ErrRefused) {
		t.Errorf("vouched for another database than the one that answers: %v", err)
	}
	if ok, _ := l.Confirmed(t.Context()); ok {
		t.Error("and it took effect")
	}
	l.confirm()
	after, err := l.Identity(t.Context())
	l.must(err)
	if ok, err := l.Confirmed(t.Context()); !ok || err != nil || !after.ConfirmedAt.After(before.ConfirmedAt) {
		t.Errorf("confirmed %v at %v: %v", ok, after.ConfirmedAt, err)
	}
}

package store

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirhq/weir/engine"
)

func (l *lab) finish(name string, c int64, want bool) {
	l.t.Helper()
	got, err := l.FinishCampaign(l.t.Context(), c)
	if l.must(err); got != want {
		l.t.Errorf("%s: finished %v, want %v", name, got, want)
	}
}

func (l *lab) statuses(c int64) map[string]int {
	l.t.Helper()
	got := map[string]int{}
	rows, err := l.pool.Query(l.t.Context(), `SELECT status::text, count(*) FROM recipients WHERE campaign_id = $1 GROUP BY 1`, c)
	l.must(err)
	defer rows.Close()
	for rows.Next() {
		var status string
		var n int
		l.must(rows.Scan(&status, &n))
		got[status] = n
	}
	l.must(rows.Err())
	return got
}

// A campaign whose time is over expires what waits, again and again until no
// row can come back: what a lane or a policy gives back later too.
func TestRule20_AnExpiredCampaignEnds(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	other, _ := l.campaign(3)
	c, _ := l.campaign(10_005) // more than a piece
	taken := l.claim(3, c)
	l.record(taken[0], accept("wamid.a"))
	l.record(taken[1], engine.Result{Status: engine.Unknown, Title: "reset"})
	expect := func(name string, want map[string]int) {
		t.Helper()
		if diff := cmp.Diff(want, l.statuses(c)); diff != "" {
			t.Fatalf("%s (-want +got):\n%s", name, diff)
		}
		l.recounted()
	}
	l.exec(`UPDATE campaigns SET expire_at = now() + interval '1 h'`)
	l.finish("it lasts another hour", c, false)
	expect("it lasts another hour", map[string]int{"pending": 10_002, "accepted": 1, "unknown": 1, "sending": 1})
	l.exec(`UPDATE campaigns SET expire_at = now() WHERE id = $1`, c)
	l.finish("a call is under way", c, false)
	expect("a call is under way", map[string]int{"expired": 10_002, "accepted": 1, "unknown": 1, "sending": 1})
	l.record(taken[2], engine.Result{Status: engine.Pending, Code: 131049, Title: "not now", Delay: time.Hour})
	l.finish("an outcome is unknown", c, false)
	expect("an outcome is unknown", map[string]int{"expired": 10_003, "accepted": 1, "unknown": 1})
	l.exec(`UPDATE campaigns SET on_unknown = 'resend', max_attempts = 9`)
	l.exec(`UPDATE number_traffic SET heard_at = 'infinity'`)
	if _, err := l.ResolveUnknowns(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	expect("resend in a campaign that is over is fail", map[string]int{"expired": 10_003, "accepted": 1, "dead": 1})
	l.finish("all are settled", c, true)
	l.finish("twice", c, false)
	if diff := cmp.Diff(map[string]int{"pending": 3}, l.statuses(other)); diff != "" {
		t.Errorf("another campaign's rows (-want +got):\n%s", diff)
	}
	var titles []string
	for row, err := range l.Export(t.Context(), c) {
		if l.must(err); row.Status == engine.Expired {
			titles = append(titles, row.ErrorTitle)
		}
	}
	if diff := cmp.Diff([]string{"the campaign expired; not now", "the campaign expired"}, slices.Compact(titles)); diff != "" {
		t.Errorf("what an export says of expired rows (-want +got):\n%s", diff)
	}
}

// Only a campaign that runs or is paused expires: one that is being paused has
// requests on the wire, and a draft may still be mended.
func TestWhichCampaignsExpire(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	for _, state := range []CampaignState{Importing, Draft, Scheduled, Running, Pausing, Paused, Canceling, Canceled, Finished} {
		c, _ := l.campaign(2)
		l.exec(`UPDATE campaigns SET state = $2, expire_at = now() WHERE id = $1`, c, string(state))
		ends := state == Running || state == Paused
		l.finish(string(state), c, ends)
		if n := l.statuses(c)["expired"]; (n == 2) != ends {
			t.Errorf("%s: %d rows expired", state, n)
		}
		if n := l.statuses(c)["canceled"]; n > 0 {
			t.Errorf("%s: %d rows canceled", state, n)
		}
	}
	l.recounted()
	c, _ := l.campaign(1)
	l.exec(`UPDATE campaigns SET state = 'paused' WHERE id = $1`, c)
	l.exec(`UPDATE recipients SET status = 'dead', due_at = NULL WHERE campaign_id = $1`, c)
	l.finish("paused, and it has time", c, false)
}

package store

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirhq/weir/engine"
)

// heard is what is new in the log of notices: "kind subject" and the body.
func (l *lab) heard() (lines []string) {
	l.t.Helper()
	last := scalar[int64](l, `SELECT seq FROM notice_log`)
	_, err := l.GatherNotices(l.t.Context())
	l.must(err)
	page, err := l.NoticesAfter(l.t.Context(), last)
	l.must(err)
	for _, n := range page {
		var body any
		l.must(json.Unmarshal(n.Body, &body))
		text, err := json.Marshal(body) // in the order of the keys
		l.must(err)
		lines = append(lines, fmt.Sprintf("%s %s %s", n.Kind, n.Subject, text))
	}
	return lines
}

func (l *lab) expectTold(what string, want ...string) {
	l.t.Helper()
	if diff := cmp.Diff(want, l.heard()); diff != "" {
		l.t.Errorf("%s: told (-want +got):\n%s", what, diff)
	}
}

func (l *lab) halt(r engine.Restraint) {
	l.t.Helper()
	l.must(l.Restrain(l.t.Context(), r))
}

// A campaign that stops itself is told of, once, and so is its start after that;
// what an operator does by himself is not.
func TestACampaignsStopIsTold(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	c, _ := l.campaign(1)
	name := scalar[string](l, `SELECT name FROM campaigns WHERE id = $1`, c)
	l.exec(`INSERT INTO campaign_imports (campaign_id, file, head_sha256, size, rows_read, accepted) VALUES ($1, 'f', '', 1, 1, 1)`, c)
	who := fmt.Sprintf(`campaign:%d {"campaign":{"id":%d,"name":%q}`, c, c, name)
	for range 3 {
		l.halt(engine.Restraint{Kind: engine.HaltCampaign, Campaign: c, Code: 132001, Reason: "no such template"})
	}
	l.expectTold("stopped by itself", "campaign.stopped "+who+`,"reason":"132001: no such template"}`)
	l.exec(`INSERT INTO notices (kind, subject) VALUES ('campaign.dead_letters', 'campaign:' || $1::bigint)`, c) // does not hide the stop
	l.expectTold("given up meanwhile", fmt.Sprintf("campaign.dead_letters campaign:%d {}", c))
	start := func() {
		t.Helper()
		_, err := l.ResumeCampaign(t.Context(), c)
		l.must(err)
	}
	start()
	start()
	l.expectTold("started after that", "campaign.resumed "+who+"}")
	l.exec(`UPDATE campaigns SET state = 'paused'`) // as its operator does
	start()
	l.expectTold("paused and started by its operator")
}

// One notice of all the numbers that a refusal stopped, not of those that were
// stopped before, and none of a number that its operator stops.
func TestANumbersStopIsTold(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	for _, id := range []string{"0002", "0003"} {
		l.number(id)
	}
	running, _ := l.campaign(1)
	paused, _ := l.campaign(1)
	l.exec(`UPDATE campaigns SET name = 'spring'`+` WHERE id = $1`, running)
	l.exec(`UPDATE campaigns SET state = 'paused' WHERE id = $1`, paused)
	l.must(l.DisableNumber(t.Context(), "0003", "by the operator"))
	l.expectTold("stopped by its operator")
	for range 3 {
		l.halt(engine.Restraint{Kind: engine.HaltNumber, Scope: engine.ScopeApp, Number: labNumber, Code: 190, Reason: "token expired"})
	}
	l.expectTold("stopped by itself", `number.stopped number:1001 {"campaigns":["spring"],"numbers":["1001","0002"],"reason":"190: token expired"}`)
	for _, id := range []string{labNumber, labNumber, "0002", "0003"} {
		l.must(l.EnableNumber(t.Context(), id))
	}
	l.expectTold("enabled", `number.enabled number:1001 {"numbers":["1001"]}`)
	l.must(l.DisableNumber(t.Context(), labNumber, "by the operator"))
	l.must(l.EnableNumber(t.Context(), labNumber))
	l.expectTold("stopped and enabled by its operator")
}

func TestACampaignsEndIsTold(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	c, _ := l.campaign(3)
	l.finish("it has work", c, false)
	l.expectTold("it has work")
	l.record(l.claim(1, c)[0], accept("wamid.a"))
	for _, r := range l.claim(2, c) {
		l.record(r, engine.Result{Status: engine.Failed, Code: 131026})
	}
	l.finish("all are settled", c, true)
	l.finish("twice", c, false)
	l.exec(`UPDATE campaigns SET name = 'late'`)
	late, _ := l.campaign(2)
	l.exec(`UPDATE campaigns SET expire_at = now(), name = 'later', state = 'paused' WHERE id = $1`, late)
	l.finish("its time is over", late, true)
	dropped, _ := l.campaign(1)
	l.exec(`UPDATE campaigns SET name = 'dropped', state = 'paused' WHERE id = $1`, dropped)
	l.must(l.CancelCampaign(t.Context(), dropped))
	l.finish("it is canceled", dropped, true)
	first := scalar[string](l, `SELECT body #>> '{campaign,name}' FROM notices ORDER BY id LIMIT 1`)
	l.expectTold("ends",
		fmt.Sprintf(`campaign.finished campaign:%d {"campaign":{"id":%d,"name":%q},"counts":{"accepted":1,"failed":2}}`, c, c, first),
		fmt.Sprintf(`campaign.expired campaign:%d {"campaign":{"id":%d,"name":"later"},"counts":{"expired":2}}`, late, late),
		fmt.Sprintf(`campaign.canceled campaign:%d {"campaign":{"id":%d,"name":"dropped"},"counts":{"canceled":1}}`, dropped, dropped))
}

// move moves the host's breaker as the statement that does so would.
func (l *lab) move(state string) {
	l.t.Helper()
	l.exec(`UPDATE breakers SET state = $1, reason = 'consecutive', samples = 9, failures = 7, reporters = 2,
		open_until = CASE WHEN $1 = 'open' THEN now() + interval '3 s' END WHERE scope = 'host'`, state)
}

// Every move of a breaker is told, in order, whoever gathers; and once an
// opening that it lasts.
func TestABreakersMovesAreTold(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.campaign(1) // somebody waits
	epoch := scalar[string](l, `SELECT epoch::text FROM breakers WHERE scope = 'host'`)
	moved := func(seq int, prev, state string) string {
		return fmt.Sprintf(`breaker.%s host {"breaker":{"epoch":%q,"failures":7,"note":"","prev":%q,"reason":"consecutive","reporters":2,"samples":9,"scope":"host","seq":%d,"state":%q}}`,
			state, epoch, prev, seq, state)
	}
	lasts := func(seq int) string {
		return fmt.Sprintf(`breaker.stays_open host {"breaker":{"epoch":%q,"failures":7,"reason":"consecutive","reporters":2,"samples":9,"scope":"host","seq":%d,"state":"open"},"seconds":121}`,
			epoch, seq)
	}
	l.move("open")
	l.expectTold("opened", moved(1, "closed", "open"))
	l.expectTold("nothing new")
	l.move("half_open")
	l.move("open")
	l.exec(`UPDATE breaker_events SET at = now() - interval '119 s'`)
	l.expectTold("tried in vain", moved(2, "open", "half_open"), moved(3, "half_open", "open"))
	l.exec(`UPDATE breaker_events SET at = now() - interval '121 s'`)
	l.expectTold("for long", lasts(1))
	l.exec(`UPDATE breaker_events SET at = now() - interval '1 h'`)
	l.expectTold("for longer")
	l.move("closed")
	l.move("open")
	l.exec(`UPDATE breaker_events SET at = now() - interval '121 s' WHERE seq = 5`) // before the fourth: a server with another clock
	l.expectTold("closed, and opened again", moved(4, "open", "closed"), moved(5, "closed", "open"), lasts(5))
	l.move("closed")
	l.expectTold("closed", moved(6, "open", "closed"))
	l.exec(`DELETE FROM notices`)
	l.expectTold("what is closed does not stay open")
}

// A notice whose transaction commits late is late, and not passed over.
func TestTheLogFollowsCommits(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	slow := begin(t, l.Store)
	_, err := slow.Exec(t.Context(), `INSERT INTO notices (kind, subject) VALUES ('slow', 'x')`)
	l.must(err)
	l.exec(`INSERT INTO notices (kind, subject) VALUES ('quick', 'x')`)
	l.expectTold("one is committed", "quick x {}")
	l.must(slow.Commit(t.Context()))
	l.expectTold("the other is too", "slow x {}")
}

// Writers whose transactions end in any order, gatherers, and a follower that
// sees every number once, in order, and nothing after it was passed.
func TestTheLogHasNoGaps(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	const writers, each = 6, 25
	var writing, gathering sync.WaitGroup
	over, stop := context.WithCancel(t.Context())
	defer stop()
	for w := range writers {
		writing.Go(func() {
			for i := range each {
				_, err := l.pool.Exec(t.Context(), `WITH wait AS MATERIALIZED (SELECT pg_sleep(random() * 0.02))
					INSERT INTO notices (kind, subject) SELECT 'k', $1 FROM (SELECT nextval(pg_get_serial_sequence('notices', 'id'))) taken, wait`, fmt.Sprint(w, ".", i))
				if err != nil {
					t.Errorf("write: %v", err)
				}
			}
		})
	}
	for range 4 {
		gathering.Go(func() {
			for over.Err() == nil {
				if _, err := l.GatherNotices(t.Context()); err != nil {
					t.Errorf("gather: %v", err)
					return
				}
			}
		})
	}
	subjects := map[string]bool{}
	deadline := time.Now().Add(10 * time.Minute)
	for last := int64(0); last < writers*each; {
		page, err := l.NoticesAfter(t.Context(), last)
		l.must(err)
		for _, n := range page {
			if n.Seq != last+1 || subjects[n.Subject] {
				t.Fatalf("notice %d (%s) follows %d", n.Seq, n.Subject, last)
			}
			last, subjects[n.Subject] = n.Seq, true
		}
		if time.Now().After(deadline) {
			t.Fatalf("only %d notices were seen", last)
		}
	}
	writing.Wait()
	stop()
	gathering.Wait()
}

const labEndpoint = "0123456789abcdef0123456789abcdef"

func (l *lab) see(endpoints ...string) {
	l.t.Helper()
	names := map[string]string{}
	for _, e := range endpoints {
		names[e] = "webhook example.org"
	}
	l.must(l.SeeEndpoints(l.t.Context(), names))
}

func (l *lab) due() (endpoints []string) {
	l.t.Helper()
	due, err := l.DueEndpoints(l.t.Context())
	l.must(err)
	for e := range due {
		endpoints = append(endpoints, e)
	}
	return endpoints
}

func (l *lab) notices(n int) {
	l.t.Helper()
	l.exec(`INSERT INTO notices (kind, subject) SELECT 'k', 'x' FROM generate_series(1, $1::int)`, n)
	_, err := l.GatherNotices(l.t.Context())
	l.must(err)
}

// One at a time delivers, and only who holds the claim moves the position.
func TestEndpointClaims(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.notices(3)
	l.see(labEndpoint)
	if due := l.due(); due != nil {
		t.Fatalf("%v are due what was before them", due)
	}
	l.notices(5)
	var mu sync.Mutex
	var claims []EndpointClaim
	var racers sync.WaitGroup
	for range 8 {
		racers.Go(func() {
			c, ok, err := l.ClaimEndpoint(t.Context(), labEndpoint, time.Minute)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Errorf("claim: %v", err)
			} else if ok {
				claims = append(claims, c)
			}
		})
	}
	racers.Wait()
	if len(claims) != 1 || claims[0].Seq != 3 {
		t.Fatalf("claims %+v, want one that begins after 3", claims)
	}
	first := claims[0]
	advance := func(what string, c EndpointClaim, seq int64, want bool) {
		t.Helper()
		if ok, err := l.AdvanceEndpoint(t.Context(), c, seq, time.Minute); err != nil || ok != want {
			t.Errorf("%s: advanced %v, %v, want %v", what, ok, err, want)
		}
	}
	advance("its own claim", first, 4, true)
	advance("back", first, 4, false)
	if due := l.due(); due != nil {
		t.Errorf("%v are due while they are delivered to", due)
	}
	l.exec(`UPDATE notice_endpoints SET claimed_until = now()`) // it was too slow
	second, ok, err := l.ClaimEndpoint(t.Context(), labEndpoint, time.Minute)
	l.must(err)
	if !ok || second.Seq != 4 || second.ID == first.ID {
		t.Fatalf("taken over: %v %+v", ok, second)
	}
	advance("a claim that was lost", first, 5, false)
	l.must(l.LeaveEndpoint(t.Context(), first))
	l.must(l.FailEndpoint(t.Context(), first, "late", time.Hour))
	if due := l.due(); due != nil {
		t.Error("a lost claim gave back another's")
	}
	l.must(l.FailEndpoint(t.Context(), second, "answered 500", time.Hour))
	if _, ok, err := l.ClaimEndpoint(t.Context(), labEndpoint, time.Minute); ok || err != nil {
		t.Errorf("claimed while it is left alone: %v %v", ok, err)
	}
	l.exec(`UPDATE notice_endpoints SET retry_at = now()`)
	third, _, err := l.ClaimEndpoint(t.Context(), labEndpoint, time.Minute)
	if l.must(err); third.Failures != 1 {
		t.Errorf("%d failures, want 1", third.Failures)
	}
	advance("after a failure", third, 8, true)
	l.must(l.LeaveEndpoint(t.Context(), third))
	if due := l.due(); due != nil || scalar[int](l, `SELECT failures FROM notice_endpoints`) != 0 {
		t.Errorf("%v are due, and have been told everything", due)
	}
}

func TestWhoIsDue(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.see("a", "b", "c", "d")
	l.notices(2)
	l.exec(`UPDATE notice_endpoints SET seq = 2 WHERE endpoint = 'a'`)
	l.exec(`UPDATE notice_endpoints SET seen_at = now() - interval '2 h' WHERE endpoint IN ('b', 'c')`)
	l.see("b")
	l.exec(`UPDATE notices SET at = now() - interval '90 s' WHERE seq = 1`)
	if got := len(l.due()); got != 2 {
		t.Errorf("%d endpoints are due, want b, which was seen again, and d", got)
	}
	lag, err := l.NoticeLag(t.Context())
	if l.must(err); lag["webhook example.org"] < 89*time.Second || len(lag) != 1 {
		t.Errorf("lag %v, want 90 s", lag)
	}
}

// What is too old or too much goes, told or not; what has no number yet stays.
func TestNoticesAreBounded(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.see("old", "new")
	l.notices(NoticesKept + 5)
	l.exec(`UPDATE notices SET at = now() - interval '8 days' WHERE seq = $1`, NoticesKept-3)
	l.exec(`UPDATE notice_endpoints SET seen_at = now() - interval '8 days' WHERE endpoint = 'old'`)
	l.exec(`INSERT INTO notices (kind, subject, at) VALUES ('k', 'x', now() - interval '8 days')`) // has no number yet
	l.must(l.DropNotices(t.Context()))
	got := scalar[string](l, `SELECT format('%s of %s, from %s, endpoint %s', count(*), count(seq), min(seq),
		(SELECT string_agg(endpoint, ',') FROM notice_endpoints)) FROM notices`)
	if want := fmt.Sprintf("%d of %d, from 6, endpoint new", NoticesKept, NoticesKept-1); got != want {
		t.Errorf("kept %s, want %s", got, want)
	}
	l.notices(1)
	if got := scalar[int64](l, `SELECT max(seq) FROM notices`); got != NoticesKept+7 {
		t.Errorf("numbering goes on with %d", got)
	}
}

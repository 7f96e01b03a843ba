package store

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirhq/weir/engine"
)

// lab is a store on a database of its own, with one number and its lease.
type lab struct {
	*Store
	t     tester
	lease engine.LeaseID
	seq   int64
}

// tester is what a lab needs of *testing.T, *testing.B and *rapid.T.
type tester interface {
	Helper()
	Context() context.Context
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
	Fatal(args ...any)
}

const (
	labNumber = "1001"
	labWABA   = "9001"
	labTTL    = 10 * time.Second
	window    = 30 * time.Minute

	labBidQuarantine = 5 * time.Minute
)

func newLab(t testing.TB) *lab {
	t.Helper()
	return labOf(t, openOperator(t))
}

func labOf(t testing.TB, s *Store) *lab {
	t.Helper()
	l := &lab{Store: s, t: t}
	l.number(labNumber)
	l.lease = l.acquire(labNumber)
	return l
}

// under is the same lab for one run of a longer test, which may have let the
// lease run out.
func (l *lab) under(t tester) *lab {
	run := *l
	run.t = t
	run.exec(`UPDATE number_leases SET expires_at = now() + interval '1 h'`)
	return &run
}

func (l *lab) exec(sql string, args ...any) int64 {
	l.t.Helper()
	tag, err := l.pool.Exec(l.t.Context(), sql, args...)
	if err != nil {
		l.t.Fatalf("%s: %v", sql, err)
	}
	return tag.RowsAffected()
}

// scalar is the single value of a query.
func scalar[T any](l *lab, sql string, args ...any) T {
	l.t.Helper()
	var v T
	if err := l.pool.QueryRow(l.t.Context(), sql, args...).Scan(&v); err != nil {
		l.t.Fatalf("%s: %v", sql, err)
	}
	return v
}

func (l *lab) number(id string) {
	l.t.Helper()
	l.must(l.AddNumber(l.t.Context(), NumberInfo{Number: engine.Number{ID: id, WABA: labWABA, Limit: 80, Headroom: 0.2}}))
}

func (l *lab) must(err error) {
	l.t.Helper()
	if err != nil {
		l.t.Fatal(err)
	}
}

// acquire takes the free lease of a number.
func (l *lab) acquire(number string) engine.LeaseID {
	l.t.Helper()
	return l.bid(engine.Candidate{Number: number, Free: true}).Lease
}

// bid is for a lease that no test outlasts, on a machine however slow: what is to
// run out is made to.
func (l *lab) bid(seen engine.Candidate) engine.Grant {
	l.t.Helper()
	grant, err := l.Acquire(l.t.Context(), engine.Bid{Node: "node", Seen: seen, TTL: time.Hour, Quarantine: labBidQuarantine})
	l.must(err)
	return grant
}

// campaign is a running campaign of n due recipients for the lab's number; it
// returns its id and its first recipient's.
func (l *lab) campaign(n int) (id, first int64) {
	l.t.Helper()
	id = scalar[int64](l, `INSERT INTO campaigns (name, template, language, category, state, start_at, max_attempts, params)
		VALUES (gen_random_uuid()::text, 'hello', 'en_US', 'utility', 'running', now() - interval '1 h', 3, '[{"target": "body.1", "column": 0}]') RETURNING id`)
	l.exec(`INSERT INTO campaign_numbers (number_id, campaign_id) VALUES ($1, $2)`, labNumber, id)
	l.exec(`INSERT INTO campaign_zones (campaign_id) VALUES ($1)`, id)
	first = scalar[int64](l, `SELECT coalesce(max(id), 0) + 1 FROM recipients`)
	l.exec(`INSERT INTO recipients (id, campaign_id, due_at)
		SELECT i, $1, now() - interval '1 min' FROM generate_series($2::bigint, $3::bigint) i`, id, first, first+int64(n)-1)
	l.exec(`INSERT INTO recipient_params (id, campaign_id, line, phone, params)
		SELECT i, $1, i, '+55119' || lpad(i::text, 8, '0'), ARRAY['Ana'] FROM generate_series($2::bigint, $3::bigint) i`, id, first, first+int64(n)-1)
	l.exec(`INSERT INTO campaign_ranges (campaign_id, lo, hi) VALUES ($1, $2, $3)`, id, first, first+int64(n)-1)
	l.exec(`INSERT INTO campaign_counts VALUES ($1, 'pending', $2)`, id, n)
	return id, first
}

// ask is the next claim call of the lab's lease.
func (l *lab) ask(free int, campaigns ...int64) engine.Ask {
	l.seq++
	ask := engine.Ask{Lease: l.lease, Seq: l.seq, Free: free}
	for _, c := range campaigns {
		ask.Slices = append(ask.Slices, engine.Slice{Campaign: c, Share: free})
	}
	return ask
}

func (l *lab) claim(free int, campaigns ...int64) []engine.Recipient {
	l.t.Helper()
	return l.claimed(l.ask(free, campaigns...))
}

func (l *lab) claimed(ask engine.Ask) []engine.Recipient {
	l.t.Helper()
	rows, err := l.Claim(l.t.Context(), ask)
	l.must(err)
	return rows
}

// one is a campaign of one recipient, claimed.
func (l *lab) one() engine.Recipient {
	l.t.Helper()
	c, _ := l.campaign(1)
	rows := l.claim(1, c)
	if len(rows) != 1 {
		l.t.Fatalf("claimed %d rows, want 1", len(rows))
	}
	return rows[0]
}

// record writes one result of a claimed recipient.
func (l *lab) record(r engine.Recipient, result engine.Result) {
	l.t.Helper()
	result.Recipient, result.Campaign, result.Claim = r.ID, r.Campaign, r.Claim
	l.must(l.Record(l.t.Context(), l.lease, []engine.Result{result}, nil))
}

func accept(message string) engine.Result {
	return engine.Result{Status: engine.Accepted, MessageID: message}
}

// hear applies one status about a claim of a recipient.
func (l *lab) hear(id int64, claim int32, message string, status engine.Status) {
	l.t.Helper()
	applied, err := l.ApplyStatuses(l.t.Context(), engine.Fold([]engine.StatusUpdate{{
		Recipient: id, Claim: claim, MessageID: message, Status: status, At: time.Now(),
	}}), nil)
	l.must(err)
	if applied.Matched != 1 {
		l.t.Fatalf("status of recipient %d: %+v, want it matched", id, applied)
	}
}

// look is what a recipient's row shows.
type look struct {
	Status  string
	Claim   int
	Attempt int
	Message string
	Code    int
	Due     bool
}

func (l *lab) look(id int64) look {
	l.t.Helper()
	var v look
	l.must(l.pool.QueryRow(l.t.Context(), `SELECT status::text, claim, attempt, coalesce(message_id, ''), coalesce(error_code, 0), due_at IS NOT NULL
		FROM recipients WHERE id = $1`, id).Scan(&v.Status, &v.Claim, &v.Attempt, &v.Message, &v.Code, &v.Due))
	return v
}

func (l *lab) want(id int64, want look) {
	l.t.Helper()
	if diff := cmp.Diff(want, l.look(id)); diff != "" {
		l.t.Errorf("recipient %d (-want +got):\n%s", id, diff)
	}
}

// recounted holds every campaign's counts to its rows.
func (l *lab) recounted() {
	l.t.Helper()
	wrong := scalar[string](l, `SELECT coalesce(string_agg(format('campaign %s %s: %s rows, %s counted', campaign_id, status, rows, shown), '; '), '') FROM
		(SELECT campaign_id, status, count(*) AS rows FROM recipients GROUP BY 1, 2) r
		FULL JOIN (SELECT campaign_id, status, sum(n) AS shown FROM campaign_counts GROUP BY 1, 2) c USING (campaign_id, status)
		WHERE coalesce(rows, 0) <> coalesce(shown, 0)`)
	if wrong != "" {
		l.t.Errorf("counts: %s", wrong)
	}
}

func ids(rows []engine.Recipient) []int64 {
	var all []int64
	for _, r := range rows {
		all = append(all, r.ID)
	}
	slices.Sort(all)
	return all
}

func message(id int64, claim int32) string { return fmt.Sprintf("wamid.%d.%d", id, claim) }

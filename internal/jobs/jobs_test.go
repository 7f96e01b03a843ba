package jobs

import (
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/weirhq/weir/engine"
	"github.com/weirhq/weir/internal/pgtest"
	"github.com/weirhq/weir/internal/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// stage is a database with one campaign of two recipients, and a runner.
type stage struct {
	*store.Store
	t        *testing.T
	campaign int64
	refused  atomic.Bool // the runner has warned that it could not start
}

func newStage(t *testing.T, startAt time.Time) *stage {
	t.Helper()
	ctx := t.Context()
	s, err := store.Open(ctx, pgtest.URL(t), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	number := store.NumberInfo{Number: engine.Number{ID: "n", WABA: "w", Limit: 80, Headroom: 0.2}}
	if err := s.AddNumber(ctx, number); err != nil {
		t.Fatal(err)
	}
	id, err := s.CreateCampaign(ctx, store.CampaignSpec{
		Name: "c", StartAt: startAt, Template: engine.Template{Name: "hello", Language: "en_US"},
		Numbers: []store.CampaignNumber{{ID: "n"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	rows := func(yield func(store.ImportRow, error) bool) {
		_ = yield(store.ImportRow{Line: 2, Phone: "+4915110000001"}, nil) && yield(store.ImportRow{Line: 3, Phone: "+4915110000002"}, nil)
	}
	src := store.ImportSource{File: "f.csv", Size: 1, Head: make([]byte, 32), Rows: rows, Sum: func() []byte { return make([]byte, 32) }}
	if _, err := s.Import(ctx, id, src, store.ImportOptions{}); err != nil {
		t.Fatal(err)
	}
	return &stage{Store: s, t: t, campaign: id}
}

func (s *stage) start() {
	s.t.Helper()
	if _, err := s.StartCampaign(s.t.Context(), s.campaign, false); err != nil {
		s.t.Fatal(err)
	}
}

// run works jobs, fast, until the test ends.
func (s *stage) run() {
	s.t.Helper()
	s.runWith(Options{Store: s.Store, TendEvery: time.Second, Logger: slog.New(&ear{slog.DiscardHandler, &s.refused})})
}

func (s *stage) runWith(opts Options) {
	s.t.Helper()
	s.runUntil(context.Background(), opts)
}

// runUntil works jobs until ctx or the test ends.
func (s *stage) runUntil(ctx context.Context, opts Options) {
	s.t.Helper()
	r, err := New(opts)
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	s.t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			s.t.Errorf("runner: %v", err)
		}
	})
}

// ear hears that a runner could not start.
type ear struct {
	slog.Handler
	heard *atomic.Bool
}

func (*ear) Enabled(context.Context, slog.Level) bool { return true }

func (e *ear) Handle(_ context.Context, r slog.Record) error {
	if strings.HasPrefix(r.Message, "jobs not started yet") {
		e.heard.Store(true)
	}
	return nil
}

func (s *stage) state() store.CampaignState {
	s.t.Helper()
	c, err := s.FindCampaign(context.Background(), "c")
	if err != nil {
		s.t.Fatal(err)
	}
	return c.State
}

func (s *stage) settle() {
	s.exec(`UPDATE recipients SET status = 'dead', due_at = NULL`)
}

func (s *stage) exec(sql string) {
	s.t.Helper()
	if _, err := s.Pool().Exec(context.Background(), sql); err != nil {
		s.t.Fatal(err)
	}
}

func (s *stage) scalar(sql string) (n int64) {
	s.t.Helper()
	if err := s.Pool().QueryRow(context.Background(), sql).Scan(&n); err != nil {
		s.t.Fatal(err)
	}
	return n
}

func (s *stage) schedule(at time.Time) {
	s.t.Helper()
	if err := Schedule(s.t.Context(), s.Pool(), s.campaign, at); err != nil {
		s.t.Fatal(err)
	}
}

// becomes waits for a state.
func (s *stage) becomes(want store.CampaignState) {
	s.t.Helper()
	s.until("the campaign has not become "+string(want), func() bool { return s.state() == want })
}

// until waits for what must come about.
func (s *stage) until(complaint string, done func() bool) {
	s.t.Helper()
	deadline := time.After(5 * time.Minute)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-deadline:
			s.t.Fatal(complaint)
		case <-tick.C:
		}
	}
}

// TestStartsAtItsTimeAndFinishes: not before its time, and not before its last
// recipient is settled.
func TestStartsAtItsTimeAndFinishes(t *testing.T) {
	t.Parallel()
	at := time.Now().Add(4 * time.Second)
	s := newStage(t, at)
	s.start()
	s.schedule(at)
	s.run()
	if got := s.state(); got != store.Scheduled && time.Now().Before(at) { // a slow machine may have got here late
		t.Fatalf("the campaign is %s before its time", got)
	}
	s.becomes(store.Running)
	if early := time.Until(at); early > 0 {
		t.Errorf("the campaign started %v early", early)
	}
	if err := s.PauseCampaignUntil(t.Context(), s.campaign, time.Now()); err != nil {
		t.Fatal(err)
	}
	s.becomes(store.Running) // by itself: the pause is over
	s.exec(`UPDATE recipients SET status = 'unknown', due_at = NULL WHERE id = (SELECT min(id) FROM recipients)`)
	s.exec(`UPDATE recipients SET status = 'delivered', due_at = NULL WHERE id = (SELECT max(id) FROM recipients)`)
	s.holds(store.Running, 3*time.Second) // an unknown outcome keeps it open
	s.settle()
	s.becomes(store.Finished)
	s.until("no report is kept", func() bool { return s.scalar(`SELECT count(*) FROM campaign_reports`) == 1 })
}

// holds checks that a state does not change for a while.
func (s *stage) holds(want store.CampaignState, d time.Duration) {
	s.t.Helper()
	deadline := time.After(d)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		if got := s.state(); got != want {
			s.t.Fatalf("the campaign became %s, want it to stay %s", got, want)
		}
		select {
		case <-deadline:
			return
		case <-tick.C:
		}
	}
}

// TestLosingEveryJobLosesNothing: the campaign's row is the truth.
func TestLosingEveryJobLosesNothing(t *testing.T) {
	t.Parallel()
	at := time.Now().Add(time.Second)
	s := newStage(t, at)
	s.start()
	s.exec(`TRUNCATE river_job`) // scheduled, and no job knows of it
	s.run()
	s.becomes(store.Running)
	s.exec(`DELETE FROM river_job WHERE kind = 'finish_campaign'`)
	s.settle()
	s.becomes(store.Finished)
}

// TestAStartMayBeMoved: whichever job is first, the campaign's row decides, and
// its finish does not wait for the hour that was given up.
func TestAStartMayBeMoved(t *testing.T) {
	t.Parallel()
	for name, move := range map[string]func(*stage) time.Time{
		"to now": func(s *stage) time.Time {
			if _, err := s.StartCampaign(s.t.Context(), s.campaign, true); err != nil {
				s.t.Fatal(err)
			}
			return time.Now()
		},
		"earlier": func(s *stage) time.Time {
			at := time.Now().Add(2 * time.Second)
			if err := s.SetStart(s.t.Context(), s.campaign, at); err != nil {
				s.t.Fatal(err)
			}
			return at
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tomorrow := time.Now().Add(24 * time.Hour)
			s := newStage(t, tomorrow)
			s.start()
			s.schedule(tomorrow)
			s.schedule(move(s))
			s.run()
			s.becomes(store.Running)
			s.settle()
			s.becomes(store.Finished)
		})
	}
}

// TestExpiredCampaignsEnd: a running one, and a paused one, which nothing else
// would ever end.
func TestExpiredCampaignsEnd(t *testing.T) {
	t.Parallel()
	for _, state := range []string{"running", "paused"} {
		t.Run(state, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, time.Time{})
			s.start()
			s.exec(`UPDATE campaigns SET expire_at = now() + interval '2 s', state = '` + state + `'`)
			s.run()
			s.becomes(store.Finished)
			if n := s.scalar(`SELECT count(*) FROM recipients r, campaigns c WHERE r.status = 'expired' AND c.finished_at >= c.expire_at`); n != 2 {
				t.Errorf("%d recipients expired in time, want 2", n)
			}
		})
	}
}

// TestACancelIsCarriedOn by the tenders of two nodes: nothing of it before it is
// confirmed, then who waits is canceled, and the campaign once the last outcome
// is known.
func TestACancelIsCarriedOn(t *testing.T) {
	t.Parallel()
	s := newStage(t, time.Time{})
	s.start()
	s.exec(`UPDATE recipients SET status = 'unknown', due_at = NULL WHERE id = (SELECT min(id) FROM recipients)`)
	s.exec(`UPDATE number_leases SET lease_id = gen_random_uuid(), expires_at = now() + interval '1 h', ready_at = now()`)
	if err := s.CancelCampaign(t.Context(), s.campaign); err != nil {
		t.Fatal(err)
	}
	s.run()
	s.run()
	s.holds(store.Canceling, 3*time.Second) // its number's owner has not acknowledged
	if n := s.scalar(`SELECT count(*) FROM recipients WHERE status = 'pending'`); n != 1 {
		t.Error("a row was canceled that might be sent")
	}
	s.exec(`UPDATE number_leases SET expires_at = now() - interval '10 s'`) // it never will
	s.until("who waits is not canceled", func() bool { return s.scalar(`SELECT count(*) FROM recipients WHERE status = 'canceled'`) == 1 })
	s.holds(store.Canceling, time.Second)
	s.exec(`UPDATE recipients SET status = 'dead' WHERE status = 'unknown'`)
	s.becomes(store.Canceled)
	if n := s.scalar(`SELECT count(*) FROM campaign_controls WHERE kind = 'cancel'`); n != 1 {
		t.Errorf("%d confirmations on record", n)
	}
}

// TestAPauseOfADeadNodeIsConfirmed with nobody there to acknowledge it.
func TestAPauseOfADeadNodeIsConfirmed(t *testing.T) {
	t.Parallel()
	s := newStage(t, time.Time{})
	s.start()
	s.exec(`UPDATE number_leases SET lease_id = gen_random_uuid(), expires_at = now() - interval '3 s', ready_at = now()`)
	if err := s.PauseCampaign(t.Context(), s.campaign); err != nil {
		t.Fatal(err)
	}
	s.run()
	s.becomes(store.Paused)
	if early := s.scalar(`SELECT count(*) FROM campaigns, number_leases WHERE confirmed_at < expires_at + interval '4 s'`); early > 0 {
		t.Error("confirmed while its last bytes might still arrive")
	}
}

// TestScheduleTwiceIsOnce: and another time is another start, with its own job.
func TestScheduleTwiceIsOnce(t *testing.T) {
	t.Parallel()
	s := newStage(t, time.Time{})
	at := time.Now().Add(time.Hour)
	for range 3 {
		s.schedule(at)
	}
	if jobs := s.scalar(`SELECT count(*) FROM river_job`); jobs != 1 {
		t.Errorf("%d jobs, want one start", jobs)
	}
	s.schedule(at.Add(-time.Minute))
	if jobs := s.scalar(`SELECT count(*) FROM river_job WHERE kind = 'start_campaign'`); jobs != 2 {
		t.Errorf("%d starts after the time was changed, want both", jobs)
	}
}

// TestTwoRunnersAreOne: two nodes work the same jobs, and nothing happens twice.
func TestTwoRunnersAreOne(t *testing.T) {
	t.Parallel()
	s := newStage(t, time.Time{})
	s.start()
	s.run()
	s.run()
	s.settle()
	s.becomes(store.Finished)
	for status, want := range map[string]int64{"dead": 2, "pending": 0} {
		if n := s.scalar(`SELECT coalesce(sum(n), 0)::bigint FROM campaign_counts WHERE status = '` + status + `'`); n != want {
			t.Errorf("%d recipients are counted %s, want %d", n, status, want)
		}
	}
}

func TestNewNeedsAStore(t *testing.T) {
	t.Parallel()
	if _, err := New(Options{}); err == nil {
		t.Error("a runner without a store was made")
	}
}

package store

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weirhq/weir/engine"
)

// hearings counts the statements that hear news.
type hearings struct{ n atomic.Int64 }

func (h *hearings) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	if strings.HasPrefix(q.SQL, "-- name: Hear") {
		h.n.Add(1)
	}
	return ctx
}

func (*hearings) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// counted is the lab, its statements counted.
func (l *lab) counted(t *testing.T) (*lab, *hearings) {
	t.Helper()
	h, cfg := &hearings{}, l.pool.Config()
	cfg.ConnConfig.Tracer = h
	traced, err := pgxpool.NewWithConfig(t.Context(), cfg)
	l.must(err)
	t.Cleanup(traced.Close)
	store := *l.Store
	store.pool = &pool{Pool: traced, bound: l.pool.bound}
	run := *l
	run.Store, run.t = &store, t
	return &run, h
}

// However many words one delivery brings, of however many subjects, they are
// heard in a few statements: at most one for each kind of subject and bearing.
// The last words stand, and what they forbid stops.
func TestThousandsOfNewsAreHeardInAFewStatements(t *testing.T) {
	t.Parallel()
	l, said := fleet(t).counted(t)
	l.exec(`UPDATE numbers SET display = '+1 555 000-1111' WHERE id = '1001'`)
	c, _ := l.campaign(1)
	bye, _ := l.campaign(1)
	l.exec(`UPDATE campaigns SET template = 'bye' WHERE id = $1`, bye)
	base := time.Now().Add(-time.Hour).Truncate(time.Second)
	l.exec(`UPDATE campaigns SET control_at = $1`, base.Add(-time.Hour))
	const words = 300
	var all []engine.News
	add := func(n engine.News, change func(*engine.News)) {
		change(&n)
		all = append(all, n)
	}
	for i := range words {
		at := base.Add(time.Duration(i%100) * time.Second)
		bears := []engine.Bearing{engine.BearsGo, engine.BearsStop}[i%2]
		add(aboutTemplate(bears, fmt.Sprint("said ", i), at), func(*engine.News) {})
		add(aboutTemplate(engine.BearsStop, "PAUSED", at), func(n *engine.News) { n.Template = fmt.Sprint("other ", i) })
		add(aboutTemplate(engine.BearsWarning, "LIMIT", at), func(n *engine.News) { n.About, n.Limit = engine.AboutLimit, int64(i+1) })
		add(aboutTemplate(bears, fmt.Sprint("said ", i), at), func(n *engine.News) { n.About, n.Phone = engine.AboutNumber, "15550001111" })
		add(aboutTemplate(bears, "DISABLE", at), func(n *engine.News) { n.About, n.Account = engine.AboutAccount, fmt.Sprint("elsewhere ", i) })
	}
	add(aboutTemplate(engine.BearsStop, "PAUSED", base), func(n *engine.News) { n.Template = "bye" })
	for range 2 { // and again
		before := said.n.Load()
		l.hearsTogether(all...)
		if n := said.n.Load() - before; n == 0 || n > 12 {
			t.Errorf("%d words were heard in %d statements", len(all), n)
		}
	}
	if n := scalar[int](l, `SELECT count(*) FROM templates`); n != words+2 {
		t.Errorf("%d templates are known, want %d", n, words+2)
	}
	if got := scalar[string](l, `SELECT said FROM templates WHERE name = 'hello'`); got != "said 99" {
		t.Errorf("of the template %q stands", got)
	}
	for _, id := range []int64{c, bye} {
		if got := l.stands(id); !strings.HasPrefix(got, "pausing: Meta says that the template is ") {
			t.Errorf("the campaign is %q", got)
		}
	}
	if got := scalar[int64](l, `SELECT daily_limit FROM accounts WHERE waba_id = $1`, labWABA); got != 100 {
		t.Errorf("the limit is %d, want the lower of the last second's", got)
	}
}

// A delivery that comes again, with others and in any order, is kept once.
func TestChangesAreKeptOnce(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	const changes = 500
	var events, backwards []engine.Event
	for i := range changes {
		e := engine.Event{Key: fmt.Sprint(i), Kind: "news", Account: labWABA, Body: []byte(`{}`)}
		events, backwards = append(events, e), append([]engine.Event{e}, backwards...)
	}
	race(4, func(i int) {
		_, err := l.ApplyStatuses(t.Context(), nil, [][]engine.Event{events, backwards}[i%2])
		if err != nil {
			t.Errorf("keep: %v", err)
		}
	})
	if n := scalar[int](l, `SELECT count(*) FROM webhook_events`); n != changes {
		t.Errorf("%d events are kept of %d", n, changes)
	}
}

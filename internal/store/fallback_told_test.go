package store

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/weirhq/weir/engine"
)

// Since when a number is held is known whatever holds it, and repeats do not
// begin it anew: stops, pauses that run into each other, a breaker's probes.
func TestSinceWhenANumberIsAway(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	since := func() string {
		return scalar[string](l, `SELECT coalesce(floor(extract(epoch FROM now() - since) / 60) || ' ' || why, 'able') FROM number_absences`)
	}
	for _, step := range []struct {
		name string
		do   func()
		want string // minutes away, rounded down, or able
	}{
		{"at first", func() {}, "able"},
		{"stopped by an answer", func() {
			l.halt(engine.Restraint{Kind: engine.HaltNumber, Number: labNumber, Code: 190, Reason: "token"})
		}, "0 stopped: 190: token"},
		{"an hour later", func() { l.exec(`UPDATE numbers SET stopped_at = stopped_at - interval '1 h'`) }, "60 stopped: 190: token"},
		{"and stopped again", func() {
			l.halt(engine.Restraint{Kind: engine.HaltNumber, Number: labNumber, Code: 190, Reason: "token"})
			l.must(l.DisableNumber(t.Context(), labNumber, "by the operator"))
		}, "60 stopped: by the operator"},
		{"enabled", func() { l.must(l.EnableNumber(t.Context(), labNumber)) }, "able"},
		{"stopped by its operator", func() { l.must(l.DisableNumber(t.Context(), labNumber, "by the operator")) }, "0 stopped: by the operator"},
		{"enabled again", func() { l.must(l.EnableNumber(t.Context(), labNumber)) }, "able"},
		{"paused", func() { l.pause(time.Hour) }, "0 paused by throttles"},
		{"paused for longer, half an hour later", func() {
			l.exec(`UPDATE numbers SET paused_since = paused_since - interval '30 min'`)
			l.pause(2 * time.Hour)
		}, "30 paused by throttles"},
		{"the pause is over", func() { l.exec(`UPDATE numbers SET paused_until = now()`) }, "able"},
		{"paused anew", func() { l.pause(time.Hour) }, "0 paused by throttles"},
		{"not any more", func() { l.exec(`UPDATE numbers SET paused_until = NULL`) }, "able"},
		{"its breaker opens", func() { l.turn("open") }, "0 breaker open: consecutive"},
		{"it is probed, twenty minutes later", func() {
			l.exec(`UPDATE breakers SET away_since = away_since - interval '20 min' WHERE scope = $1`, labScope)
			l.turn("half_open")
		}, "20 breaker open: consecutive"},
		{"in vain", func() { l.turn("open") }, "20 breaker open: consecutive"},
		{"it closes", func() { l.turn("closed") }, "able"},
		{"it opens anew", func() { l.turn("open") }, "0 breaker open: consecutive"},
	} {
		step.do()
		if got := since(); got != step.want {
			t.Errorf("%s: away %q, want %q", step.name, got, step.want)
		}
	}
}

func (l *lab) pause(d time.Duration) {
	l.t.Helper()
	l.halt(engine.Restraint{Kind: engine.PauseNumber, Number: labNumber, For: d})
}

// turn moves the breaker of the lab's number.
func (l *lab) turn(state string) {
	l.t.Helper()
	l.exec(`UPDATE breakers SET state = $1, reason = 'consecutive', cause = 'consecutive' WHERE scope = $2`, state, labScope)
}

// People are told once when fallback numbers stand in, and once when they step
// back; not of what does not run, or cannot be helped.
func TestFallbacksAreTold(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.standby()
	c, _ := l.campaign(1)
	l.relayed(c)
	l.exec(`UPDATE campaigns SET name = 'spring'`)
	alone, _ := l.campaign(1) // it has none
	l.exec(`UPDATE campaigns SET name = 'alone' WHERE id = $1`, alone)
	began := fmt.Sprintf(`campaign.fallback_began campaign:%d {"campaign":{"id":%[1]d,"name":"spring"},"numbers":["1002"],"reason":"1001 stopped: payment"}`, c)
	ended := fmt.Sprintf(`campaign.fallback_ended campaign:%d {"campaign":{"id":%[1]d,"name":"spring"},"numbers":["1001"]}`, c)
	stop, enable := away(labNumber, 60), `UPDATE numbers SET enabled = true WHERE id = '1001'`
	host := func(state string) string { return `UPDATE breakers SET state = '` + state + `' WHERE scope = 'host'` }
	for _, step := range []struct {
		name, sql string
		want      []string
	}{
		{"a primary is able", `SELECT 1`, nil},
		{"stopped a moment ago", away(labNumber, 1), nil},
		{"the fallback is stopped too", stop + `UPDATE numbers SET enabled = false WHERE id = '1002'`, nil},
		{"the platform is away", `UPDATE numbers SET enabled = true WHERE id = '1002';` + host("open"), nil},
		{"it is back, and the campaign paused", host("closed") + `; UPDATE campaigns SET state = 'paused'`, nil},
		{"the campaign runs", `UPDATE campaigns SET state = 'running'`, []string{began}},
		{"still", `SELECT 1`, nil},
		{"the fallback is stopped as well", `UPDATE numbers SET enabled = false WHERE id = '1002'`, nil},
		{"the primary is back", enable, []string{ended}},
		{"still so", `SELECT 1`, nil},
		{"and away again", stop + `UPDATE numbers SET enabled = true WHERE id = '1002'`, []string{began}},
	} {
		_, err := l.pool.Exec(t.Context(), step.sql, pgx.QueryExecModeSimpleProtocol)
		l.must(err)
		var mu sync.Mutex
		told := 0
		l.exec(`DELETE FROM breaker_events`) // moves are told too
		l.racers(8, func(ctx context.Context, _ int) error {
			changes, err := l.TellFallbacks(ctx)
			mu.Lock()
			defer mu.Unlock()
			told += len(changes)
			return err
		})
		l.expectTold(step.name, step.want...)
		if told != len(step.want) {
			t.Errorf("%s: %d askers were given a change", step.name, told)
		}
	}
}

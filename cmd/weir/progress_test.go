package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/engine"
	"github.com/weirhq/weir/internal/store"
)

// TestErrorsAreCountedWithinTheirShare of the time, however many there are.
func TestErrorsAreCountedWithinTheirShare(t *testing.T) {
	t.Parallel()
	start := time.Now()
	for took, want := range map[time.Duration]time.Duration{
		0: errorsEvery, 200 * time.Millisecond: errorsEvery, time.Second: 50 * time.Second, 10 * time.Second: 500 * time.Second,
	} {
		if got := countAgain(start, start.Add(took)).Sub(start); got != want {
			t.Errorf("counted in %v, and again after %v, want %v", took, got, want)
		}
	}
}

// Whatever keeps all who wait from being sent to is said by both ways to look at
// a campaign, and no time is left then; one number that sends is enough.
func TestWaits(t *testing.T) {
	t.Parallel()
	now := time.Date(2030, 1, 2, 3, 0, 0, 0, time.UTC)
	later, stamped := now.Add(time.Hour), "2030-01-02T04:00:00Z"
	const left = "left at the configured rate"
	for name, tc := range map[string]struct {
		change func(p *progress, n1, n2 *store.Sender)
		want   string
	}{
		"nothing":         {func(*progress, *store.Sender, *store.Sender) {}, "20s " + left},
		"one sends":       {func(_ *progress, n1, _ *store.Sender) { n1.Enabled = false }, "40s " + left},
		"one pauses":      {func(_ *progress, n1, _ *store.Sender) { n1.PausedUntil = later }, "20s " + left},
		"stopped":         {func(_ *progress, n1, n2 *store.Sender) { n1.Enabled, n2.Enabled = false, false }, "number n2 is stopped: "},
		"both pause":      {func(_ *progress, n1, n2 *store.Sender) { n1.PausedUntil, n2.PausedUntil = later, later }, "number n1 pauses until " + stamped},
		"no node":         {func(_ *progress, n1, n2 *store.Sender) { n1.Owned, n2.Owned = false, false }, "no node owns number n1: is weir serve running?"},
		"breakers":        {func(_ *progress, n1, n2 *store.Sender) { n1.Breaker, n2.Breaker = "open", "half_open" }, "number n2's breaker is half open"},
		"host":            {func(_ *progress, n1, n2 *store.Sender) { n1.Host, n2.Host = "open", "open" }, "the platform's breaker is open"},
		"campaign pauses": {func(p *progress, _, _ *store.Sender) { p.campaign.Paused = time.Hour; p.campaign.Reason = "throttled" }, "pauses"},
		"window": {func(p *progress, _, _ *store.Sender) {
			p.zones = []store.ZoneGroup{{TZ: "Asia/Tokyo", Waiting: 9, Opens: later}}
			p.campaign.Window = &store.SendWindow{}
		}, "until " + stamped + " for 9 waiting in Asia/Tokyo"},
		"everything":      {func(p *progress, _, _ *store.Sender) { p.stop = store.Stop{Since: now} }, "EVERYTHING IS STOPPED"},
		"not vouched for": {func(p *progress, _, _ *store.Sender) { p.confirmed = false }, notConfirmed},
	} {
		p := &progress{at: now, asked: now, confirmed: true, counts: map[engine.Status]int{engine.Pending: 400}}
		p.campaign = store.Campaign{ID: 1, State: store.Running}
		p.campaign.Import.Accepted = 400
		for _, id := range []string{"n1", "n2"} {
			p.senders = append(p.senders, store.Sender{ID: id, Enabled: true, Owned: true, Breaker: "closed", Host: "closed"})
			p.paces = append(p.paces, store.NumberPace{Number: engine.Number{ID: id, Limit: 11, Burst: 1, Enabled: true}, Owned: true})
		}
		tc.change(p, &p.senders[0], &p.senders[1])
		var line bytes.Buffer
		(&screen{w: &line}).draw(p, false)
		for kind, said := range map[string]string{"watch": line.String(), "status": strings.Join(p.lines(now), "\n")} {
			if !strings.Contains(said, tc.want) || strings.Contains(said, left) != strings.HasSuffix(tc.want, left) {
				t.Errorf("%s: %s does not say %q and nothing against it:\n%s", name, kind, tc.want, said)
			}
		}
	}
}

// Who was never sent to is no progress, however a campaign ended.
func TestGivenUpIsNoProgress(t *testing.T) {
	t.Parallel()
	p := &progress{counts: map[engine.Status]int{engine.Read: 1000, engine.Dead: 73, engine.Canceled: 900, engine.Expired: 27}}
	p.campaign.State, p.campaign.Import.Accepted = store.Canceled, 2000
	if got := p.bar(); !strings.Contains(got, "53.6 %  1 073 of 2 000  900 canceled: not sent to  27 expired: not sent to") {
		t.Errorf("the progress of a canceled campaign: %q", got)
	}
}

package main

import (
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/sim"
)

// TestACampaignThatFailsAfterwardsStopsItself: every message is accepted, and
// every one then fails by webhook. What stops says why and what to do; after
// that is mended the rest is sent, each once, and no row is failed that no
// webhook failed.
func TestACampaignThatFailsAfterwardsStopsItself(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		code   int
		reason string
		resume []string
	}{
		"payment": {131042, "131042: payment method missing or not accepted", []string{"number", "set", scriptNumber, "--enable"}},
		"message": {132000, "132000: number of parameters does not match the template; the last ", []string{"campaign", "resume", "c", "--no-verify"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const n = 300
			s := newStage(t, sim.Options{Sent: sim.Spread{Base: 50 * time.Millisecond}, Delivered: sim.Spread{Base: 50 * time.Millisecond}})
			if _, err := s.platform.Misbehave(sim.Behavior{Kind: sim.FailLater, Code: tc.code}); err != nil {
				t.Fatal(err)
			}
			s.weir("number", "add", scriptNumber, "--waba", "w", "--limit", "4", "--no-verify")
			s.serve()
			s.campaign(n, "--no-verify")
			s.stopsBecause(tc.reason)
			s.platform.Behave(0)
			s.weir("number", "set", scriptNumber, "--limit", "80")
			s.weir(tc.resume...)
			done := s.until("finished and told", time.Minute, func(v campaignView) bool {
				return v.State == "finished" && v.Counts["failed"]+v.Counts["delivered"] == n
			})
			if failed := int64(s.failedByPlatform(tc.code)); done.Counts["failed"] != failed || failed == 0 || failed == n {
				t.Errorf("%d rows failed, the platform failed %d of %d", done.Counts["failed"], failed, n)
			}
			s.holds(n)
		})
	}
}

// stopsBecause waits until campaign status shows what stopped the campaign.
func (s *stage) stopsBecause(reason string) {
	s.t.Helper()
	for deadline := time.Now().Add(patience); ; {
		text := s.weir("campaign", "status", "c")
		if strings.Contains(text, "stopped: ") && strings.Contains(text, reason) {
			return
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("never stopped by %q:\n%s", reason, text)
		}
		<-time.After(200 * time.Millisecond)
	}
}

// failedByPlatform counts the accepted messages that the platform failed.
func (s *stage) failedByPlatform(code int) (n int) {
	for _, e := range s.platform.Ledger() {
		if e.WAMID != "" && e.FailCode == code {
			n++
		}
	}
	return n
}

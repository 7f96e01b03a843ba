package jobs

import (
	"testing"
	"time"
)

// The tender keeps the hours: a zone that is closed because nobody looked them up
// opens once a node runs.
func TestTenderKeepsTheWindows(t *testing.T) {
	t.Parallel()
	s := newStage(t, time.Time{})
	s.start()
	s.exec(`UPDATE campaigns SET send_window = '{"from": 0, "to": 1440, "days": 127, "tz": "UTC"}'`)
	s.exec(`UPDATE campaign_zones SET tz = 'UTC', closes_at = '-infinity'`)
	s.run()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(time.Minute); ; <-tick.C {
		groups, err := s.ZoneGroups(t.Context(), s.campaign)
		if err != nil {
			t.Fatal(err)
		}
		if len(groups) == 1 && groups[0].Open {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("nobody has opened the window: %+v", groups)
		}
	}
}

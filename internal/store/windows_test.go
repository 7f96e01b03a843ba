package store

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // the same zones on every machine

	"github.com/google/go-cmp/cmp"

	"github.com/weirhq/weir/engine"
)

// windowed is a running campaign of people in these zones, whose window is all
// day, every day.
func (l *lab) windowed(tz string, zones ...string) int64 {
	l.t.Helper()
	spec := spec(fmt.Sprint("windowed ", l.seq), labNumber)
	spec.Window = &SendWindow{Window: engine.Window{To: 1440, Days: engine.EveryDay}, TZ: tz}
	l.seq++
	id, err := l.CreateCampaign(l.t.Context(), spec)
	l.must(err)
	var rows []ImportRow
	for i, zone := range zones {
		rows = append(rows, ImportRow{Line: int64(i + 2), Phone: fmt.Sprintf("+55119%08d", i), Zones: zone})
	}
	_, err = l.Import(l.t.Context(), id, file(rows, whole), ImportOptions{})
	l.must(err)
	_, err = l.StartCampaign(l.t.Context(), id, false)
	l.must(err)
	return id
}

// asks for everybody, in these zones.
func (l *lab) inZones(campaign int64, zones ...int16) engine.Ask {
	ask := l.ask(100)
	for _, z := range zones {
		ask.Slices = append(ask.Slices, engine.Slice{Campaign: campaign, Zone: z, Share: 100})
	}
	return ask
}

// Nothing of a campaign with a window is claimed until somebody has looked up the
// hours, nor once they have run out; and what waits is no end of the campaign.
func TestAWindowFailsClosed(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		tz    string
		zones []string
		ids   []int16
	}{
		"one zone for all": {tz: "Asia/Kathmandu", zones: []string{"", ""}, ids: []int16{0}},
		"the recipients'":  {tz: TZRecipient, zones: []string{"UTC", "America/Chicago,America/New_York", "UTC"}, ids: []int16{1, 2}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			c := l.windowed(tt.tz, tt.zones...)
			shut := func(when string) {
				t.Helper()
				if rows := l.claimed(l.inZones(c, 0, 1, 2)); len(rows) > 0 {
					t.Errorf("%s: %d were claimed", when, len(rows))
				}
				if w, err := l.Work(t.Context(), l.lease); err != nil || len(w.Campaigns) > 0 {
					t.Errorf("%s: there is work: %+v, %v", when, w.Campaigns, err)
				}
				if may, err := l.MayFinish(t.Context(), c); err != nil || may {
					t.Errorf("%s: it may finish: %v, %v", when, may, err)
				}
				if n, err := l.Census(t.Context(), labTTL); err != nil || len(n.Candidates) > 0 {
					t.Errorf("%s: a number with nothing to send needs an owner: %+v, %v", when, n.Candidates, err)
				}
			}
			shut("before the hours were looked up")
			l.must(l.RefreshWindows(t.Context()))
			l.exec(`UPDATE campaign_zones SET closes_at = now()`) // and nobody tends it
			shut("after they had run out")
			l.exec(`UPDATE campaign_zones SET opens_at = now() + interval '1 min', closes_at = now() + interval '1 h'`)
			shut("before it opens")
			l.must(l.RefreshWindows(t.Context()))
			if n, err := l.Census(t.Context(), labTTL); err != nil || len(n.Candidates) != 1 {
				t.Errorf("the number needs an owner again: %+v, %v", n.Candidates, err)
			}
			if w, err := l.Work(t.Context(), l.lease); err != nil || len(w.Campaigns) != 1 || cmp.Diff(tt.ids, w.Campaigns[0].Zones) != "" {
				t.Errorf("open again: %+v, %v, want zones %v", w.Campaigns, err, tt.ids)
			}
			if rows := l.claimed(l.inZones(c, tt.ids...)); len(rows) != len(tt.zones) {
				t.Errorf("open again: %d of %d were claimed", len(rows), len(tt.zones))
			}
		})
	}
}

// A claim leaves the time in which its rows may still be written.
func TestAClaimEndsBeforeItsWindow(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	c, _ := l.campaign(3)
	l.exec(`UPDATE campaign_zones SET closes_at = now() + interval '10 min'`)
	ask := l.ask(1, c)
	ask.Fresh = 10*time.Minute + time.Second
	if rows := l.claimed(ask); len(rows) > 0 {
		t.Error("a row was claimed whose call may be written after the window has closed")
	}
	ask = l.ask(1, c)
	ask.Fresh = time.Second
	if rows := l.claimed(ask); len(rows) != 1 {
		t.Error("no row was claimed though its call will be written in time")
	}
}

// Whoever refreshes writes what the window says, for every campaign that may
// send; once written, nothing is written again.
func TestRefreshWindows(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	c := l.windowed(TZRecipient, "UTC", "Asia/Kathmandu")
	l.exec(`UPDATE campaigns SET send_window = '{"from": 540, "to": 1200, "days": 127, "tz": "recipient"}' WHERE id = $1`, c)
	l.must(l.RefreshWindows(t.Context()))
	zones, err := engine.Zones("Asia/Kathmandu")
	l.must(err)
	var now, opens, closes time.Time
	l.must(l.pool.QueryRow(t.Context(), `SELECT now(), opens_at, closes_at FROM campaign_zones WHERE campaign_id = $1 AND tz = 'Asia/Kathmandu'`, c).Scan(&now, &opens, &closes))
	wantOpens, wantCloses, ok := engine.Window{From: 540, To: 1200, Days: engine.EveryDay}.Open(zones, now)
	if closes.After(now) && (!ok || !opens.Equal(wantOpens) || !closes.Equal(wantCloses)) { // else it has closed this very moment
		t.Errorf("open from %v to %v, want %v to %v", opens, closes, wantOpens, wantCloses)
	}
	groups, err := l.ZoneGroups(t.Context(), c)
	if err != nil || len(groups) != 2 || groups[0].Waiting != 1 || groups[1].Waiting != 1 {
		t.Errorf("who waits where: %+v, %v", groups, err)
	}
	l.exec(`UPDATE campaign_zones SET tz = 'Europe/Nowhere', closes_at = now() WHERE tz = 'UTC'`)
	l.exec(`UPDATE campaign_zones SET closes_at = now() - interval '1 day' WHERE tz = 'Asia/Kathmandu'`)
	if err := l.RefreshWindows(t.Context()); err == nil || !strings.Contains(err.Error(), "Europe/Nowhere") {
		t.Errorf("a zone that nobody knows: %v", err)
	}
	if n := scalar[int](l, `SELECT count(*)::int FROM campaign_zones WHERE closes_at > now() - interval '1 h' AND tz = 'Asia/Kathmandu'`); n != 1 {
		t.Error("one zone's trouble kept another from being looked up")
	}
	l.exec(`UPDATE campaigns SET send_window = '{"from": 540, "to": 1200, "days": 127, "holidays": [], "tz": "x"}', state = 'finished'`)
	l.exec(`UPDATE campaign_zones SET tz = 'UTC', closes_at = '-infinity' WHERE tz = 'Europe/Nowhere'`)
	l.must(l.RefreshWindows(t.Context()))
	if n := scalar[int](l, `SELECT count(*)::int FROM campaign_zones WHERE tz = 'UTC' AND closes_at = '-infinity'`); n != 1 {
		t.Error("the hours of a campaign that is over were looked up")
	}
}

// An import that goes on gives a zone the number that it had.
func TestImportKeepsItsZones(t *testing.T) {
	t.Parallel()
	s := openOperator(t)
	addNumber(t, s, "n1")
	c := spec("c", "n1")
	c.Window = &SendWindow{Window: engine.Window{To: 1440, Days: engine.EveryDay}, TZ: TZColumn + "tz"}
	id, err := s.CreateCampaign(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	var rows []ImportRow
	for i, zone := range []string{"UTC", "Asia/Tokyo", "UTC", "Asia/Kathmandu", "Asia/Tokyo", "UTC"} {
		rows = append(rows, ImportRow{Line: int64(i + 2), Phone: fmt.Sprintf("+55119%08d", i), Zones: zone})
	}
	opts := ImportOptions{BatchRows: 2}
	if _, err := s.Import(t.Context(), id, file(rows, 3), opts); !errors.Is(err, errCut) {
		t.Fatal(err)
	}
	other := append([]ImportRow{}, rows...)
	other[0].Zones = "Asia/Tokyo"
	if _, err := s.Import(t.Context(), id, file(other, whole), opts); !errors.Is(err, ErrRefused) {
		t.Errorf("a row in another zone than before: %v", err)
	}
	opts.phones = saturated() // the other way in
	if _, err := s.Import(t.Context(), id, file(rows, whole), opts); err != nil {
		t.Fatal(err)
	}
	if n := count(t, s, `SELECT count(*) FROM recipients r JOIN recipient_params p ON p.id = r.id JOIN campaign_zones z ON z.campaign_id = r.campaign_id AND z.zone = r.zone
		WHERE r.campaign_id = $1 AND z.tz = (ARRAY['UTC', 'Asia/Tokyo', 'UTC', 'Asia/Kathmandu', 'Asia/Tokyo', 'UTC'])[p.line - 1]`, id); n != int64(len(rows)) {
		t.Errorf("%d of %d rows are in their zone", n, len(rows))
	}
	c.Name = "d"
	if id, err = s.CreateCampaign(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Import(t.Context(), id, file([]ImportRow{{Line: 2, Phone: "+5511900000001"}}, whole), opts); !errors.Is(err, ErrRefused) {
		t.Errorf("a row without a zone, which would wait for ever: %v", err)
	}
}

func TestWindowsThatMakeNoSense(t *testing.T) {
	t.Parallel()
	s := openOperator(t)
	addNumber(t, s, "n1")
	for name, w := range map[string]SendWindow{
		"no hours": {TZ: TZRecipient, Window: engine.Window{Days: engine.EveryDay}},
		"no zone":  {Window: engine.Window{To: 60, Days: engine.EveryDay}},
		"a place":  {TZ: "Berlin", Window: engine.Window{To: 60, Days: engine.EveryDay}},
	} {
		c := spec("c", "n1")
		c.Window = &w
		if _, err := s.CreateCampaign(t.Context(), c); !errors.Is(err, ErrRefused) {
			t.Errorf("%s: %v, want ErrRefused", name, err)
		}
	}
}

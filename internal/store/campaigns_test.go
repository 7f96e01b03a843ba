package store

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/weirhq/weir/engine"
)

func TestCreateCampaign(t *testing.T) {
	t.Parallel()
	s := openOperator(t)
	addNumber(t, s, "n1")
	addNumber(t, s, "n2")
	c := CampaignSpec{
		Name: "spring sale", Columns: []string{"name"}, Priority: 3, OnUnknown: engine.UnknownHolds, Retry: engine.Retry{MaxAttempts: 7, Jitter: engine.DecorrelatedJitter},
		Template: engine.Template{
			Name: "sale", Language: "pt_BR", Category: engine.Utility,
			Params: []engine.Param{{Target: "body.1", Column: 0}, {Target: "header.image", Column: -1, Literal: "https://x/y.png"}},
		},
		Numbers: []CampaignNumber{{ID: "n2"}, {ID: "n1", Fallback: true}}, Fallback: Fallback{Wait: 90 * time.Second, After: 6},
		StartAt: time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC), ExpireAt: time.Date(2030, 1, 3, 0, 0, 0, 0, time.UTC),
	}
	id, err := s.CreateCampaign(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	want := Campaign{CampaignSpec: c, ID: id, State: Importing}
	for _, ref := range []string{"spring sale", fmt.Sprint(id)} {
		got, err := s.FindCampaign(t.Context(), ref)
		if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(Campaign{}, "CreatedAt"), cmpopts.EquateApproxTime(0)); err != nil || diff != "" {
			t.Errorf("find %q: %v, (-want +got):\n%s", ref, err, diff)
		}
	}
	if n := count(t, s, "SELECT count(*) FROM campaign_zones WHERE campaign_id = $1 AND zone = 0 AND opens_at <= now() AND closes_at > now()", id); n != 1 {
		t.Error("no open zone: nothing of it could be claimed")
	}
	for _, ref := range []string{"", "spring", fmt.Sprint(id + 1), "-1"} {
		if _, err := s.FindCampaign(t.Context(), ref); !errors.Is(err, ErrNotFound) {
			t.Errorf("find %q: %v, want ErrNotFound", ref, err)
		}
	}
}

func TestCreateCampaignRefused(t *testing.T) {
	t.Parallel()
	s := openOperator(t)
	addNumber(t, s, "n1")
	addNumber(t, s, "n2")
	for name, change := range map[string]func(*CampaignSpec){
		"no name":             func(c *CampaignSpec) { c.Name = "" },
		"spaces":              func(c *CampaignSpec) { c.Name = " x" },
		"line break":          func(c *CampaignSpec) { c.Name = "x\ny" },
		"digits":              func(c *CampaignSpec) { c.Name = "2026" },
		"no template":         func(c *CampaignSpec) { c.Template.Name = "" },
		"no language":         func(c *CampaignSpec) { c.Template.Language = "" },
		"category":            func(c *CampaignSpec) { c.Template.Category = "spam" },
		"policy":              func(c *CampaignSpec) { c.OnUnknown = "pray" },
		"attempts":            func(c *CampaignSpec) { c.MaxAttempts = 101 },
		"jitter":              func(c *CampaignSpec) { c.Jitter = "none" },
		"priority":            func(c *CampaignSpec) { c.Priority = 1 << 40 },
		"expires first":       func(c *CampaignSpec) { c.StartAt = time.Now(); c.ExpireAt = c.StartAt },
		"no number":           func(c *CampaignSpec) { c.Numbers = nil },
		"fallback only":       func(c *CampaignSpec) { c.Numbers[0].Fallback = true },
		"both":                func(c *CampaignSpec) { c.Numbers = append(c.Numbers, CampaignNumber{ID: "n1", Fallback: true}) },
		"unknown fallback":    func(c *CampaignSpec) { c.Numbers = append(c.Numbers, CampaignNumber{ID: "n9", Fallback: true}) },
		"no wait to speak of": func(c *CampaignSpec) { c.Fallback.Wait = time.Second - 1 },
		"a wait for days":     func(c *CampaignSpec) { c.Fallback.Wait = 24*time.Hour + 1 },
		"after less than none": func(c *CampaignSpec) {
			c.Numbers, c.Fallback.After = append(c.Numbers, CampaignNumber{ID: "n2", Fallback: true}), -1
		},
		"after the last": func(c *CampaignSpec) {
			c.Numbers, c.Fallback.After = append(c.Numbers, CampaignNumber{ID: "n2", Fallback: true}), 5
		},
		"after, and none":  func(c *CampaignSpec) { c.Fallback.After = 1 },
		"a number twice":   func(c *CampaignSpec) { c.Numbers = append(c.Numbers, c.Numbers[0]) },
		"unknown number":   func(c *CampaignSpec) { c.Numbers = append(c.Numbers, CampaignNumber{ID: "n9"}) },
		"no such a column": func(c *CampaignSpec) { c.Template.Params = []engine.Param{{Target: "body.1", Column: 5}} },
	} {
		c := spec("c", "n1")
		change(&c)
		if _, err := s.CreateCampaign(t.Context(), c); !errors.Is(err, ErrRefused) {
			t.Errorf("%s: %v, want ErrRefused", name, err)
		}
	}
	if n := count(t, s, "SELECT count(*) FROM campaigns"); n != 0 {
		t.Errorf("%d campaigns were made by refused requests", n)
	}
}

func TestCampaignNameInUse(t *testing.T) {
	t.Parallel()
	s := openOperator(t)
	newCampaign(t, s, "c")
	for state, says := range map[CampaignState]string{Importing: "import the same file again", Draft: "start it, or drop it", Running: "choose another name"} {
		exec(t, s, "UPDATE campaigns SET state = $1", string(state))
		_, err := s.CreateCampaign(t.Context(), spec("c", "n1"))
		if !errors.Is(err, ErrExists) || !strings.Contains(err.Error(), string(state)) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want ErrExists that says %q", state, err, says)
		}
	}
}

func TestCampaignsByState(t *testing.T) {
	t.Parallel()
	s := openOperator(t)
	for _, name := range []string{"a", "b", "c"} {
		newCampaign(t, s, name)
	}
	exec(t, s, "UPDATE campaigns SET state = 'running' WHERE name = 'b'")
	names := func(states ...CampaignState) string {
		list, err := s.Campaigns(t.Context(), states...)
		if err != nil {
			t.Fatal(err)
		}
		all := ""
		for _, c := range list {
			all += c.Name
		}
		return all
	}
	if got := names(); got != "cba" {
		t.Errorf("all: %q, want newest first", got)
	}
	if got := names(Running, Paused); got != "b" {
		t.Errorf("running or paused: %q", got)
	}
}
